"""What the lanes of recall found out of each record, before the best are loaded."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.recall.bm25 import relevance
from memory.recall.bm25_sql import Space
from memory.recall.filters_sql import Narrowing, rows_of
from memory.recall.kinds import RecallKind

WORDS, MEANING = "words", "meaning"  # the lanes

Key = tuple[str, uuid.UUID]


@dataclass(slots=True)
class Candidate:
    """One record that a lane found: what each says of it, and what it stands in for."""

    key: Key
    raw: float = 0.0  # of the words
    distance: float | None = None
    score: float = 0.0
    matched: tuple[str, ...] = ()
    replaces: list[uuid.UUID] = field(default_factory=list)
    stands_in_for: set[str] = field(default_factory=set)  # the lanes that found what it replaced
    ranks: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Found:
    """All that the lanes found, by type and id, with the figures of the spaces asked."""

    candidates: dict[Key, Candidate] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)

    def of(self, key: Key) -> Candidate:
        """Return the candidate of a record, a new one if no lane found it before."""
        return self.candidates.setdefault(key, Candidate(key))

    def rank(self, lane: str) -> None:
        """Number what a lane found, the best first."""
        figures = [
            ((-relevance(one.raw) if lane == WORDS else one.distance or 0.0), one.key)
            for one in self.candidates.values()
            if (one.raw > 0 if lane == WORDS else one.distance is not None)
        ]
        for rank, (_figure, key) in enumerate(sorted(figures), start=1):
            self.candidates[key].ranks[lane] = rank


def successors_of(
    asked: Narrowing, kind: RecallKind, ids: Sequence[uuid.UUID]
) -> dict[uuid.UUID, uuid.UUID | None]:
    """Return for those that are superseded what stands in; None where that is not asked for."""
    found = kind.successors(ids) if kind.successors is not None and ids else {}
    if not found:
        return {}
    allowed = rows_of(kind, asked).filter(pk__in=set(found.values()))
    kept = set(allowed.values_list("pk", flat=True))
    return {old: new if new in kept else None for old, new in found.items()}
