"""Runs as pages show them, and how one is removed."""
