"""Recall: one ranked search over all that is remembered, behind page, API and tools."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.utils.translation import gettext as _

from memory.errors import InvalidValue
from memory.models.history import Use
from memory.recall import fusion, ranking, vectors
from memory.recall.bm25 import relevance
from memory.recall.candidates import MEANING, WORDS, Candidate, Found, Key, successors_of
from memory.recall.kinds import KINDS, RecallKind
from memory.recall.narrowing import Narrowing, among_of, narrowing_of, rows_of
from memory.recall.operators import Question
from memory.recall.ranking import Job, Ranked, Space
from memory.texts.terms import LABEL, label_terms, query_terms

MODES = ("auto", "lexical", "exact")
MOST_HITS = 200
SUPERSEDED_LOOKED_AT = 50  # of the superseded records, the best, for which others stand in


class How(TypedDict, total=False):
    """What narrows a recall besides operators in its query, and how many hits are wanted."""

    types: Sequence[str]
    categories: Sequence[str]
    kinds: Sequence[str]
    topic: Any  # a Topic, or its slug or title
    after: datetime | None
    before: datetime | None
    scope: str | None
    limit: int
    min_score: float
    place: str  # where the hits enter: each is noted as a Use there
    now: datetime | None


@dataclass(frozen=True, slots=True)
class Lane:
    """What one lane says of a hit: its own figure (BM25, or the distance), that in 0..1, its rank."""

    raw: float
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Why:
    """Why a hit is where it is, in parts: lanes, stems found, rank in each lane, what raised it."""

    lanes: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    ranks: dict[str, int] = field(default_factory=dict)
    boosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallHit:
    """One record found.  `replaces` are the superseded ones that it stands in for."""

    id: uuid.UUID
    type: str
    category: str
    score: float
    content: str
    created_at: datetime
    source: str
    lanes: dict[str, Lane]
    why: Why
    title: str
    url: str
    record: Any
    replaces: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallPage:
    """The hits with all that is to be said of them; `notices` is told once, above them."""

    hits: list[RecallHit]
    question: Question
    notices: list[str]
    milliseconds: float
    stems: tuple[str, ...]


def recall(
    owner: Any, query: str | Question, mode: str = "auto", **how: Unpack[How]
) -> list[RecallHit]:
    """Return what the owner remembers that answers `query` best, best first.

    `exact` ranks by BM25 of the content alone, `lexical` also looks at who said it, tags and
    topic, `auto` adds the meaning where there is an embedder.  Superseded, expired and trashed
    records are never returned; what replaced one stands in for it.  A query of operators alone
    gives the newest.  Text is read for operators; a program that means words alone gives a
    Question.  Raises InvalidValue for an unknown mode or type.
    """
    return recall_page(owner, query, mode, **how).hits


def recall_page(
    owner: Any, query: str | Question, mode: str = "auto", **how: Unpack[How]
) -> RecallPage:
    """Return what `recall()` does, with the question taken apart, notices and the time it took."""
    started = time.perf_counter()
    if mode not in MODES:
        problem = _("There is no mode “%(mode)s”: it is auto, lexical or exact.") % {"mode": mode}
        raise InvalidValue(problem, errors={"mode": [problem]})
    asked = narrowing_of(owner, query, how)
    limit = max(0, min(how.get("limit", 10), MOST_HITS))
    notices = [*asked.question.problems, *asked.notices]
    words = query_terms(asked.question.words, ranking.language_of(owner))
    has_words = any(character.isalnum() for character in asked.question.words)
    if asked.question.words and not has_words:  # signs alone mean nothing, and lie near anything
        notices.append(_("These signs hold no letter and no digit; they were left out."))
    if not has_words:
        found = _newest(asked, limit)
    else:
        near = _near(asked, limit, notices) if mode == "auto" else None
        found = _by_words(asked, words, mode, limit if near is None else max(limit, fusion.DEPTH))
        if near is not None:
            _by_meaning(asked, words, near, found)
    kept = [one for one in found.candidates.values() if one.score >= how.get("min_score", 0.0)]
    hits = _hits(asked, kept, limit)
    if place := how.get("place", ""):
        Use.note(owner, [(hit.record.record_type(), hit.id) for hit in hits], place)
    taken = (time.perf_counter() - started) * 1000
    return RecallPage(hits, asked.question, notices, taken, tuple(dict.fromkeys(words)))


def recall_by_category(
    owner: Any, query: str, per_category: int = 5, **how: Unpack[How]
) -> dict[str, list[RecallHit]]:
    """Return the best observations of each category: as three recalls of one category each (R72)."""
    names = {"finding": "findings", "insight": "insights", "lesson": "lessons"}
    narrowed = How(how)  # type: ignore[misc]
    narrowed["limit"] = per_category
    return {
        plural: recall(owner, query, **(narrowed | {"categories": [category]}))
        for category, plural in names.items()
    }


# --- the lane of words ----------------------------------------------------------------------------


def _by_words(asked: Narrowing, words: list[str], mode: str, depth: int) -> Found:
    """Return what holds the words, scored by them."""
    found = Found()
    formula = ranking.EXACT if mode == "exact" else ranking.LEXICAL
    jobs = _jobs(asked, words, formula, depth)
    for job, ranked in zip(jobs, ranking.ranked(jobs), strict=True):
        kind = KINDS[job.space.record_type]
        found.spaces[kind.type] = job.space
        if job.among.stands is False:
            _stand_in(asked, kind, ranked, found)
            continue
        for one in ranked:
            candidate = found.of((kind.type, one.record_id))
            candidate.raw, candidate.matched = one.score, one.matched
    for candidate in found.candidates.values():
        candidate.score = relevance(candidate.raw)
    found.rank(WORDS)
    return found


def _jobs(asked: Narrowing, words: list[str], formula: ranking.Formula, limit: int) -> list[Job]:
    """Return the rankings of all types asked for; those of superseded records last."""
    language = ranking.language_of(asked.owner)
    spaces = _spaces(asked, words, language)
    jobs, superseded = [], []
    for space in spaces:
        kind = KINDS[space.record_type]
        among = among_of(kind, asked, space.language)
        terms = words if space.language == language else _terms_of(asked, space)
        jobs.append(Job(space, terms, formula, limit, among))
        if kind.successors is not None and space.has_superseded:
            those = replace(among, stands=False, where=(), params=())
            superseded.append(
                Job(space, terms, formula, SUPERSEDED_LOOKED_AT, those, beside=len(jobs) - 1)
            )
    return jobs + superseded


def _spaces(asked: Narrowing, words: list[str], language: str) -> list[Space]:
    """Return the spaces with the terms' figures; ones in another language are asked again."""
    types = [kind.type for kind in asked.kinds]
    spaces = ranking.spaces_of(asked.owner, types, [*words, *(LABEL + word for word in words)])
    others = {space.language for space in spaces} - {language}
    for other in others:
        terms = query_terms(asked.question.words, other)
        lexemes = [*terms, *label_terms(asked.question.words, other)]
        again = ranking.spaces_of(
            asked.owner, [s.record_type for s in spaces if s.language == other], lexemes
        )
        spaces = [s for s in spaces if s.language != other] + again
    return spaces


