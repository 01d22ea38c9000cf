"""What one sentence says of another. Nothing here knows a record."""
