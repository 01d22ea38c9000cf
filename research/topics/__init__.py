"""Topics: made, listed, changed, and the rules that their runs obey."""
