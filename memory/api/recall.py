"""Searching memory: `/recall` and its ratings, `/related/{id}`, and `/about` with merged names."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import BaseModel, Field

from beacon_site.text.names import MAX_NAME_LENGTH
from memory.api.auth import ADMIN, READ, WRITE, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.observations import Category
from memory.api.paging import PageParams, read_cursor, sign_cursor
from memory.api.problems import Problem, not_found
from memory.api.review import check_unreviewed
from memory.api.shown import Moment, RowOut, moment, one_of, shows, topic_of
from memory.models import Rating, Trust, Use
from memory.models.as_of import AS_OF_WORDS, as_it_was
from memory.models.errors import InvalidValue
from memory.models.ratings import MAX_REASON_LENGTH
from memory.services.notes.saving import lowest_trust
from memory.services.search import names, ratings
from memory.services.search.about import MAX, PAGE, About, about
from memory.services.search.kinds import KINDS
from memory.services.search.query import FOR_AGENTS, parse
from memory.services.search.recall import (
    MAX_HITS,
    Explanation,
    FoundRecord,
    RecallHit,
    RecallOptions,
    RecallPage,
    RetrieverScore,
    recall_page,
)
from memory.services.search.related import MAX as MAX_RELATED
from memory.services.search.related import related_to

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
        "auto",
        description="exact: BM25 over the content only. lexical: BM25 that also covers tags, origin and the topic's title. auto: lexical plus semantic search.",
    )
    type: list[Type] = Field([], max_length=5, description="Only these types.")
    category: list[Category] = Field([], max_length=3, description="Only these categories.")
    kind: list[Literal["log", "summary", "rule", "soul", "agent", "user"]] = Field(
        [], max_length=6, description="Only these kinds of notes."
    )
    topic: str | None = Field(None, max_length=200, description="Only this topic (slug).")
    after: Moment | None = Field(None, description="Created at or after this time.")
    before: Moment | None = Field(None, description="Created before this time.")
    limit: int = Field(10, ge=1, le=MAX_HITS, description="Maximum number of results.")
    min_score: float = Field(0.0, ge=0, le=1, description="Only results with at least this score.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)
    by_category: int | None = Field(
        None,
        ge=1,
        le=MAX_HITS,
        description="Return up to this many results per category (findings, insights and lessons), in separate lists.",
    )


class HitOut(RowOut):
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
    retrievers: dict[str, RetrieverScore]
    explanation: Explanation
    replaces: list[UUID]
    checked_at: datetime | None = Field(
        None, description="For a fact: when a source last confirmed it."
    )
    later_finding: str = Field(
        "", description="For a finding that has changed: what a later run found."
    )

    @classmethod
    def of(cls, hit: RecallHit) -> Self:
        shows(hit.record, trust=Trust.EXTERNAL if hit.later_finding else "")
        checked_at = getattr(hit.record, "confirmed_at", None)
        return cls.from_row(hit, checked_at=checked_at)


class RecalledOut(BaseModel):
    """The results, best match first.

    `notices` lists the parts of the query that were not understood.
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
    query: Query[RecallQuery],
) -> Any:
    """Return the best matches, except expired, replaced and deleted records."""
    with as_it_was(request.auth, query.as_of):
        return _recalled(request.auth, query)


def _recalled(caller: Caller, query: RecallQuery) -> RecalledOut | GroupedOut:
    shows()
    _check_asked(query)
    how = RecallOptions(
        types=query.type,
        categories=query.category,
        kinds=query.kind,
        topic=topic_of(caller, query.topic),
        after=moment(caller, query.after),
        before=moment(caller, query.before),
        limit=query.limit,
        min_score=query.min_score,
    )
    if query.by_category is None:
        page = _page(caller, query, how)
        return RecalledOut(items=[HitOut.of(hit) for hit in page.hits], notices=page.notices)
    how["limit"] = query.by_category
    groups = {
        plural: _page(caller, query, how | {"categories": [category]}).hits
        for category, plural in _PLURALS
    }
    return GroupedOut(**{name: [HitOut.of(hit) for hit in hits] for name, hits in groups.items()})


def _check_asked(query: RecallQuery) -> None:
    """Raise InvalidValue for an empty search: use the lists instead."""
    narrow = (query.q.strip(), query.type, query.category, query.kind, query.topic)
    if not any((*narrow, query.after, query.before, query.by_category)):
        words = _(
            "Add something to search for: words in q, or a type, category, kind, topic or time."
        )
        raise InvalidValue(words, errors={"q": [words]})


