"""Depth `deep`: tracks of agent loops over the content store (design.md 4)."""
