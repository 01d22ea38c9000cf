"""Memory files: their limits, how they are read, saved, joined, blamed, and copied to the disk."""
