"""What does not go together: found, shown side by side, settled, and taken back."""
