"""Recall: one ranked search over everything that Beacon remembers, for pages, API and tools.

It combines two retrievers into one ranking: words (BM25) and meaning (vectors). Both scores are scaled to
0..1 by the highest possible score, not by the best hit. A value therefore means the same for every
question, and a retriever with poor results counts little. benchmarks/recall_quality.py compares this with
rank fusion and with scaling per question (docs/dev/benchmarks.md).
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypedDict, TypeVar, Unpack, cast

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from beacon_site.text.terms import LABEL, label_terms, query_terms
from memory.models import EmbeddingDue, Rating, as_of
from memory.models.errors import InvalidValue
from memory.models.history import Use
from memory.services.search import bm25_sql, vectors
from memory.services.search.bm25_sql import Job, Ranked, Scale, Space, relevance
from memory.services.search.filters import SearchScope, among_of, narrowing_of, rows_of
from memory.services.search.kinds import KINDS, RecallKind
from memory.services.search.query import FOR_AGENTS, Question

MODES = ("auto", "lexical", "exact")
MAX_HITS = 200
MAX_LATER_LENGTH = 300  # characters of a later finding that are shown beside a passage
DEPTH = 100  # hits of each retriever that are combined; 30 gave a worse ranking
MEANING_OF_LONG = 0.5  # weight of the meaning for records of LONG terms or more
# a turn of a few words has a poor vector, but usually contains the query's words
MEANING_OF_SHORT = 0.35
LONG = 42.0  # terms per record, on average
SHORT = 18.0
# If no record contains a word of the question, only records this near in meaning (cosine) are results.
# With the local embedder, most of the nearest texts to made-up words and to words about other things
# were at 0.2 to 0.3, and the right answers to such questions in benchmarks/data at 0.275 or more. If
# words are found too, right answers that contain none of them were as low as 0.2.
MIN_MEANING = 0.25
SUPERSEDED_LOOKED_AT = 50  # the best superseded records, for which their replacements are returned

Key = TypeVar("Key", bound=Hashable)


class RecallOptions(TypedDict, total=False):
    """Filters and options of a recall, besides the operators in its query."""

    types: Sequence[str]
    categories: Sequence[str]
    kinds: Sequence[str]
    topic: Any  # a Topic, or its slug or title
    after: datetime | None
    before: datetime | None
    scope: str | None
    limit: int
    min_score: float
    place: str  # where the hits are used; a Use is stored for each
    now: datetime | None


@dataclass(frozen=True, slots=True)
class RetrieverScore:
    """A hit's score in one retriever: raw (BM25 or distance), scaled to 0..1, and its rank."""

    raw: float
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit is ranked where it is: retrievers, matched terms, rank in each retriever, and boosts."""

    retrievers: tuple[str, ...]
    matched_terms: tuple[str, ...]
    ranks: dict[str, int]
    boosts: tuple[str, ...]


@dataclass(frozen=True)
class FoundRecord:
    """A record that a search found, with its type in recall."""

    type: str
    record: Any

    @property
    def id(self) -> uuid.UUID:
        return cast("uuid.UUID", self.record.pk)

    @property
    def title(self) -> str:
        return KINDS[self.type].title(self.record)

    @property
    def url(self) -> str:
        return KINDS[self.type].url(self.record)

    @property
    def category(self) -> str:
        return KINDS[self.type].category(self.record)

    @cached_property
    def content(self) -> str:
        return KINDS[self.type].content(self.record)

    @property
    def created_at(self) -> datetime:
        return cast("datetime", self.record.created)

    @property
    def source(self) -> str:
        return str(self.record.source)

    @property
    def trust(self) -> str:
        return str(self.record.trust)


@dataclass(frozen=True)
class RecallHit(FoundRecord):
    """One record found, with its rank.

    `replaces` are the superseded records that it replaces. `later_finding` is what a later run found
    that differs from it. `rating` is the rating for this question that changed its score.
    """

    score: float
    retrievers: dict[str, RetrieverScore]
    explanation: Explanation
    replaces: tuple[uuid.UUID, ...] = ()
    later_finding: str = ""
    rating: Rating | None = None

    def dated(self, passage: str) -> str:
        """Return a passage of the record, followed by what a later run found, if anything."""
        if not self.later_finding:
            return passage
        params = {"passage": passage, "later": shorten(self.later_finding, MAX_LATER_LENGTH)}
        return _("%(passage)s (a later run found a change: %(later)s)") % params


@dataclass(frozen=True, slots=True)
class RecallPage:
    """The hits with everything to show about them; `notices` appear once, above the list.

    `are_only_similar` is whether nothing found contains a word of the query.
    """

    hits: list[RecallHit]
    question: Question
    notices: list[str]
    milliseconds: float
    stems: tuple[str, ...]
    are_only_similar: bool = False


# --- one score from both retrievers ---


def words_value(raw: float, best_possible: float) -> float:
    """Return a raw BM25 score as a share of the best possible one, 0 to 1."""
    if best_possible <= 0 or raw <= 0:
        return 0.0
    return min(1.0, raw / best_possible)


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
    words: Mapping[Key, float],
    meaning: Mapping[Key, float],
    best_possible: float = 0.0,
    average_length: float = 0.0,
    waiting: Set[Key] = frozenset(),
) -> dict[Key, float]:
    """Return a score of 0 to 1 for each record that a retriever found, from raw BM25 and L2 distance.

    A retriever adds nothing for a record that it didn't find. The records in `waiting` have no vector yet,
    so only their words count. All records have the same type, with
    `average_length` terms, and none can reach the raw BM25 score `best_possible`.
    """
    share = meaning_share(average_length)
    values: dict[Key, float] = {}
    for key, raw in words.items():
        values[key] = (1.0 if key in waiting else 1 - share) * words_value(raw, best_possible)
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
    word_score: float = 0.0  # its part of the score by words, 0 to 1
    distance: float | None = None
    score: float = 0.0
    matched: tuple[str, ...] = ()
    replaces: list[uuid.UUID] = field(default_factory=list)
    # The retrievers that found a record that it replaced.
    stands_in_for: set[str] = field(default_factory=set)
    ranks: dict[str, int] = field(default_factory=dict)


def successors_of(
    scope: SearchScope, kind: RecallKind, space: Space | None, ids: Sequence[uuid.UUID]
) -> dict[uuid.UUID, uuid.UUID | None]:
    """Return the replacements of superseded records; None if the filters exclude the replacement."""
    found = kind.successors(ids) if kind.successors is not None and space and ids else {}
    if space is None or not found:
        return {}
    among = among_of(kind, scope, space.language)
    kept = bm25_sql.matching_ids(space, among, set(found.values()))
    return {old: new if new in kept else None for old, new in found.items()}


@dataclass(slots=True)
class Answer:
    """One question with its filters, notices and ratings, and what was found so far.

    `near` are the nearest vectors, and `spaces` were searched by words.
    """

    asked: SearchScope
    notices: list[str]
    near: list[vectors.Neighbor] | None = None
    candidates: dict[RecordKey, Candidate] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)
    rated: Mapping[uuid.UUID, Rating] = field(default_factory=dict)

    def depth(self, limit: int) -> int:
        """Return how many records to rank: more than shown, if their order can still change."""
        return limit if self.near is None and not self.rated else max(limit, DEPTH)

    def of(self, key: RecordKey) -> Candidate:
        """Return the candidate of a record, a new one if it wasn't found before."""
        return self.candidates.setdefault(key, Candidate(key))

    def rank(self, retriever: str) -> None:
        """Number a retriever's results, the best first."""
        figures = [
            ((-relevance(one.raw) if retriever == WORDS else one.distance or 0.0), one.key)
            for one in self.candidates.values()
            if (one.raw > 0 if retriever == WORDS else one.distance is not None)
        ]
        for rank, (_figure, key) in enumerate(sorted(figures), start=1):
            self.candidates[key].ranks[retriever] = rank


