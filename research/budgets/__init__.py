"""What a run and a month may take, and what the next will."""
