"""The interface of an observation store (seed 001), implemented in Postgres and in memory.

tests/memory/test_store_contract.py checks that both behave the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memory.models import Observation
from memory.services.observations.lines import EXPLICIT, checked_category

if TYPE_CHECKING:
    from memory.services.observations.consolidation import Turn


@dataclass(frozen=True, slots=True)
class StoredObservation:
    """An observation as a store returns it (R63)."""

    id: str
    content: str
    category: str
    source: str
    created_at: datetime
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservationHit:
    """An observation that a query found. `score` is BM25's as s / (1 + s), in 0..1."""

    id: str
    category: str
    score: float
    content: str
    source: str
    created_at: datetime


@dataclass(slots=True)
class HitsByCategory:
    """The results of a query in each category, best first (R72)."""

    findings: list[ObservationHit] = field(default_factory=list)
    insights: list[ObservationHit] = field(default_factory=list)
    lessons: list[ObservationHit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScratchpadHit:
    """A scratchpad entry that a search found."""

    key: str
    value: str


class ObservationStore(Protocol):
    """An owner's observations and scratchpad. Safe to use from several threads."""

    def remember(self, content: str, category: str, source: str = EXPLICIT) -> str:
        """Store one observation and return its ID, or the ID of an existing one with the same text.

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
        """Store all or nothing. Return the IDs in the order findings, insights, lessons.

        Empty texts are ignored and have no ID. Raises InvalidValue if a text can't be stored or
        none remains.
        """
        ...

    def retrieve(self, key: str) -> StoredObservation | None:
        """Return the observation with this ID, or None if there is none or the ID isn't valid."""
        ...

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[ObservationHit]:
        """Return the best matches in one category. Raises InvalidValue for an unknown one."""
        ...

    def recall_fil(self, query: str, per_category: int = 5) -> HitsByCategory:
        """Return the results of three queries, one per category."""
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
        """Return the best matches in all categories, stored at `after` or later and before
        `before`.

        Each score is at least `min_score`. Any text is a valid query. One without words finds
        nothing.
        """
        ...

    def scratchpad_get(self, key: str) -> str:
        """Return the value. Raises NoSuchKey if there is none."""
        ...

    def scratchpad_set(self, key: str, value: str) -> None:
        """Set the value of the key. Raises InvalidValue for an invalid key or value."""
        ...

    def scratchpad_list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with `prefix` ("" is all), sorted by code point."""
        ...

    def scratchpad_search(self, text: str) -> list[ScratchpadHit]:
        """Return the entries with `text` in key or value, ignoring case, sorted by key."""
        ...

    def consolidate_session(self, session_id: str, turns: Sequence[Turn]) -> list[str]:
        """Store the observations in the transcript with source `session:<id>`. Return the IDs.

        An empty transcript, or the same one again, adds nothing.
        """
        ...

    def close(self) -> None:
        """Close the store. Using it afterwards raises StoreClosed."""
        ...


class StoreClosed(RuntimeError):
    def __init__(self) -> None:
        super().__init__("The store is closed. Open another one.")


class RankedStore:
    """The queries of ObservationStore that all ranking stores share."""

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[ObservationHit]:
        return self._ranked(query, limit, category=checked_category(category))

    def recall_fil(self, query: str, per_category: int = 5) -> HitsByCategory:
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
        """Return the best matches, best first. `category` "" means all."""
        raise NotImplementedError
