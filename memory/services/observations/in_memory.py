"""An observation store in memory, for tests and experiments.

It ranks with the same terms and formula as Postgres (`memory/services/search/bm25.py`).
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from beacon_site.text.terms import counts_of, query_terms
from memory.models import Trust
from memory.models.errors import InvalidValue, NoSuchKey
from memory.services import scratchpad
from memory.services.observations.consolidation import Turn, lines_in, source_of
from memory.services.observations.lines import (
    EXPLICIT,
    Line,
    batch,
    checked,
    checked_source,
    single,
)
from memory.services.observations.store import (
    HitsByCategory,
    ObservationHit,
    RankedStore,
    ScratchpadHit,
    StoreClosed,
    StoredObservation,
)
from memory.services.search.bm25_sql import MOST_TERMS, relevance
from memory.services.search.recall import MOST_HITS

K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class _StoredObservation:
    """An observation with its counted terms."""

    stored: StoredObservation
    counts: Counter[str]
    length: int


class InMemoryStore(RankedStore):
    """Observations that exist only in this object."""

    def __init__(self) -> None:
        self._kept: dict[str, _StoredObservation] = {}
        self._ids: dict[tuple[str, str, str], str] = {}
        self._values: dict[str, str] = {}
        self._lock = threading.RLock()
        self._closed = False

    def remember(self, content: str, category: str, source: str = EXPLICIT) -> str:
        return self._remember([single(category, content)], source)[0]

    def remember_batch(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = EXPLICIT,
    ) -> list[str]:
        return self._remember(batch(findings, insights, lessons), source)

    def _remember(self, lines: Sequence[Line], source: str) -> list[str]:
        source = checked_source(source)
        ids = []
        with self._held():
            for line in checked(lines):
                key = (source, line.category, line.digest)
                if key not in self._ids:
                    self._ids[key] = self._keep(line, source)
                ids.append(self._ids[key])
        return ids

    def _keep(self, line: Line, source: str) -> str:
        key = str(uuid.uuid4())
        counts = counts_of(line.content)
        stored = StoredObservation(
            key, line.content, line.category, source, timezone.now(), line.tags
        )
        self._kept[key] = _StoredObservation(stored, counts, sum(counts.values()))
        return key

    def retrieve(self, key: str) -> StoredObservation | None:
        with self._held():
            kept = self._kept.get(_as_id(key))
            return kept.stored if kept else None

    def recall_fil(self, query: str, per_category: int = 5) -> HitsByCategory:
        with self._held():  # so that nothing is stored between the three queries
            return super().recall_fil(query, per_category)

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
        with self._held():
            scores = self._scores(query)
            hits = [
                _hit(self._kept[key].stored, score)
                for key, score in sorted(scores.items(), key=lambda one: (-one[1], one[0]))
            ]
        wanted = [
            hit
            for hit in hits
            if (not category or hit.category == category)
            and hit.score >= min_score
            and (after is None or hit.created_at >= after)
            and (before is None or hit.created_at < before)
        ]
        return wanted[: max(0, min(limit, MOST_HITS))]

    def _scores(self, query: str) -> dict[str, float]:
        """Return the BM25 score (k1 1.2, b .75) of each observation with a word of the query."""
        everything = self._kept.values()
        if not everything:
            return {}
        found_in = Counter(term for kept in everything for term in kept.counts)
        average = sum(kept.length for kept in everything) / len(everything)
        wanted = Counter(term for term in query_terms(query) if term in found_in)
        rarest = sorted(wanted, key=lambda term: (found_in[term], term))[:MOST_TERMS]
        scores: dict[str, float] = {}
        for term in rarest:
            documents = found_in[term]
            idf = math.log(1 + (len(everything) - documents + 0.5) / (documents + 0.5))
            for key, kept in self._kept.items():
                if times := kept.counts[term]:
                    norm = K1 * (1 - B + B * kept.length / average)
                    part = wanted[term] * idf * times / (times + norm)
                    scores[key] = scores.get(key, 0.0) + part
        return scores

    def scratchpad_get(self, key: str) -> str:
        with self._held():
            try:
                return self._values[scratchpad.checked_key(key)]
            except (KeyError, InvalidValue) as exc:
                raise NoSuchKey(key) from exc

    def scratchpad_set(self, key: str, value: str) -> None:
        with self._held():
            self._values[scratchpad.checked_key(key)] = scratchpad.checked_value(value)

    def scratchpad_list(self, prefix: str = "") -> list[str]:
        prefix = scratchpad.checked_prefix(prefix)
        with self._held():
            return sorted(key for key in self._values if key.startswith(prefix))

    def scratchpad_search(self, text: str) -> list[ScratchpadHit]:
        wanted = _any_case(text)
        with self._held():
            return [
                ScratchpadHit(key, value)
                for key, value in sorted(self._values.items())
                if wanted in _any_case(key) or wanted in _any_case(value)
            ]

    def consolidate_session(self, session_id: str, turns: Sequence[Turn]) -> list[str]:
        lines = lines_in(turns, user=Trust.AGENT, assistant=Trust.AGENT)
        with self._held():
            return self._remember(lines, source_of(session_id)) if lines else []

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._ids.clear()
            self._values.clear()

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StoreClosed
            yield


def _as_id(key: str) -> str:
    """Return an ID in its stored form, or "" if it isn't valid."""
    try:
        return str(uuid.UUID(str(key)))
    except ValueError:
        return ""


def _hit(stored: StoredObservation, score: float) -> ObservationHit:
    return ObservationHit(
        stored.id,
        stored.category,
        relevance(score),
        stored.content,
        stored.source,
        stored.created_at,
    )


def _any_case(text: str) -> str:
    """Return a text case folded letter by letter, as Postgres does."""
    return "".join(big if len(big := char.upper()) == 1 else char for char in text)
