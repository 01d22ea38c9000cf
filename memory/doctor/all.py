"""What memory has the doctor look at."""

from __future__ import annotations

from memory.doctor import disk, examining, history, search_index, site, triggers, vectors, work


def register() -> None:
    """Tell the doctor, in the order in which it looks: what the rest stands on first."""
    for part in (site, triggers, search_index, vectors, history, work, disk):
        examining.register(*part.EXAMINATIONS)
