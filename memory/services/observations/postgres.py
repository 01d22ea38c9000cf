"""The observation store of an owner in Postgres, shared by pages, runs and agents."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from memory.models import Observation
from memory.models.actors import Actor
from memory.services import scratchpad
from memory.services.observations import consolidation
from memory.services.observations.consolidation import Turn
from memory.services.observations.lines import EXPLICIT, batch
from memory.services.observations.saving import remember_lines, write_observation
from memory.services.observations.store import (
    ObservationHit,
    RankedStore,
    ScratchpadHit,
    StoreClosed,
    StoredObservation,
)
from memory.services.search.query import Question
from memory.services.search.recall import RecallHit, recall


class PostgresStore(RankedStore):
    """The observations and scratchpad of `owner`. `by` is the writer."""

    def __init__(self, owner: Any, by: Actor) -> None:
        self._owner = owner
        self._by = by
        self._closed = False

    def remember(self, content: str, category: str, source: str = EXPLICIT) -> str:
        return str(
            write_observation(self._mine(), category, content, by=self._by, source=source).pk
        )

    def remember_batch(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = EXPLICIT,
    ) -> list[str]:
        lines = batch(findings, insights, lessons)
        stored = remember_lines(self._mine(), lines, by=self._by, source=source or EXPLICIT)
        return [str(one.pk) for one in stored.observations]

    def retrieve(self, key: str) -> StoredObservation | None:
        mine = Observation.objects.of(self._mine()).active()
        try:
            one = mine.filter(pk=uuid.UUID(str(key))).first()
        except ValueError:
            return None
        return _stored(one) if one is not None else None

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
        if not query.strip():
            return []  # without a query, recall would return the newest ones
        found = recall(
            self._mine(),
            Question(query, query),  # only plain words, since queries to a store have no operators
            "exact",
            types=[Observation.record_type()],
            categories=[category] if category else [],
            after=after,
            before=before,
            limit=limit,
            min_score=min_score,
        )
        return [_hit(one) for one in found]

    def scratchpad_get(self, key: str) -> str:
        return scratchpad.get_entry(self._mine(), key).value

    def scratchpad_set(self, key: str, value: str) -> None:
        scratchpad.set_value(self._mine(), key, value, by=self._by)

    def scratchpad_list(self, prefix: str = "") -> list[str]:
        return list(scratchpad.entries(self._mine(), prefix).values_list("key", flat=True))

    def scratchpad_search(self, text: str) -> list[ScratchpadHit]:
        found = scratchpad.search(self._mine(), text)
        return [ScratchpadHit(entry.key, entry.value) for entry in found]

    def consolidate_session(self, session_id: str, turns: Sequence[Turn]) -> list[str]:
        left = consolidation.consolidate(self._mine(), session_id, turns, by=self._by)
        return [str(one.pk) for one in left.observations]

    def close(self) -> None:
        """Close the store. The rows are kept."""
        self._closed = True

    def _mine(self) -> Any:
        if self._closed:
            raise StoreClosed
        return self._owner


def _stored(one: Observation) -> StoredObservation:
    return StoredObservation(
        str(one.pk), one.content, one.category, one.source, one.created, tuple(one.tags)
    )


def _hit(one: RecallHit) -> ObservationHit:
    return ObservationHit(
        str(one.id), one.category, one.score, one.content, one.source, one.created_at
    )
