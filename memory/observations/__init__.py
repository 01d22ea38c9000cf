"""Observations (seed 001): remembering and correcting them, and one interface with two stores."""

from __future__ import annotations

from memory.observations.lines import Line, batch
from memory.observations.services import (
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
