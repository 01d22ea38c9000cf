"""Where a topic's facts come from, and how each place is treated."""
