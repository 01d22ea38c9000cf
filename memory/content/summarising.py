"""A summary without a model: the sentences of a text that say most, word for word, in their order."""

from __future__ import annotations

from collections import Counter
from math import log

from memory.texts.sentences import Sentence, sentences
from memory.texts.terms import query_terms

# A longer text says what it is about before; to find the ends of sentences takes its time.
LONGEST_READ, MOST_SENTENCES = 40_000, 600
_FEWEST_TERMS = 4


def summary_of(text: str, n: int, *, in_lines: bool) -> str:
    """Return sentences of at most `n` characters in all, or `n` sentences, one a line.

    The same text gives the same summary.  A text without sentences (a table, data) is cut instead.
    """
    found = sentences(text[:LONGEST_READ])[:MOST_SENTENCES]
    if not found:
        return "\n".join(text.split("\n")[:n]) if in_lines else text[:n]
    weights = _weights(found)
    best = sorted(found, key=lambda one: (-weights[one.position], one.position))
    kept: list[Sentence] = []
    room = n
    for one in best:
        cost = 1 if in_lines else len(one.quote) + 1
        if cost <= room + (not in_lines):  # no space follows the last
            kept.append(one)
            room -= cost
        if room <= 0:
            break
    if not kept:  # the best sentence alone is too long
        return best[0].quote[:n]
    kept.sort(key=lambda one: one.position)
    return ("\n" if in_lines else " ").join(one.quote for one in kept)


def _weights(found: list[Sentence]) -> dict[int, float]:
    """Return how much each sentence says: the terms it shares with others, and where it stands."""
    terms = [set(query_terms(one.text)) for one in found]
    shared = Counter(term for some in terms for term in some)
    weights: dict[int, float] = {}
    for one, some in zip(found, terms, strict=True):
        if len(some) < _FEWEST_TERMS:
            weights[one.position] = 0.0
            continue
        central = sum(log(1 + shared[term]) for term in some) / (len(some) + 4)
        weights[one.position] = central * (1.3 if one.paragraph == 0 else 1.0)
    return weights
