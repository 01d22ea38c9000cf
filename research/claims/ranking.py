"""What a sentence is worth to a topic (BM25) and among its kind (LexRank), in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

# The usual constants, as in recall.
K1 = 1.2
B = 0.75
# LexRank: sentences as like as this are neighbours (Erkan and Radev 2004).
NEIGHBOURS = 0.1
DAMPING = 0.85
ROUNDS = 30


def idf(texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return how rare each term is: ln(1 + (N - n + 0.5) / (n + 0.5)), never negative."""
    holding = Counter(term for text in texts for term in set(text))
    total = len(texts)
    return {term: math.log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in holding.items()}


def bm25(
    texts: Sequence[Sequence[str]], query: Mapping[str, float], rarity: Mapping[str, float]
) -> list[float]:
    """Score each text (a list of terms) for a query of weighted terms; 0 if none is in it."""
    average = sum(map(len, texts)) / max(len(texts), 1) or 1.0
    scores = []
    for text in texts:
        score = 0.0
        length = K1 * (1 - B + B * len(text) / average)
        for term, weight in query.items():
            count = text.count(term)
            if count:
                score += weight * rarity.get(term, 0.0) * count * (K1 + 1) / (count + length)
        scores.append(score)
    return scores


def vectors(texts: Sequence[Sequence[str]], rarity: Mapping[str, float]) -> list[dict[str, float]]:
    """Return each text as weights of its terms (tf times idf), of length one."""
    found = []
    for text in texts:
        weights = {term: count * rarity.get(term, 0.0) for term, count in Counter(text).items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        found.append({term: weight / norm for term, weight in weights.items() if weight})
    return found


def cosine(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Return how alike two vectors of length one are, 0 to 1."""
    if len(left) > len(right):
        left, right = right, left
    return sum(weight * right[term] for term, weight in left.items() if term in right)


def lexrank(texts: Sequence[Mapping[str, float]]) -> list[float]:
    """Return how central each text is among all, the most central 1.

    Texts are the vectors of `vectors`.  The work grows with the square of their number: give
    it the best hundred or two.
    """
    neighbours = _neighbours(texts)
    count = len(texts)
    ranks = [1 / count] * count if count else []
    for _round in range(ROUNDS):
        spread = [rank / max(len(near), 1) for rank, near in zip(ranks, neighbours, strict=True)]
        ranks = [
            (1 - DAMPING) / count + DAMPING * sum(spread[other] for other in near)
            for near in neighbours
        ]
    top = max(ranks, default=1.0)
    return [rank / top for rank in ranks]


def _neighbours(texts: Sequence[Mapping[str, float]]) -> list[list[int]]:
    holding: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    near: list[list[int]] = [[] for _text in texts]
    for number, text in enumerate(texts):
        likeness: defaultdict[int, float] = defaultdict(float)
        for term, weight in text.items():
            for other, other_weight in holding[term]:
                likeness[other] += weight * other_weight
            holding[term].append((number, weight))
        for other, value in likeness.items():
            if value >= NEIGHBOURS:
                near[number].append(other)
                near[other].append(number)
    return near