def _terms_of(asked: Narrowing, space: Space) -> list[str]:
    return query_terms(asked.question.words, space.language)


def _stand_in(asked: Narrowing, kind: RecallKind, ranked: list[Ranked], found: Found) -> None:
    """Give what superseded the ranked records their place, where it is the better one."""
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


# --- the lane of meaning, and what becomes of both ------------------------------------------------


def _near(asked: Narrowing, limit: int, notices: list[str]) -> list[vectors.Near] | None:
    """Return what lies near the question; None, and a notice, where there is no such lane."""
    allowed = {kind.type: rows_of(kind, asked) for kind in asked.kinds}
    depth = max(limit, fusion.DEPTH)
    replaced = {
        kind.type: kind.superseded(asked.owner)
        for kind in asked.kinds
        if kind.superseded is not None
    }
    if asked.question.phrases or asked.question.without:
        replaced = {}  # what a superseded record says word for word, the lane of words looks at
    near = vectors.nearest(
        asked.owner, asked.question.words, allowed, depth, allowed=allowed, replaced=replaced
    )
    if isinstance(near, vectors.Unavailable):
        notices.append(near.reason)
        return None
    return near


def _by_meaning(asked: Narrowing, words: list[str], near: list[vectors.Near], found: Found) -> None:
    """Add what lies near the question, or stands in for that, and score all by both lanes."""
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
        values = fusion.fused(
            {one.key: one.raw for one in candidates if one.raw > 0},
            {one.key: one.distance for one in candidates if one.distance is not None},
            _shape(found.spaces.get(name), words),
        )
        for one in candidates:
            one.score = values[one.key]
    found.rank(MEANING)