def _page(caller: Caller, query: RecallQuery, how: Any) -> RecallPage:
    """Return the results that the caller can see; those an agent gets count as used by it."""
    if caller.by.is_person:
        return recall_page(caller.owner, query.q, query.mode, **how)
    question = parse(query.q)
    question = replace(question, filters=(*question.filters, *FOR_AGENTS))
    limit, context = how["limit"], caller.context()
    for spare in (0, _SPARE):
        most = min(limit + spare, MAX_HITS)
        page = recall_page(caller.owner, question, query.mode, **(how | {"limit": most}))
        hits = [hit for hit in page.hits if context.may_read(hit.record)][:limit]
        # More are loaded only if other scopes left a gap, since each result costs the
        # same again.
        if len(hits) >= limit or len(page.hits) < most:
            break
    Use.note_records(caller.owner, [hit.record for hit in hits], caller.place)
    return replace(page, hits=hits)


# --- ratings of results: `/recall/ratings` ---

ratings_api = router("recall")

RATING_REVIEWED_AS = "rating"  # the rule for everything else applies


class RatingIn(Body):
    """A rating of a result for a question."""

    question: str = Field(
        max_length=10_000, description="The query. The order of its words doesn’t matter."
    )
    id: UUID = Field(
        strict=False, description="The ID of the result. For an answer, the ID of its session."
    )
    position: int = Field(
        0, ge=0, le=1_000_000, description="For an answer: the position of its message."
    )
    value: Literal["useful", "not-useful"]
    reason: str = Field("", max_length=MAX_REASON_LENGTH, description="Why, in a few words.")


class RatingOut(RowOut):
    """A stored rating."""

    id: UUID
    question: str
    record_type: str
    record_id: UUID
    position: int
    value: str
    reason: str
    actor: str
    created: datetime

    @classmethod
    def of(cls, rating: Rating) -> Self:
        shows()
        return cls.from_row(rating)


@ratings_api.post("", auth=WRITE, response={200: RatingOut, 201: RatingOut, 404: None})
def rate_result(request: ApiRequest, rating: RatingIn) -> Any:
    """Rate a result as useful or not useful for a question.

    Replaces an earlier rating. The result then ranks higher or lower for the same question. An
    agent can’t replace a person’s rating.
    """
    caller = request.auth
    record = _rated_record(caller, rating)
    check_unreviewed(caller, RATING_REVIEWED_AS, _("Rating a result"))
    stored = ratings.rate(
        caller.owner, rating.question, record, rating.value, by=caller.by, reason=rating.reason
    )
    return Status(201 if stored.is_new else 200, RatingOut.of(stored))


@ratings_api.delete("/{rating_id}", auth=WRITE, response={204: None})
def clear_rating(request: ApiRequest, rating_id: UUID) -> Status[None]:
    """Clear a rating. An agent can clear only its own."""
    caller = request.auth
    rating = Rating.objects.for_user(caller.owner).filter(pk=rating_id).first()
    if rating is None:
        raise not_found()
    check_unreviewed(caller, RATING_REVIEWED_AS, _("Clearing a rating"))
    rating.owner = caller.owner
    ratings.clear(rating, by=caller.by)
    return Status(204, None)


def _rated_record(caller: Caller, body: RatingIn) -> Any:
    """Return what the caller rates, which it can read.  Raises Problem (404)."""
    if body.position:
        answer = ratings.answer_of(caller.owner, body.id, body.position)
        if answer is None or not _is_own(caller, answer.session):
            raise not_found()
        return answer
    record = ratings.record_of(caller.owner, body.id)
    if record is None or not (caller.by.is_person or caller.context().may_read(record)):
        raise not_found()
    return record


def _is_own(caller: Caller, session: Any) -> bool:
    return caller.by.is_person or session.agent_id == caller.agent.pk


# --- related records: `/related/{id}` ---

related_api = router("related")


class RelatedQuery(BaseModel):
    """The number and types of related records to return."""

    type: list[Type] = Field([], max_length=5, description="Only these types.")
    limit: int = Field(6, ge=1, le=MAX_RELATED, description="Maximum number of records.")


class FoundOut(RowOut):
    """A record that contains the name."""

    id: UUID
    type: Type
    title: str
    content: str
    url: str
    created_at: datetime
    source: str
    trust: str

    @classmethod
    def of(cls, one: FoundRecord) -> Self:
        shows(one.record)
        return cls.from_row(one)


class RelatedOut(FoundOut):
    """A record that is related to another one."""

    score: float = Field(description="From 0 to 1. Only comparable within a response.")
    meaning: float = Field(description="Cosine of the two texts’ vectors, or 0 if it’s low.")
    words: list[str] = Field(description="Rare words that both contain.")
    reasons: list[Literal["meaning", "words"]] = Field(description="Why it is related.")


class RelatedListOut(BaseModel):
    """The related records, nearest first."""

    items: list[RelatedOut]
    next: None = None


