"""Observations (seed 001): remembering and correcting them, and one interface with two stores."""

from __future__ import annotations

from memory.services.observations.lines import Line, batch
from memory.services.observations.saving import (
    Remembered,
    edit_observation,
    remember_lines,
    write_observation,
)

__all__ = [
    "Line",
    "Remembered",
    "batch",
    "edit_observation",
    "remember_lines",
    "write_observation",
]
