"""Which older observation says almost the same as a new one.

It is found by words, so it works without any embedder; both are kept, and shown as such.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz

from memory.models import Observation
from memory.recall import bm25
from memory.recall.bm25_sql import language_of
from memory.texts.terms import query_terms
from memory.texts.text import match_key

NEAR = 85.0  # rapidfuzz ratio of the two texts' words, of 100
CANDIDATES = 10  # texts that one is compared with
TERMS = 8  # of a text, the rarest, by which its candidates are found
LONGEST = 2_000  # characters that are compared: what begins alike for so long is alike
MOST_HOLDING = 100  # observations that are counted for one term of a batch
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is compared of a text: its words in alphabetical order, and its numbers."""

    words: str
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Compared:
        words = sorted(match_key(text[:LONGEST]).split())
        return cls(" ".join(words), tuple(sorted(_NUMBER.findall(" ".join(words)))))

    def nearness(self, other: _Compared) -> float:
        """Return 0 to 100; 0 for less than NEAR."""
        if self.numbers != other.numbers:
            return 0.0
        return fuzz.ratio(self.words, other.words, score_cutoff=NEAR)


def is_near(one: str, other: str) -> bool:
    """Whether two texts say almost the same: alike in their words, and of the same numbers.

    Texts that differ in a number alone (100 a minute, 200 a minute) are two facts, not one twice.
    """
    return _Compared.of(one).nearness(_Compared.of(other)) >= NEAR


def nearest(owner: Any, contents: Sequence[str], *, but: Any = None) -> list[Observation | None]:
    """Return for each text which of the owner's observations says almost the same, or None.

    A few queries for all of them.
    """
    found = bm25.search_each(
        owner,
        Observation.record_type(),
        [content[:LONGEST] for content in contents],
        CANDIDATES + 1,
        most_terms=TERMS,
    )
    ids = [[pk for pk, _score in hits if pk != but][:CANDIDATES] for hits in found]
    wanted = {pk for some in ids for pk in some}
    stored = Observation.objects.of(owner).active().in_bulk(wanted)
    compared = {pk: _Compared.of(one.content) for pk, one in stored.items()}
    return [
        _best(_Compared.of(content), [stored[pk] for pk in some if pk in stored], compared)
        for content, some in zip(contents, ids, strict=True)
    ]


def nearest_of_batch(owner: Any, observations: Sequence[Observation]) -> list[Observation | None]:
    """Return for each new observation which one before it in the batch says almost the same.

    Where none does, which of those that recall finds already; None without one.
    """
    found = _nearest_before(observations, language_of(owner))
    others = [place for place, alike in enumerate(found) if alike is None]
    if others:
        older = nearest(owner, [observations[place].content for place in others])
        for place, alike in zip(others, older, strict=True):
            found[place] = alike
    return found


def _nearest_before(observations: Sequence[Observation], language: str) -> list[Observation | None]:
    """Return for each observation which one before it says almost the same, or None.

    Each is compared with the few that share its rarest terms, so the time grows with the number of
    observations and not with its square.
    """
    terms = [set(query_terms(one.content[:LONGEST], language)) for one in observations]
    compared = {one.pk: _Compared.of(one.content) for one in observations}
    times = Counter(term for some in terms for term in some)
    before: dict[str, list[int]] = defaultdict(list)  # a term, and the newest places that hold it
    found = []
    for place, (one, some) in enumerate(zip(observations, terms, strict=True)):
        shared = [term for term in some if times[term] > 1]
        rarest = sorted(shared, key=lambda term: (times[term], term))[:TERMS]
        places = Counter(other for term in rarest for other in before[term][-MOST_HOLDING:])
        candidates = [observations[other] for other, _count in places.most_common(CANDIDATES)]
        found.append(_best(compared[one.pk], candidates, compared))
        for term in shared:
            before[term].append(place)
    return found


def _best(
    wanted: _Compared, candidates: Iterable[Observation], compared: Mapping[Any, _Compared]
) -> Observation | None:
    rated = [(wanted.nearness(compared[one.pk]), one) for one in candidates]
    # Of equally near ones the oldest: it is the one that was said first.
    rated.sort(key=lambda pair: (-pair[0], pair[1].created))
    return rated[0][1] if rated and rated[0][0] >= NEAR else None