# --- recall ---


def recall(
    owner: Any, query: str | Question, mode: str = "auto", **how: Unpack[RecallOptions]
) -> list[RecallHit]:
    """Return the owner's records that match `query`, best first.

    `exact` ranks by BM25 of the content only, `lexical` also uses the author, tags and topic, and
    `auto` adds semantic search if there is an embedder. Superseded, expired and trashed records are
    never returned; a superseded record's replacement is returned instead. A query with only
    operators returns the newest records. Operators in a text are parsed; pass a Question to search
    for plain words only. Ratings for the same words change the scores, except in `exact` and at a
    date. In `memory.models.as_of.at()` it searches what was known then, by words. Raises InvalidValue for an unknown mode or type.
    """
    return recall_page(owner, query, mode, **how).hits


def recall_page(
    owner: Any, query: str | Question, mode: str = "auto", **how: Unpack[RecallOptions]
) -> RecallPage:
    """Return the hits of `recall()`, with the parsed query, notices and the time it took."""
    return recall_each(owner, [query], mode, **how)[0]


def recall_each(
    owner: Any, queries: Sequence[str | Question], mode: str = "auto", **how: Unpack[RecallOptions]
) -> list[RecallPage]:
    """Return the `recall_page()` of each query. Queries with the same words share index scans.

    They may have different operators. Raises ValueError if their words differ.
    """
    started = time.perf_counter()
    if mode not in MODES:
        problem = _("“%(mode)s” isn’t a search mode. Use auto, lexical or exact.") % {"mode": mode}
        raise InvalidValue(problem, errors={"mode": [problem]})
    past = as_of.current()
    how["now"] = how.get("now") or as_of.now()
    narrowed = [narrowing_of(owner, query, how) for query in queries]
    limit = max(0, min(how.get("limit", 10), MAX_HITS))
    answers = [Answer(asked, [*asked.question.problems, *asked.notices]) for asked in narrowed]
    if past and mode == "auto":
        mode = "lexical"  # vectors are those of today's texts
    words = _find(answers, mode, limit)
    found = _hits(answers, how.get("min_score", 0.0), limit)
    pages = []
    for answer, hits in zip(answers, found, strict=True):
        if place := how.get("place", ""):
            Use.note(owner, [(hit.record.record_type(), hit.id) for hit in hits], place)
        taken = (time.perf_counter() - started) * 1000
        is_similar = bool(hits) and not any(
            one.raw > 0 or one.distance is None for one in answer.candidates.values()
        )
        if is_similar:
            answer.notices.append(only_similar())
        pages.append(
            RecallPage(hits, answer.asked.question, answer.notices, taken, words, is_similar)
        )
    return pages


