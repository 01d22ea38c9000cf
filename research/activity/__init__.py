"""Activity: everything that happened, as one stream of lines."""
