"""Which older observation says almost the same as a new one.

It is found by words, so it works without any embedder; both are kept, and shown as such.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from rapidfuzz import fuzz

from memory.models import Observation
from memory.recall import bm25
from memory.texts.terms import query_terms
from memory.texts.text import match_key

NEAR = 85.0  # rapidfuzz ratio of the two texts' words, of 100
CANDIDATES = 10  # texts that one is compared with
TERMS = 8  # of a text, the rarest, by which its candidates are found
LONGEST = 2_000  # characters that are compared: what begins alike for so long is alike
MOST_HOLDING = 100  # observations that are counted for one term of a batch
_NUMBER = re.compile(r"\d+")


def is_near(one: str, other: str) -> bool:
    """Whether two texts say almost the same: alike in their words, and of the same numbers.

    Texts that differ in a number alone (100 a minute, 200 a minute) are two facts, not one twice.
    """
    return _nearness(match_key(one[:LONGEST]), match_key(other[:LONGEST])) >= NEAR


def nearest(owner: Any, content: str, *, but: Any = None) -> Observation | None:
    """Return the owner's observation that says almost what `content` does, or None."""
    kind = Observation.record_type()
    found = bm25.search(owner, kind, content[:LONGEST], CANDIDATES + 1, most_terms=TERMS)
    ids = [pk for pk, _score in found if pk != but][:CANDIDATES]
    candidates = Observation.objects.of(owner).active().filter(pk__in=ids)
    return _best(content, list(candidates))


def nearest_before(observations: Sequence[Observation], language: str) -> list[Observation | None]:
    """Return for each observation which one before it says almost the same, or None.

    Each is compared with the few that share its rarest terms, so the time grows with the number of
    observations and not with its square.
    """
    terms = [set(query_terms(one.content[:LONGEST], language)) for one in observations]
    times = Counter(term for some in terms for term in some)
    before: dict[str, list[int]] = defaultdict(list)  # a term, and the newest places that hold it
    found = []
    for place, (one, some) in enumerate(zip(observations, terms, strict=True)):
        shared = [term for term in some if times[term] > 1]
        rarest = sorted(shared, key=lambda term: (times[term], term))[:TERMS]
        places = Counter(other for term in rarest for other in before[term][-MOST_HOLDING:])
        candidates = [observations[other] for other, _count in places.most_common(CANDIDATES)]
        found.append(_best(one.content, candidates))
        for term in shared:
            before[term].append(place)
    return found


def _best(content: str, candidates: Sequence[Observation]) -> Observation | None:
    key = match_key(content[:LONGEST])
    rated = [(_nearness(key, match_key(one.content[:LONGEST])), one) for one in candidates]
    # Of equally near ones the oldest: it is the one that was said first.
    rated.sort(key=lambda pair: (-pair[0], pair[1].created))
    return rated[0][1] if rated and rated[0][0] >= NEAR else None


def _nearness(one: str, other: str) -> float:
    if sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other)):
        return 0.0
    return fuzz.token_sort_ratio(one, other, score_cutoff=NEAR)