def only_similar() -> str:
    """Return the notice that nothing found contains a word of the query."""
    return _("No result contains these words. The results are only similar in meaning.")


def _find(answers: Sequence[Answer], mode: str, limit: int) -> tuple[str, ...]:
    """Run all retrievers for these questions; return the distinct stems of their words."""
    text = answers[0].asked.question.words
    if any(answer.asked.question.words != text for answer in answers):
        raise ValueError("only queries with the same words can be searched together")
    words = query_terms(text, bm25_sql.language_of(answers[0].asked.owner))
    if not any(character.isalnum() for character in text):
        for one in answers:
            if text:  # punctuation has no meaning, but a vector that is near anything
                one.notices.append(_("The query has no letters or digits, so it was ignored."))
            _add_newest(one, limit)
        return tuple(dict.fromkeys(words))
    if mode == "auto":
        near_in_meaning(answers, limit)
    by_words(answers, words, mode, limit)
    waiting = _without_vector(answers)
    for one in answers:
        with_meaning(one, words, waiting)
        for key, candidate in one.candidates.items():
            if rating := one.rated.get(key[1]):
                candidate.score = min(1.0, candidate.score * rating.factor)
    return tuple(dict.fromkeys(words))


# --- by words --------------------------------------------------------------------------------------


def by_words(answers: Sequence[Answer], words: list[str], mode: str, limit: int) -> None:
    """Find and score the records that contain the words."""
    formula = bm25_sql.EXACT if mode == "exact" else bm25_sql.LEXICAL
    spaces = _spaces([one.asked for one in answers], words)
    if mode != "exact" and as_of.current() is None and any(one.has_ratings for one in spaces):
        scope = answers[0].asked
        language = bm25_sql.language_of(scope.owner)
        rated = Rating.objects.for_user(scope.owner).by_record(
            scope.question.words, words, language
        )
        for one in answers:
            one.rated = rated
    jobs: list[Job] = []
    of: list[Answer] = []  # the question of each job
    for one in answers:
        jobs += _jobs(one.asked, spaces, words, formula, one.depth(limit), before=len(jobs))
        of += [one] * (len(jobs) - len(of))
    for answer, job, ranked in zip(of, jobs, bm25_sql.ranked(jobs), strict=True):
        kind = KINDS[job.space.record_type]
        answer.spaces[kind.type] = job.space
        if job.among.is_current is False:
            _rank_replacements(answer, kind, job.space, ranked)
            continue
        for entry in ranked:
            candidate = answer.of((kind.type, entry.record_id))
            candidate.raw, candidate.matched = entry.score, entry.matched
    for answer in answers:
        for candidate in answer.candidates.values():
            candidate.score = candidate.word_score = relevance(candidate.raw)
        answer.rank(WORDS)


