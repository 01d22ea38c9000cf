"""Text itself: cleaned, measured, split, compared, rendered. Nothing here knows a record."""