@related_api.get("/{uuid:memory_id}", auth=READ, response=RelatedListOut)
def list_related(
    request: ApiRequest, memory_id: UUID, query: Query[RelatedQuery]
) -> RelatedListOut:
    """Return the records most closely related to a record of any type that recall returns."""
    caller = request.auth
    shows()
    record = _recalled_record(caller, memory_id)
    record.owner = caller.owner
    if caller.by.is_person:
        found = related_to(record, limit=query.limit, types=query.type)
    else:
        found = related_to(record, limit=MAX_RELATED, types=query.type, is_agent=True)
        context = caller.context()
        found = [one for one in found if context.may_read(one.record)][: query.limit]
        Use.note_records(caller.owner, [one.record for one in found], caller.place)
    return RelatedListOut(items=[RelatedOut.of(one) for one in found])


def _recalled_record(caller: Caller, key: UUID) -> Any:
    """Return the record that recall can return.  Raises Problem: 404, and 403 if it is for people."""
    problem: Problem = not_found()
    for kind in KINDS.values():
        try:
            return one_of(caller, kind.rows(caller.owner, timezone.now()), key)
        except Problem as exc:
            if exc.status != 404:
                raise
            problem = exc
    raise problem


# --- names: `/about` ---

about_api = router("about")
_ABOUT_LIST = "about"


class AboutQuery(PageParams):
    """The name, and filters for its records."""

    name: str = Field(max_length=MAX_NAME_LENGTH, description="The name. Case doesn’t matter.")
    type: list[Type] = Field([], max_length=5, description="Only records of these types.")
    limit: int = Field(PAGE, ge=1, le=MAX, description="Maximum number of items.")


class MonthOut(BaseModel):
    """The number of records created in a month."""

    month: date
    records: int


class RelatedNameOut(BaseModel):
    """Another name in the same records."""

    name: str
    records: int


class AboutOut(BaseModel):
    """Everything about a name. `related_names` is based on the newest `read` records."""

    name: str
    aliases: list[str]
    total: int
    counts: dict[str, int] = Field(description="Number of records of each type.")
    months: list[MonthOut]
    related_names: list[RelatedNameOut]
    read: int
    items: list[FoundOut]
    next: str | None = None

    @classmethod
    def of(cls, found: About) -> Self:
        if found.related_names:  # the names come from records that aren't all listed
            shows(trust=lowest_trust([Trust.OWNER, *found.trusts]))
        told: dict[str, Any] = {
            "name": found.names[0],
            "aliases": found.names[1:],
            "months": [MonthOut(month=month, records=n) for month, n in found.months],
            "related_names": [
                RelatedNameOut(name=name, records=n) for name, _key, n in found.related_names
            ],
            "items": [FoundOut.of(one) for one in found.records],
            "next": sign_cursor(found.next, _ABOUT_LIST),
        }
        return cls(total=found.total, counts=found.counts, read=found.read, **told)


@about_api.get("", auth=READ, response=AboutOut)
def show_about(request: ApiRequest, query: Query[AboutQuery]) -> AboutOut:
    """Return the records that contain a name, newest first.

    Also returns how many there are, and the other names in them.
    """
    caller = request.auth
    shows()
    is_agent = not caller.by.is_person
    found = about(
        caller.owner,
        query.name,
        agent_scopes=caller.context().scopes if is_agent else None,
        types=query.type,
        cursor=read_cursor(query, _ABOUT_LIST),
        limit=query.limit,
    )
    if is_agent:
        Use.note_records(caller.owner, [one.record for one in found.records], caller.place)
    return AboutOut.of(found)


class AliasIn(Body):
    """Two names for the same thing."""

    name: str = Field(max_length=MAX_NAME_LENGTH, description="The name that becomes an alias.")
    into: str = Field(max_length=MAX_NAME_LENGTH, description="The name that it is merged into.")


class AliasOut(BaseModel):
    """A merged name."""

    name: str
    into: str


@about_api.post("/aliases", auth=ADMIN, response={201: AliasOut})
def merge_names(request: ApiRequest, body: AliasIn) -> Status[AliasOut]:
    """Merge two names for the same thing. Records with either name are listed for both."""
    caller = request.auth
    into, _was, _now = names.merge(caller.owner, body.name, body.into, by=caller.by)
    return Status(201, AliasOut(name=names.checked(body.name), into=into))


@about_api.delete("/aliases", auth=ADMIN, response={204: None})
def separate_name(
    request: ApiRequest, name: Query[Annotated[str, Field(max_length=MAX_NAME_LENGTH)]]
) -> Status[None]:
    """Separate a merged name again."""
    names.split(request.auth.owner, name, by=request.auth.by)
    return Status(204, None)
