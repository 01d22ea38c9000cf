"""What runs of a topic obey: its settings, as they are edited, and its standing rules."""
