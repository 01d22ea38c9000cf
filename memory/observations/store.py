"""The one interface of an observation store (seed 001), which Postgres and a plain object share.

Whatever keeps the observations behaves alike: tests/memory/test_store_contract.py asks each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memory.models import Observation
from memory.observations.lines import EXPLICIT, checked_category

if TYPE_CHECKING:
    from memory.observations.consolidation import Turn


@dataclass(frozen=True, slots=True)
class StoredObservation:
    """One observation as a store gives it back (R63)."""

    id: str
    content: str
    category: str
    source: str
    created_at: datetime
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservationHit:
    """One observation that a query found; `score` is BM25's as s / (1 + s), in 0..1."""

    id: str
    category: str
    score: float
    content: str
    source: str
    created_at: datetime


@dataclass(slots=True)
class HitsByCategory:
    """What one question found in each category, best first (R72)."""

    findings: list[ObservationHit] = field(default_factory=list)
    insights: list[ObservationHit] = field(default_factory=list)
    lessons: list[ObservationHit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScratchpadHit:
    """One entry of the scratchpad that a search found."""

    key: str
    value: str


class ObservationStore(Protocol):
    """What one owner has observed, and their scratchpad.  Safe to use from several threads."""

    def remember(self, content: str, category: str, source: str = EXPLICIT) -> str:
        """Store one observation and return its id; the same again gives the id of the first.

        Raises InvalidValue for an unknown category, an empty text, or one over 64 KiB.
        """
        ...

    def remember_batch(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = EXPLICIT,
    ) -> list[str]:
        """Store all or nothing; return the ids in the order findings, insights, lessons.

        Empty texts are ignored and have no id.  Raises InvalidValue if one may not be stored, or
        nothing is left.
        """
        ...

    def retrieve(self, key: str) -> StoredObservation | None:
        """Return the observation with this id, None if there is none or it is no id."""
        ...

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[ObservationHit]:
        """Return what fits best in one category.  Raises InvalidValue for an unknown one."""
        ...

    def recall_fil(self, query: str, per_category: int = 5) -> HitsByCategory:
        """Return what three questions by category would."""
        ...

    def recall(
        self,
        query: str,
        limit: int = 10,
        min_score: float = 0.0,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> list[ObservationHit]:
        """Return what fits best, all categories mixed; stored at `after` or later, before `before`.

        A score is at least `min_score`.  Any text is a query; one without words finds nothing.
        """
        ...

    def scratchpad_get(self, key: str) -> str:
        """Return the value.  Raises NoSuchKey if there is none."""
        ...

    def scratchpad_set(self, key: str, value: str) -> None:
        """Put the value under the key.  Raises InvalidValue for a key or value that cannot be."""
        ...

    def scratchpad_list(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix` ("" is all), sorted by code point."""
        ...

    def scratchpad_search(self, text: str) -> list[ScratchpadHit]:
        """Return the entries with `text` in key or value, in any case, sorted by key."""
        ...

    def consolidate_session(self, session_id: str, turns: Sequence[Turn]) -> list[str]:
        """Store what the transcript leaves, with source `session:<id>`; return the ids.

        An empty transcript leaves nothing, the same again adds nothing.
        """
        ...

    def close(self) -> None:
        """Let go of the store; using it afterwards raises StoreClosed."""
        ...


class StoreClosed(RuntimeError):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("The store is closed. Open another one.")


class RankedStore:
    """What is asked of every store alike, once it can rank: see ObservationStore."""

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[ObservationHit]:
        """Return what fits best in one category."""
        return self._ranked(query, limit, category=checked_category(category))

    def recall_fil(self, query: str, per_category: int = 5) -> HitsByCategory:
        """Return what three questions by category would."""
        return HitsByCategory(
            *(
                self.recall_by_category(query, category, per_category)
                for category in Observation.Category.values
            )
        )

    def recall(
        self,
        query: str,
        limit: int = 10,
        min_score: float = 0.0,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> list[ObservationHit]:
        """Return what fits best, all categories mixed."""
        return self._ranked(query, limit, min_score, after=after, before=before)

    def _ranked(
        self,
        query: str,
        limit: int,
        min_score: float = 0.0,
        *,
        category: str = "",
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> list[ObservationHit]:
        """Return the best, best first; `category` "" is all of them."""
        raise NotImplementedError
