"""What follows the save of a run: each on its own, repeatable, its failure a warning (decision 7)."""

from __future__ import annotations