def _shape(space: Space | None, words: Sequence[str]) -> fusion.Shape:
    if space is None:
        return fusion.Shape()
    return fusion.Shape(ranking.best_possible(space, words), space.average)


# --- hits -----------------------------------------------------------------------------------------


def _newest(asked: Narrowing, limit: int) -> Found:
    """Return the newest of what the operators let through: there are no words to rank by."""
    found = Found()
    if not (asked.question.filters or asked.question.without or asked.is_narrow):
        return found
    keys: list[tuple[datetime, Key]] = []
    for kind in asked.kinds:
        rows = rows_of(kind, asked).order_by("-created", "-pk").values_list("created", "pk")
        keys += [(created, (kind.type, pk)) for created, pk in rows[:limit]]
    for _created, key in sorted(keys, reverse=True)[:limit]:
        found.of(key)
    return found


def _hits(asked: Narrowing, candidates: list[Candidate], limit: int) -> list[RecallHit]:
    """Load the best and return them as hits; a row that may not be returned is left out."""
    place = {one.key: number for number, one in enumerate(candidates)}
    candidates.sort(key=lambda one: (-one.score, place[one.key] if not one.ranks else 0, one.key))
    best = candidates[: limit + 5] if limit else []
    records: dict[Key, Any] = {}
    for kind in asked.kinds:
        ids = [one.key[1] for one in best if one.key[0] == kind.type]
        if ids:
            rows = kind.rows(asked.owner, asked.now).filter(pk__in=ids).order_by()
            records |= {(kind.type, row.pk): row for row in rows}
    kept = [one for one in best if one.key in records][:limit]
    labelled = _("who said it, a tag or the topic holds: %(words)s")  # once: ten take half a ms
    return [_hit(asked, one, records[one.key], labelled) for one in kept]


def _hit(asked: Narrowing, one: Candidate, record: Any, labelled: str) -> RecallHit:
    kind = KINDS[one.key[0]]
    lanes = {}
    if one.raw > 0:
        lanes[WORDS] = Lane(one.raw, relevance(one.raw), one.ranks[WORDS])
    if one.distance is not None:
        near = fusion.meaning_value(one.distance)
        lanes[MEANING] = Lane(one.distance, near, one.ranks[MEANING])
    stems = tuple(dict.fromkeys(stem.removeprefix(LABEL) for stem in one.matched))
    return RecallHit(
        id=record.pk,
        type=kind.type,
        category=kind.category(record),
        score=one.score,
        content=kind.content(record),
        created_at=record.created,
        source=record.source,
        lanes=lanes,
        why=Why(tuple(lanes), stems, dict(one.ranks), tuple(_boosts(asked, one, labelled))),
        title=kind.title(record),
        url=kind.url(record),
        record=record,
        replaces=tuple(one.replaces),
    )


def _boosts(asked: Narrowing, one: Candidate, labelled: str) -> Iterable[str]:
    """Yield in words what raised a hit besides its own words."""
    labels = [stem.removeprefix(LABEL) for stem in one.matched if stem.startswith(LABEL)]
    if labels:
        yield labelled % {"words": ", ".join(labels)}
    for phrase in asked.question.phrases:
        yield _("holds the phrase “%(phrase)s”") % {"phrase": phrase}
    if WORDS in one.stands_in_for:
        yield _("stands in for what it superseded, which holds these words")
    elif MEANING in one.stands_in_for:
        yield _("stands in for what it superseded, which is nearer to the question")
