"""A topic's facts: edited, corrected, gone stale, and drawn over its runs."""
