"""Notes: written, checked, merged, kept in order."""
