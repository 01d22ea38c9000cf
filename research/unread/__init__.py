"""What is new since somebody last read."""
