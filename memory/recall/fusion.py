"""How the two lanes of recall become one order: words (BM25) and meaning (vectors).

Both are brought to 0..1 by what they could be at most, not by the best hit at hand: so a value
means the same for every question, and a lane that found nothing good says little.  Measured with
benchmarks/recall_quality.py beside rank fusion and scaling per question (docs/dev/benchmarks.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

DEPTH = 100  # hits of each lane that are fused; with 30 the order was seen to be worse
MEANING_OF_LONG = 0.5  # the share of the meaning among records of LONG terms and more
MEANING_OF_SHORT = 0.35  # a turn of a few words has a poor vector, and says it in so many words
LONG = 42.0  # terms a record, on average
SHORT = 18.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a question and the records that it is asked of look like.

    `best_possible` is the raw BM25 that no record can reach, `average_length` is in terms.
    """

    best_possible: float = 0.0
    average_length: float = 0.0


def words_value(raw: float, shape: Shape) -> float:
    """Return a raw BM25 score as a share of the best possible one, 0 to 1."""
    if shape.best_possible <= 0 or raw <= 0:
        return 0.0
    return min(1.0, raw / shape.best_possible)


def meaning_value(distance: float) -> float:
    """Return the cosine of two vectors of length 1 by their L2 distance, 0 where it is negative."""
    return min(1.0, max(0.0, 1.0 - distance * distance / 2.0))


def meaning_share(average_length: float) -> float:
    """Return how much of a fused value comes from the meaning; the words have the rest."""
    if average_length <= 0:
        return MEANING_OF_LONG
    place = math.log(average_length / SHORT) / math.log(LONG / SHORT)
    return MEANING_OF_SHORT + (MEANING_OF_LONG - MEANING_OF_SHORT) * min(1.0, max(0.0, place))


def fused(
    words: Mapping[Key, float], meaning: Mapping[Key, float], shape: Shape
) -> dict[Key, float]:
    """Return a value of 0 to 1 for each record that a lane found: raw BM25s, and L2 distances.

    A record that a lane did not find gets nothing from it.  The lanes are of one record type.
    """
    share = meaning_share(shape.average_length)
    values: dict[Key, float] = {}
    for key, raw in words.items():
        values[key] = (1 - share) * words_value(raw, shape)
    for key, distance in meaning.items():
        values[key] = values.get(key, 0.0) + share * meaning_value(distance)
    return values
