"""Recall: one ranked search over everything that Beacon remembers, for pages, API and tools."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from beacon_site.text.terms import LABEL, query_terms
from memory.models import as_of
from memory.models.errors import InvalidValue
from memory.models.history import Use
from memory.services.search import bm25_sql, ratings, retrievers
from memory.services.search.bm25_sql import relevance
from memory.services.search.filters import Narrowing, narrowing_of, rows_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import Question
from memory.services.search.ratings import Rated
from memory.services.search.retrievers import (
    MEANING,
    WORDS,
    Answer,
    Candidate,
    Candidates,
    RecordKey,
)

MODES = ("auto", "lexical", "exact")
MOST_HITS = 200
LONGEST_LATER = 300  # characters of a later finding that are shown beside a passage


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
class Lane:
    """A hit's score in one lane: raw (BM25 or distance), scaled to 0..1, and its rank."""

    raw: float
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Why:
    """Why a hit is ranked where it is: lanes, matched stems, rank in each lane, and boosts."""

    lanes: tuple[str, ...]
    stems: tuple[str, ...]
    ranks: dict[str, int]
    boosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecallHit:
    """One record found.

    `replaces` are the superseded records that it replaces. `found_later` is what a later run found
    that differs from it. `rating` is the rating for this question that changed its score.
    """

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
    found_later: str = ""
    rating: Rated | None = None

    @property
    def rated(self) -> str:
        """Return how this record itself was rated for the question: useful, not-useful or ""."""
        return "" if self.rating is None or self.rating.is_cited else self.rating.rating.value

    def dated(self, passage: str) -> str:
        """Return a passage of the record, followed by what a later run found, if anything."""
        if not self.found_later:
            return passage
        told = {"passage": passage, "later": shorten(self.found_later, LONGEST_LATER)}
        return _("%(passage)s (a later run found a change: %(later)s)") % told


@dataclass(frozen=True, slots=True)
class RecallPage:
    """The hits with everything to show about them; `notices` appear once, above the list."""

    hits: list[RecallHit]
    question: Question
    notices: list[str]
    milliseconds: float
    stems: tuple[str, ...]


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
    limit = max(0, min(how.get("limit", 10), MOST_HITS))
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
        pages.append(RecallPage(hits, answer.asked.question, answer.notices, taken, words))
    return pages


def _find(answers: Sequence[Answer], mode: str, limit: int) -> tuple[str, ...]:
    """Run all lanes for these questions; return the distinct stems of their words."""
    text = answers[0].asked.question.words
    if any(one.asked.question.words != text for one in answers):
        raise ValueError("only queries with the same words can be searched together")
    words = query_terms(text, bm25_sql.language_of(answers[0].asked.owner))
    if not any(character.isalnum() for character in text):
        for one in answers:
            if text:  # punctuation has no meaning, but a vector that is near anything
                one.notices.append(_("The query has no letters or digits, so it was ignored."))
            one.found = _newest(one.asked, limit)
        return tuple(dict.fromkeys(words))
    if mode != "exact" and as_of.current() is None:
        rated = ratings.of_question(answers[0].asked.owner, text, words)
        for one in answers:
            one.rated = rated
    if mode == "auto":
        retrievers.near_in_meaning(answers, limit)
    retrievers.by_words(answers, words, mode, limit)
    for one in answers:
        retrievers.with_meaning(one, words)
        retrievers.with_ratings(one)
    return tuple(dict.fromkeys(words))


# --- hits -----------------------------------------------------------------------------------------


def _newest(asked: Narrowing, limit: int) -> Candidates:
    """Return the newest matching records, since there are no words to rank by."""
    found = Candidates()
    if not (asked.question.filters or asked.question.without or asked.is_narrow):
        return found
    keys: list[tuple[datetime, RecordKey]] = []
    for kind in asked.kinds:
        rows = rows_of(kind, asked).order_by("-created", "-pk").values_list("created", "pk")
        keys += [(created, (kind.type, pk)) for created, pk in rows[:limit]]
    for _created, key in sorted(keys, reverse=True)[:limit]:
        found.of(key)
    return found


def _hits(answers: Sequence[Answer], least: float, limit: int) -> list[list[RecallHit]]:
    """Load the best candidates as hits; rows that must not be returned are left out."""
    best = [_best(one.found, least, limit) for one in answers]
    asked = answers[0].asked  # the owner and the time are the same for all
    ids: dict[str, list[uuid.UUID]] = {}
    for one in (one for some in best for one in some):
        ids.setdefault(one.key[0], []).append(one.key[1])
    records: dict[RecordKey, Any] = {}
    found_later: dict[uuid.UUID, str] = {}
    for name, some in ids.items():
        rows = list(KINDS[name].rows(asked.owner, asked.now).filter(pk__in=some).order_by())
        records |= {(name, row.pk): row for row in rows}
        if overtaken := KINDS[name].overtaken:
            found_later |= overtaken(rows)
    # translated once: ten translations take half a ms
    labelled = _("author, tag or topic contains: %(words)s")
    return [
        [
            _hit(answer, one, records[one.key], labelled, found_later.get(one.key[1], ""))
            for one in [one for one in some if one.key in records][:limit]
        ]
        for answer, some in zip(answers, best, strict=True)
    ]


def _best(found: Candidates, least: float, limit: int) -> list[Candidate]:
    """Return the best candidates, with a few spare ones because some may be excluded."""
    kept = [one for one in found.candidates.values() if one.score >= least]
    place = {one.key: number for number, one in enumerate(kept)}
    kept.sort(key=lambda one: (-one.score, place[one.key] if not one.ranks else 0, one.key))
    return kept[: limit + 5] if limit else []


def _hit(answer: Answer, one: Candidate, record: Any, labelled: str, found_later: str) -> RecallHit:
    kind = KINDS[one.key[0]]
    said = {}  # by lane
    if one.raw > 0:
        said[WORDS] = Lane(one.raw, relevance(one.raw), one.ranks[WORDS])
    if one.distance is not None:
        near = retrievers.meaning_value(one.distance)
        said[MEANING] = Lane(one.distance, near, one.ranks[MEANING])
    stems = tuple(dict.fromkeys(stem.removeprefix(LABEL) for stem in one.matched))
    return RecallHit(
        id=record.pk,
        type=kind.type,
        category=kind.category(record),
        score=one.score,
        content=kind.content(record),
        created_at=record.created,
        source=record.source,
        lanes=said,
        why=Why(tuple(said), stems, dict(one.ranks), tuple(_boosts(answer, one, labelled))),
        title=kind.title(record),
        url=kind.url(record),
        record=record,
        replaces=tuple(one.replaces),
        found_later=found_later,
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
        yield _("replaces a record that is closer in meaning")
    if rated := answer.rated.get(one.key[1]):
        yield rated.words