def _jobs(
    scope: SearchScope,
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
    language = bm25_sql.language_of(scope.owner)
    types = {kind.type for kind in scope.kinds}
    jobs, superseded = [], []
    for space in spaces:
        if space.record_type not in types:
            continue
        kind = KINDS[space.record_type]
        among = among_of(kind, scope, space.language)
        terms = words if space.language == language else _terms_of(scope, space)
        jobs.append(Job(space, terms, formula, limit, among))
        if kind.successors is not None and space.has_superseded:
            those = replace(among, is_current=False, where=(), params=())
            beside = before + len(jobs) - 1
            superseded.append(
                Job(space, terms, formula, SUPERSEDED_LOOKED_AT, those, beside=beside)
            )
    return jobs + superseded


def _spaces(narrowed: Sequence[SearchScope], words: list[str]) -> list[Space]:
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


def _terms_of(scope: SearchScope, space: Space) -> list[str]:
    return query_terms(scope.question.words, space.language)


def _rank_replacements(
    answer: Answer, kind: RecallKind, space: Space, ranked: list[Ranked]
) -> None:
    """Give the ranked records' replacements their rank, if it is better than their own."""
    successors = successors_of(answer.asked, kind, space, [one.record_id for one in ranked])
    for one in ranked:
        successor = successors.get(one.record_id)
        if successor is None:
            continue
        candidate = answer.of((kind.type, successor))
        if one.score > candidate.raw:
            candidate.raw, candidate.matched = one.score, one.matched
            candidate.replaces.insert(0, one.record_id)
            candidate.stands_in_for.add(WORDS)


# --- by meaning -----------------------------------------------------------------------------------


def near_in_meaning(answers: Sequence[Answer], limit: int) -> None:
    """Find the nearest vectors; None and a notice if there is no vector search."""
    scope = answers[0].asked
    looks = (
        _vector_query(answer.asked) for answer in answers
    )  # built only if vectors are compared
    depth = max(limit, DEPTH)
    try:
        found = vectors.nearest_each(scope.owner, scope.question.words, looks, depth)
    except vectors.Unavailable as exc:
        for one in answers:
            one.notices.append(str(exc))
        return
    for one, near in zip(answers, found, strict=True):
        one.near = near


def _vector_query(scope: SearchScope) -> vectors.VectorQuery:
    """Return the records that are compared with the question."""
    allowed = {kind.type: rows_of(kind, scope) for kind in scope.kinds}
    if scope.question.phrases or scope.question.without:
        # Exact phrases in superseded records are handled by the words retriever.
        return vectors.VectorQuery(allowed)
    replaced = {
        kind.type: kind.superseded(scope.owner)
        for kind in scope.kinds
        if kind.superseded is not None
    }
    return vectors.VectorQuery(allowed, replaced)


def _without_vector(answers: Sequence[Answer]) -> set[RecordKey]:
    """Return the records found by words that have no vector, such as a note that was just saved."""
    found = {key for one in answers if one.near is not None for key in one.candidates}
    if not found:
        return set()
    types, ids = zip(*found, strict=True)
    due = EmbeddingDue.objects.filter(record_type__in=set(types), object_id__in=ids)
    return set(due.values_list("record_type", "object_id"))


def with_meaning(answer: Answer, words: list[str], waiting: Set[RecordKey]) -> None:
    """Add the nearest records or their replacements, and score all by words and meaning."""
    if answer.near is None:
        return
    _add_near(answer, answer.near)
    if not any(one.raw > 0 for one in answer.candidates.values()):
        for one in [*answer.candidates.values()]:
            if meaning_value(one.distance or 0.0) < MIN_MEANING:
                del answer.candidates[one.key]
    by_type: dict[str, list[Candidate]] = {}
    for candidate in answer.candidates.values():
        by_type.setdefault(candidate.key[0], []).append(candidate)
    scales = bm25_sql.scales_of([*answer.spaces.values()], words)
    for name, candidates in by_type.items():
        space = answer.spaces.get(name)
        scale = scales[space.id] if space else Scale(0.0)
        values = {one.key: words_value(one.raw, scale.best) * scale.share for one in candidates}
        scores = fused(
            {one.key: values[one.key] for one in candidates if one.raw > 0},
            {one.key: one.distance for one in candidates if one.distance is not None},
            1.0,
            space.average if space else 0.0,
            {one.key for one in candidates if one.distance is None} & waiting,
        )
        for one in candidates:
            one.score, one.word_score = scores[one.key], values[one.key]
    answer.rank(MEANING)


def _add_near(answer: Answer, near: Sequence[vectors.Neighbor]) -> None:
    scope = answer.asked
    successors: dict[uuid.UUID, uuid.UUID | None] = {}
    for kind in scope.kinds:
        of_kind = [one.id for one in near if one.type == kind.type]
        successors |= successors_of(scope, kind, answer.spaces.get(kind.type), of_kind)
    for record in near:  # the nearest first
        current = successors.get(record.id, record.id)
        if current is None:
            continue
        candidate = answer.of((record.type, current))
        if candidate.distance is not None:
            continue
        candidate.distance = record.distance
        if current != record.id:
            candidate.stands_in_for.add(MEANING)
            if record.id not in candidate.replaces:
                candidate.replaces.append(record.id)


def figures_of(space: Space | None, words: Sequence[str]) -> tuple[float, float]:
    """Return the best possible score and the average length, for `fused`."""
    return (0.0, 0.0) if space is None else (bm25_sql.best_possible(space, words), space.average)


# --- hits -----------------------------------------------------------------------------------------


def _add_newest(answer: Answer, limit: int) -> None:
    """Find the newest matching records, since there are no words to rank by."""
    scope = answer.asked
    # The rules for agents aren't a question: if all that was typed was ignored, nothing is found.
    typed = [one for one in scope.question.filters if not any(one is rule for rule in FOR_AGENTS)]
    if not (typed or scope.question.without or scope.is_narrow):
        return
    keys: list[tuple[datetime, RecordKey]] = []
    for kind in scope.kinds:
        rows = rows_of(kind, scope).order_by("-created", "-pk").values_list("created", "pk")
        keys += [(created, (kind.type, pk)) for created, pk in rows[:limit]]
    for _created, key in sorted(keys, reverse=True)[:limit]:
        answer.of(key)


def _hits(answers: Sequence[Answer], least: float, limit: int) -> list[list[RecallHit]]:
    """Load the best candidates as hits; rows that must not be returned are left out."""
    best = [_best(one, least, limit) for one in answers]
    scope = answers[0].asked  # the owner and the time are the same for all
    ids: dict[str, list[uuid.UUID]] = {}
    for one in (one for some in best for one in some):
        ids.setdefault(one.key[0], []).append(one.key[1])
    records: dict[RecordKey, Any] = {}
    later_finding: dict[uuid.UUID, str] = {}
    for name, some in ids.items():
        rows = list(KINDS[name].rows(scope.owner, scope.now).filter(pk__in=some).order_by())
        records |= {(name, row.pk): row for row in rows}
        if overtaken := KINDS[name].overtaken:
            later_finding |= overtaken(rows)
    # translated once: ten translations take half a ms
    labelled = _("author, tag or topic also matches: %(words)s")
    return [
        [
            _hit(answer, one, records[one.key], labelled, later_finding.get(one.key[1], ""))
            for one in [one for one in some if one.key in records][:limit]
        ]
        for answer, some in zip(answers, best, strict=True)
    ]


def _best(answer: Answer, least: float, limit: int) -> list[Candidate]:
    """Return the best candidates, with a few spare ones because some may be excluded."""
    kept = [one for one in answer.candidates.values() if one.score >= least]
    place = {one.key: number for number, one in enumerate(kept)}
    kept.sort(key=lambda one: (-one.score, place[one.key] if not one.ranks else 0, one.key))
    return kept[: limit + 5] if limit else []


def _hit(
    answer: Answer, one: Candidate, record: Any, labelled: str, later_finding: str
) -> RecallHit:
    retriever_scores = {}  # by retriever
    if one.raw > 0:
        retriever_scores[WORDS] = RetrieverScore(one.raw, one.word_score, one.ranks[WORDS])
    if one.distance is not None:
        near = meaning_value(one.distance)
        retriever_scores[MEANING] = RetrieverScore(one.distance, near, one.ranks[MEANING])
    stems = tuple(dict.fromkeys(stem.removeprefix(LABEL) for stem in one.matched))
    return RecallHit(
        one.key[0],
        record,
        score=one.score,
        retrievers=retriever_scores,
        explanation=Explanation(
            tuple(retriever_scores), stems, dict(one.ranks), tuple(_boosts(answer, one, labelled))
        ),
        replaces=tuple(one.replaces),
        later_finding=later_finding,
        rating=answer.rated.get(record.pk),
    )


def _boosts(answer: Answer, one: Candidate, labelled: str) -> Iterable[str]:
    """Yield a label for each thing that changed a hit's rank besides its own words."""
    labels = [stem.removeprefix(LABEL) for stem in one.matched if stem.startswith(LABEL)]
    if labels:
        yield labelled % {"words": ", ".join(labels)}
    for phrase in answer.asked.question.phrases:
        yield _("contains the phrase “%(phrase)s”") % {"phrase": phrase}
    if WORDS in one.stands_in_for:
        yield _("replaces a record that contains these words")
    elif MEANING in one.stands_in_for:
        yield _("replaces a record with a similar meaning")
    if rated := answer.rated.get(one.key[1]):
        yield rated.boost
