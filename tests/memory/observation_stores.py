"""The interface of an observation store (seed 001): Beacon's services, and a reference in memory.

test_store_contract.py checks that both behave the same.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from django.utils import timezone

from beacon_site.text.terms import MAX_TIMES, query_terms, search_terms
from memory.models import Observation, Trust
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, NoSuchKey
from memory.services import scratchpad
from memory.services.notes.saving import NoteChecks
from memory.services.observations.consolidation import (
    keep_lines,
    lines_in,
    source_of,
    trust_in_answers,
)
from memory.services.observations.saving import (
    EXPLICIT,
    Line,
    SavedLines,
    batch,
    checked,
    checked_source,
    remember_lines,
    single,
    write_observation,
)
from memory.services.search.bm25_sql import MAX_TERMS, relevance
from memory.services.search.query import Question
from memory.services.search.recall import MAX_HITS, RecallHit, recall


def counts_of(text: str) -> Counter[str]:
    """How often each term counts in a text that fits a tsvector (BM25's tf)."""
    counts = Counter(search_terms(text))
    return Counter({term: min(times, MAX_TIMES) for term, times in counts.items()})


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

    def consolidate_session(self, session_id: str, turns: Sequence[tuple[str, str]]) -> list[str]:
        """Store the observations in the transcript with source `session:<id>`. Return the IDs.

        An empty transcript, or the same one again, adds nothing.
        """
        ...

    def close(self) -> None:
        """Close the store. Using it afterwards raises StoreClosed."""
        ...


def checked_category(category: str) -> str:
    checks = NoteChecks()
    known = checks.choice("category", category, Observation.Category.values)
    checks.raise_refused()
    return known


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


# --- the reference ---
#
# It ranks with the same terms and formula as Postgres (memory/services/search/bm25.py).


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
        return wanted[: max(0, min(limit, MAX_HITS))]

    def _scores(self, query: str) -> dict[str, float]:
        """Return the BM25 score (k1 1.2, b .75) of each observation with a word of the query."""
        everything = self._kept.values()
        if not everything:
            return {}
        found_in = Counter(term for kept in everything for term in kept.counts)
        average = sum(kept.length for kept in everything) / len(everything)
        wanted = Counter(term for term in query_terms(query) if term in found_in)
        rarest = sorted(wanted, key=lambda term: (found_in[term], term))[:MAX_TERMS]
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

    def consolidate_session(self, session_id: str, turns: Sequence[tuple[str, str]]) -> list[str]:
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


# --- the services ---


def consolidate(
    owner: Any, session_id: object, turns: Sequence[tuple[str, str]], *, by: Actor
) -> SavedLines:
    """Store the observations from a transcript, whose person's messages have the trust of `by`."""
    user = Trust.OWNER if by.is_person else Trust.AGENT
    lines = lines_in(turns, user=user, assistant=trust_in_answers(user, Trust.AGENT))
    return keep_lines(owner, session_id, lines, by=by)


class PostgresStore(RankedStore):
    """What `by` does with the observations and scratchpad of `owner`, through the services."""

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
        mine = Observation.objects.for_user(self._mine()).active()
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
        return [_recalled(one) for one in found]

    def scratchpad_get(self, key: str) -> str:
        return scratchpad.get_entry(self._mine(), key).value

    def scratchpad_set(self, key: str, value: str) -> None:
        scratchpad.set_value(self._mine(), key, value, by=self._by)

    def scratchpad_list(self, prefix: str = "") -> list[str]:
        return list(scratchpad.entries(self._mine(), prefix).values_list("key", flat=True))

    def scratchpad_search(self, text: str) -> list[ScratchpadHit]:
        found = scratchpad.search(self._mine(), text)
        return [ScratchpadHit(entry.key, entry.value) for entry in found]

    def consolidate_session(self, session_id: str, turns: Sequence[tuple[str, str]]) -> list[str]:
        left = consolidate(self._mine(), session_id, turns, by=self._by)
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


def _recalled(one: RecallHit) -> ObservationHit:
    return ObservationHit(
        str(one.id), one.category, one.score, one.content, one.source, one.created_at
    )
