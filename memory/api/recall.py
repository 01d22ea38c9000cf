"""`/recall`: one ranked search over all that is remembered."""

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
from memory.api.shown import Moment, moment, shows
from memory.models import Trust, Use
from memory.search.query import Filter, parse
from memory.search.recall import MOST_HITS, How, RecallHit, RecallPage, recall_page

api = router("recall")

Type = Literal["note", "observation", "fact", "report", "section"]
# What no agent is told, however it asks; so many more are asked for where scopes leave hits out.
_NEVER = (
    Filter("sensitivity", ("sensitive",), negated=True),
    Filter("trust", (Trust.QUARANTINED.value,), negated=True),
)
_SPARE = 50
_PLURALS: tuple[tuple[Category, str], ...] = (
    ("finding", "findings"),
    ("insight", "insights"),
    ("lesson", "lessons"),
)


class RecallWanted(BaseModel):
    """What is asked of memory."""

    q: str = Field(
        "",
        max_length=10_000,
        description='Words, "phrases" and operators such as kind:rule or topic:batteries.',
    )
    mode: Literal["auto", "lexical", "exact"] = Field(
        "auto", description="exact: BM25 of the content alone; auto: also by meaning."
    )
    type: list[Type] = Field([], max_length=5, description="Only these types.")
    category: list[Category] = Field([], max_length=3, description="Only these categories.")
    kind: list[Literal["log", "summary", "rule", "soul", "agent", "user"]] = Field(
        [], max_length=6, description="Only notes of these kinds."
    )
    topic: str | None = Field(None, max_length=200, description="Only of this topic (slug).")
    after: Moment | None = Field(None, description="Only what was created then or later.")
    before: Moment | None = Field(None, description="Only what was created before.")
    limit: int = Field(10, ge=1, le=MOST_HITS, description="How many at most.")
    min_score: float = Field(0.0, ge=0, le=1, description="Only hits of this score or more.")
    by_category: int | None = Field(
        None,
        ge=1,
        le=MOST_HITS,
        description="So many findings, insights and lessons each, in place of one list.",
    )


class LaneOut(BaseModel):
    """What one lane says of a hit: its own figure, that in 0..1, its rank there."""

    raw: float
    score: float
    rank: int


class WhyOut(BaseModel):
    """Why a hit stands where it does."""

    lanes: list[str]
    stems: list[str]
    ranks: dict[str, int]
    boosts: list[str]


class HitOut(BaseModel):
    """One record that was found, whole."""

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
    lanes: dict[str, LaneOut]
    why: WhyOut
    replaces: list[UUID]
    checked_at: datetime | None = Field(None, description="Of a fact: when a source last said it.")
    found_later: str = Field(
        "", description="Of a finding that changed since: what a later run found."
    )

    @classmethod
    def of(cls, hit: RecallHit) -> Self:
        """Return the hit as it is told."""
        shows(hit.record, trust=Trust.EXTERNAL if hit.found_later else "")
        lanes = {
            name: LaneOut(raw=lane.raw, score=lane.score, rank=lane.rank)
            for name, lane in hit.lanes.items()
        }
        why = WhyOut(
            lanes=list(hit.why.lanes),
            stems=list(hit.why.stems),
            ranks=hit.why.ranks,
            boosts=list(hit.why.boosts),
        )
        same = (
            "id",
            "type",
            "category",
            "score",
            "content",
            "created_at",
            "source",
            "title",
            "url",
            "found_later",
        )
        return cls(
            lanes=lanes,
            why=why,
            trust=hit.record.trust,
            replaces=list(hit.replaces),
            checked_at=getattr(hit.record, "confirmed_at", None),
            **{name: getattr(hit, name) for name in same},
        )


class RecalledOut(BaseModel):
    """The hits, best first; `notices` say what of the question was not understood."""

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
    wanted: Query[RecallWanted],
) -> Any:
    """Return what answers the question best; nothing expired, superseded or in the trash."""
    caller = request.auth
    shows()
    _check_asked(wanted)
    how = How(
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


def _check_asked(wanted: RecallWanted) -> None:
    """Refuse (422) to recall everything: that is what lists are for."""
    narrow = (wanted.q.strip(), wanted.type, wanted.category, wanted.kind, wanted.topic)
    if not any((*narrow, wanted.after, wanted.before, wanted.by_category)):
        words = _("Say what to look for: words in q, or a type, category, kind, topic or time.")
        raise Problem(422, words, errors={"q": [words]})


def _page(caller: Caller, wanted: RecallWanted, how: Any) -> RecallPage:
    """Recall as the caller may; what an agent gets is noted as used by it."""
    if caller.by.is_person:
        return recall_page(caller.owner, wanted.q, wanted.mode, **how)
    question = parse(wanted.q)
    question = replace(question, filters=(*question.filters, *_NEVER))
    limit, context = how["limit"], caller.context()
    for spare in (0, _SPARE):
        most = min(limit + spare, MOST_HITS)
        page = recall_page(caller.owner, question, wanted.mode, **(how | {"limit": most}))
        hits = [hit for hit in page.hits if context.may_read(hit.record)][:limit]
        # More are loaded only where others' scopes left a gap: each hit costs as much again.
        if len(hits) >= limit or len(page.hits) < most:
            break
    Use.note_records(caller.owner, [hit.record for hit in hits], caller.place)
    return replace(page, hits=hits)
