"""Leaving and coming back: the trash, and forgetting what a source or an address brought."""
