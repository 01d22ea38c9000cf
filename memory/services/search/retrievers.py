"""Combines recall's two lanes into one ranking: words (BM25) and meaning (vectors).

Both scores are scaled to 0..1 by the highest possible score, not by the best hit. A value therefore
means the same for every question, and a lane with poor results counts little.
benchmarks/recall_quality.py compares this with rank fusion and with scaling per question
(docs/dev/benchmarks.md).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from beacon_site.text.terms import LABEL, label_terms, query_terms
from memory.services.search import bm25_sql, vectors
from memory.services.search.bm25_sql import Job, Ranked, Space, relevance
from memory.services.search.filters import Narrowing, among_of, rows_of
from memory.services.search.kinds import KINDS, RecallKind
from memory.services.search.ratings import Rated

Key = TypeVar("Key", bound=Hashable)

DEPTH = 100  # hits of each lane that are combined; 30 gave a worse ranking
MEANING_OF_LONG = 0.5  # weight of the meaning for records of LONG terms or more
# a turn of a few words has a poor vector, but usually contains the query's words
MEANING_OF_SHORT = 0.35
LONG = 42.0  # terms per record, on average
SHORT = 18.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties of a question and of the searched records that set the weights.

    `best_possible` is a raw BM25 score that no record can reach. `average_length` is in terms.
    """

    best_possible: float = 0.0
    average_length: float = 0.0


def words_value(raw: float, shape: Shape) -> float:
    """Return a raw BM25 score as a share of the best possible one, 0 to 1."""
    if shape.best_possible <= 0 or raw <= 0:
        return 0.0
    return min(1.0, raw / shape.best_possible)


def meaning_value(distance: float) -> float:
    """Return the cosine of two unit vectors from their L2 distance, or 0 if it is negative."""
    return min(1.0, max(0.0, 1.0 - distance * distance / 2.0))


def meaning_share(average_length: float) -> float:
    """Return the weight of the meaning in a combined score; the words have the rest."""
    if average_length <= 0:
        return MEANING_OF_LONG
    place = math.log(average_length / SHORT) / math.log(LONG / SHORT)
    return MEANING_OF_SHORT + (MEANING_OF_LONG - MEANING_OF_SHORT) * min(1.0, max(0.0, place))


def fused(
    words: Mapping[Key, float], meaning: Mapping[Key, float], shape: Shape
) -> dict[Key, float]:
    """Return a score of 0 to 1 for each record that a lane found, from raw BM25 and L2 distance.

    A lane adds nothing for a record that it didn't find. All records have the same type.
    """
    share = meaning_share(shape.average_length)
    values: dict[Key, float] = {}
    for key, raw in words.items():
        values[key] = (1 - share) * words_value(raw, shape)
    for key, distance in meaning.items():
        values[key] = values.get(key, 0.0) + share * meaning_value(distance)
    return values


# --- candidates --------------------------------------------------------------------------------

WORDS, MEANING = "words", "meaning"  # the retrievers

RecordKey = tuple[str, uuid.UUID]


@dataclass(slots=True)
class Candidate:
    """One record found, with each retriever's score; it can replace a superseded one."""

    key: RecordKey
    raw: float = 0.0  # by words
    distance: float | None = None
    score: float = 0.0
    matched: tuple[str, ...] = ()
    replaces: list[uuid.UUID] = field(default_factory=list)
    # The retrievers that found a record that it replaced.
    stands_in_for: set[str] = field(default_factory=set)
    ranks: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Candidates:
    """All candidates by type and id, and the spaces that were searched."""

    candidates: dict[RecordKey, Candidate] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)

    def of(self, key: RecordKey) -> Candidate:
        """Return the candidate of a record, a new one if it wasn't found before."""
        return self.candidates.setdefault(key, Candidate(key))

    def rank(self, lane: str) -> None:
        """Number a retriever's results, the best first."""
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
    """Return the replacements of superseded records; None if the filters exclude the replacement."""
    found = kind.successors(ids) if kind.successors is not None and ids else {}
    if not found:
        return {}
    allowed = rows_of(kind, asked).filter(pk__in=set(found.values()))
    kept = set(allowed.values_list("pk", flat=True))
    return {old: new if new in kept else None for old, new in found.items()}


