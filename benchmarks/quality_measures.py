"""Measures of a ranking, standard library only; relevance is yes or no."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

MEASURES = ("recall@10", "mrr@10", "ndcg@10")


def measure(ranked: Sequence[str], relevant: Iterable[str], k: int = 10) -> dict[str, float]:
    """Return the measures of one ranking."""
    wanted = set(relevant)
    places = [place for place, doc in enumerate(ranked[:k], 1) if doc in wanted]
    best = sum(1 / math.log2(place + 1) for place in range(1, min(len(wanted), k) + 1))
    return {
        "recall@10": len(places) / len(wanted),
        "mrr@10": 1 / places[0] if places else 0.0,
        "ndcg@10": sum(1 / math.log2(place + 1) for place in places) / best,
    }


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def paired_interval(
    ours: Sequence[float], theirs: Sequence[float], rounds: int = 2000, seed: int = 7
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean difference over the same questions."""
    rng = random.Random(seed)
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    n = len(differences)
    means = sorted(sum(rng.choices(differences, k=n)) / n for _ in range(rounds))
    return means[int(0.025 * rounds)], means[int(0.975 * rounds)]
