"""Ranked search over what is remembered."""
