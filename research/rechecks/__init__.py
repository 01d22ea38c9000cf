"""Holding stale facts against their sources again: a small run without plan and model."""
