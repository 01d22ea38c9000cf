"""When topics run again, and what was missed."""
