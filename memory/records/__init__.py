"""One remembered record, a list of them, and taking back what was done to them."""
