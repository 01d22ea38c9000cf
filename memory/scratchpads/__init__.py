"""The scratchpad: its entries, and its list."""