# --- retrievers --------------------------------------------------------------------------------

SUPERSEDED_LOOKED_AT = 50  # the best superseded records, for which their replacements are returned


@dataclass(slots=True)
class Answer:
    """One question with its filters, its candidates (`near`: by meaning) and its ratings."""

    asked: Narrowing
    notices: list[str]
    near: list[vectors.Neighbor] | None = None
    found: Candidates = field(default_factory=Candidates)
    rated: Mapping[uuid.UUID, Rated] = field(default_factory=dict)

    def depth(self, limit: int) -> int:
        """Return how many records to rank: more than shown, if their order can still change."""
        return limit if self.near is None and not self.rated else max(limit, DEPTH)


# --- by words --------------------------------------------------------------------------------------


def by_words(answers: Sequence[Answer], words: list[str], mode: str, limit: int) -> None:
    """Find and score the records that contain the words."""
    formula = bm25_sql.EXACT if mode == "exact" else bm25_sql.LEXICAL
    spaces = _spaces([one.asked for one in answers], words)
    jobs: list[Job] = []
    of: list[Answer] = []  # the question of each job
    for one in answers:
        jobs += _jobs(one.asked, spaces, words, formula, one.depth(limit), before=len(jobs))
        of += [one] * (len(jobs) - len(of))
    for answer, job, ranked in zip(of, jobs, bm25_sql.ranked(jobs), strict=True):
        asked, found = answer.asked, answer.found
        kind = KINDS[job.space.record_type]
        found.spaces[kind.type] = job.space
        if job.among.stands is False:
            _rank_replacements(asked, kind, ranked, found)
            continue
        for entry in ranked:
            candidate = found.of((kind.type, entry.record_id))
            candidate.raw, candidate.matched = entry.score, entry.matched
    for answer in answers:
        for candidate in answer.found.candidates.values():
            candidate.score = relevance(candidate.raw)
        answer.found.rank(WORDS)


def _jobs(
    asked: Narrowing,
    spaces: Sequence[Space],
    words: list[str],
    formula: bm25_sql.Formula,
    limit: int,
    *,
    before: int,
) -> list[Job]:
    """Return the rankings of all requested types, those of superseded records last.

    Their places count from `before`, the number of rankings before them.
    """
    language = bm25_sql.language_of(asked.owner)
    wanted = {kind.type for kind in asked.kinds}
    jobs, superseded = [], []
    for space in spaces:
        if space.record_type not in wanted:
            continue
        kind = KINDS[space.record_type]
        among = among_of(kind, asked, space.language)
        terms = words if space.language == language else _terms_of(asked, space)
        jobs.append(Job(space, terms, formula, limit, among))
        if kind.successors is not None and space.has_superseded:
            those = replace(among, stands=False, where=(), params=())
            beside = before + len(jobs) - 1
            superseded.append(
                Job(space, terms, formula, SUPERSEDED_LOOKED_AT, those, beside=beside)
            )
    return jobs + superseded


def _spaces(narrowed: Sequence[Narrowing], words: list[str]) -> list[Space]:
    """Return the spaces with the terms' figures, in a second query for other languages."""
    owner, text = narrowed[0].owner, narrowed[0].question.words
    types = list(dict.fromkeys(kind.type for asked in narrowed for kind in asked.kinds))
    spaces = bm25_sql.spaces_of(owner, types, [*words, *(LABEL + word for word in words)])
    others = {space.language for space in spaces} - {bm25_sql.language_of(owner)}
    for other in others:
        terms = query_terms(text, other)
        lexemes = [*terms, *label_terms(text, other)]
        again = bm25_sql.spaces_of(
            owner, [s.record_type for s in spaces if s.language == other], lexemes
        )
        spaces = [s for s in spaces if s.language != other] + again
    return spaces


