"""The shape of the weights; what they are stands in `vector_weights.py` and `word_weights.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """`align`: that a sentence speaks of a fact; `relate`: how; `new` and `noise`: of none."""

    align: dict[str, float]
    relate: dict[str, dict[str, float]]
    new: dict[str, float]
    noise: dict[str, float]
