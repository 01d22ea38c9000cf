"""Memory files: their names and limits, how they are read, saved, joined, and blamed."""