def _terms_of(asked: Narrowing, space: Space) -> list[str]:
    return query_terms(asked.question.words, space.language)


def _rank_replacements(
    asked: Narrowing, kind: RecallKind, ranked: list[Ranked], found: Candidates
) -> None:
    """Give the ranked records' replacements their rank, if it is better than their own."""
    successors = successors_of(asked, kind, [one.record_id for one in ranked])
    for one in ranked:
        successor = successors.get(one.record_id)
        if successor is None:
            continue
        candidate = found.of((kind.type, successor))
        if one.score > candidate.raw:
            candidate.raw, candidate.matched = one.score, one.matched
            candidate.replaces.insert(0, one.record_id)
            candidate.stands_in_for.add(WORDS)


# --- by meaning -----------------------------------------------------------------------------------


def near_in_meaning(answers: Sequence[Answer], limit: int) -> None:
    """Find the nearest vectors; None and a notice if there is no vector search."""
    asked = answers[0].asked
    looks = (_look(one.asked) for one in answers)  # built only if vectors are compared
    depth = max(limit, DEPTH)
    found = vectors.nearest_each(asked.owner, asked.question.words, looks, depth)
    if isinstance(found, vectors.Unavailable):
        for one in answers:
            one.notices.append(found.reason)
        return
    for one, near in zip(answers, found, strict=True):
        one.near = near


def _look(asked: Narrowing) -> vectors.VectorQuery:
    """Return the records that are compared with the question."""
    allowed = {kind.type: rows_of(kind, asked) for kind in asked.kinds}
    if asked.question.phrases or asked.question.without:
        # Exact phrases in superseded records are handled by the words retriever.
        return vectors.VectorQuery(tuple(allowed), allowed)
    replaced = {
        kind.type: kind.superseded(asked.owner)
        for kind in asked.kinds
        if kind.superseded is not None
    }
    return vectors.VectorQuery(tuple(allowed), allowed, replaced)


def with_meaning(answer: Answer, words: list[str]) -> None:
    """Add the nearest records or their replacements, and score all by words and meaning."""
    asked, near, found = answer.asked, answer.near, answer.found
    if near is None:
        return
    successors: dict[uuid.UUID, uuid.UUID | None] = {}
    for kind in asked.kinds:
        of_kind = [one.id for one in near if one.type == kind.type]
        successors |= successors_of(asked, kind, of_kind)
    for record in near:  # the nearest first
        stands = successors.get(record.id, record.id)
        if stands is None:
            continue
        candidate = found.of((record.type, stands))
        if candidate.distance is not None:
            continue
        candidate.distance = record.distance
        if stands != record.id:
            candidate.stands_in_for.add(MEANING)
            if record.id not in candidate.replaces:
                candidate.replaces.append(record.id)
    by_type: dict[str, list[Candidate]] = {}
    for candidate in found.candidates.values():
        by_type.setdefault(candidate.key[0], []).append(candidate)
    for name, candidates in by_type.items():
        values = fused(
            {one.key: one.raw for one in candidates if one.raw > 0},
            {one.key: one.distance for one in candidates if one.distance is not None},
            _shape(found.spaces.get(name), words),
        )
        for one in candidates:
            one.score = values[one.key]
    found.rank(MEANING)


def _shape(space: Space | None, words: Sequence[str]) -> Shape:
    if space is None:
        return Shape()
    return Shape(bm25_sql.best_possible(space, words), space.average)


# --- by ratings -----------------------------------------------------------------------------------


def with_ratings(answer: Answer) -> None:
    """Multiply the scores of records that were rated for the question; they stay within 0 to 1."""
    for key, candidate in answer.found.candidates.items():
        if rated := answer.rated.get(key[1]):
            candidate.score = min(1.0, candidate.score * rated.factor)
