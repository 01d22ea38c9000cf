"""A run from its start to its save: the order of its steps, and those that look at no page."""
