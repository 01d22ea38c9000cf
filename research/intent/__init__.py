"""What of a topic's changes is worth telling: its intent, by a model or by rule."""
