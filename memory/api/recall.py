"""`/recall`: one ranked search over everything remembered."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.utils.translation import gettext as _
from ninja import Query
from pydantic import BaseModel, Field

from memory.api.auth import READ, ApiRequest, Caller
from memory.api.frame import router
from memory.api.observations import Category
from memory.api.problems import Problem
from memory.api.shown import Moment, as_it_was, moment, shows
from memory.models import Trust, Use
from memory.models.as_of import AS_OF_WORDS
from memory.services.search.query import FOR_AGENTS, parse
from memory.services.search.recall import (
    MOST_HITS,
    Lane,
    RecallHit,
    RecallOptions,
    RecallPage,
    Why,
    recall_page,
)

api = router("recall")

Type = Literal["note", "observation", "fact", "report", "section"]
_SPARE = 50  # more results are requested, since scopes can exclude some
_PLURALS: tuple[tuple[Category, str], ...] = (
    ("finding", "findings"),
    ("insight", "insights"),
    ("lesson", "lessons"),
)


class RecallQuery(BaseModel):
    """A search of memory."""

    q: str = Field(
        "",
        max_length=10_000,
        description='Words, "phrases" and operators such as kind:rule or topic:batteries.',
    )
    mode: Literal["auto", "lexical", "exact"] = Field(
        "auto", description="exact: BM25 of the content only. auto: also semantic search."
    )
    type: list[Type] = Field([], max_length=5, description="Only these types.")
    category: list[Category] = Field([], max_length=3, description="Only these categories.")
    kind: list[Literal["log", "summary", "rule", "soul", "agent", "user"]] = Field(
        [], max_length=6, description="Only these kinds of notes."
    )
    topic: str | None = Field(None, max_length=200, description="Only this topic (slug).")
    after: Moment | None = Field(None, description="Created at or after this time.")
    before: Moment | None = Field(None, description="Created before this time.")
    limit: int = Field(10, ge=1, le=MOST_HITS, description="Maximum number of results.")
    min_score: float = Field(0.0, ge=0, le=1, description="Only results with at least this score.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)
    by_category: int | None = Field(
        None,
        ge=1,
        le=MOST_HITS,
        description="Return this many findings, insights and lessons each, instead of one list.",
    )


class HitOut(BaseModel):
    """One record found, in full."""

    id: UUID
    type: Type
    category: str
    score: float
    content: str
    created_at: datetime
    source: str
    trust: str
    title: str
    url: str
    lanes: dict[str, Lane]
    why: Why
    replaces: list[UUID]
    checked_at: datetime | None = Field(
        None, description="For a fact: when a source last confirmed it."
    )
    found_later: str = Field(
        "", description="For a finding that has changed: what a later run found."
    )

    @classmethod
    def of(cls, hit: RecallHit) -> Self:
        shows(hit.record, trust=Trust.EXTERNAL if hit.found_later else "")
        same = cls.model_fields.keys() - {"trust", "checked_at"}
        return cls(
            trust=hit.record.trust,
            checked_at=getattr(hit.record, "confirmed_at", None),
            **{name: getattr(hit, name) for name in same},
        )


class RecalledOut(BaseModel):
    """The results, best match first.

    `notices` has the parts of the query that were not understood.
    """

    items: list[HitOut]
    next: None = None
    notices: list[str] = []


class GroupedOut(BaseModel):
    """The best observations of each category."""

    findings: list[HitOut]
    insights: list[HitOut]
    lessons: list[HitOut]


@api.get("", auth=READ, response=RecalledOut | GroupedOut)
def recall(
    request: ApiRequest,
    wanted: Query[RecallQuery],
) -> Any:
    """Return the best matches, without expired or replaced records and without Trash."""
    with as_it_was(request.auth, wanted.as_of):
        return _recalled(request.auth, wanted)


def _recalled(caller: Caller, wanted: RecallQuery) -> RecalledOut | GroupedOut:
    shows()
    _check_asked(wanted)
    how = RecallOptions(
        types=wanted.type,
        categories=wanted.category,
        kinds=wanted.kind,
        topic=wanted.topic,
        after=moment(caller, wanted.after),
        before=moment(caller, wanted.before),
        limit=wanted.limit,
        min_score=wanted.min_score,
    )
    if wanted.by_category is None:
        page = _page(caller, wanted, how)
        return RecalledOut(items=[HitOut.of(hit) for hit in page.hits], notices=page.notices)
    how["limit"] = wanted.by_category
    groups = {
        plural: _page(caller, wanted, how | {"categories": [category]}).hits
        for category, plural in _PLURALS
    }
    return GroupedOut(**{name: [HitOut.of(hit) for hit in hits] for name, hits in groups.items()})


def _check_asked(wanted: RecallQuery) -> None:
    """Raise Problem (422) for an empty search: use the lists instead."""
    narrow = (wanted.q.strip(), wanted.type, wanted.category, wanted.kind, wanted.topic)
    if not any((*narrow, wanted.after, wanted.before, wanted.by_category)):
        words = _(
            "Add something to search for: words in q, or a type, category, kind, topic or time."
        )
        raise Problem(422, words, errors={"q": [words]})


def _page(caller: Caller, wanted: RecallQuery, how: Any) -> RecallPage:
    """Return the results that the caller can see; those an agent gets count as used by it."""
    if caller.by.is_person:
        return recall_page(caller.owner, wanted.q, wanted.mode, **how)
    question = parse(wanted.q)
    question = replace(question, filters=(*question.filters, *FOR_AGENTS))
    limit, context = how["limit"], caller.context()
    for spare in (0, _SPARE):
        most = min(limit + spare, MOST_HITS)
        page = recall_page(caller.owner, question, wanted.mode, **(how | {"limit": most}))
        hits = [hit for hit in page.hits if context.may_read(hit.record)][:limit]
        # More are loaded only if other scopes left a gap, since each result costs the
        # same again.
        if len(hits) >= limit or len(page.hits) < most:
            break
    Use.note_records(caller.owner, [hit.record for hit in hits], caller.place)
    return replace(page, hits=hits)
