"""`/about`: everything about a name, such as a person, a company or a product."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Self
from uuid import UUID

from ninja import Query
from pydantic import BaseModel, Field

from memory.api.auth import READ, ApiRequest
from memory.api.frame import router
from memory.api.paging import PageParams, closed, opened
from memory.api.recall import Type
from memory.api.shown import shows
from memory.models import Trust, Use
from memory.services.notes.saving import lowest_trust
from memory.services.search.about import MOST, PAGE, About, Mention, Reader, about
from memory.services.search.kinds import KINDS

api = router("about")
_LIST = "about"


class AboutQuery(PageParams):
    """The name, and which of its records."""

    name: str = Field(max_length=200, description="A name, at most 60 characters.")
    type: list[Type] = Field([], max_length=5, description="List only records of these types.")
    limit: int = Field(PAGE, ge=1, le=MOST, description="Maximum number of items.")


class MentionOut(BaseModel):
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
    def of(cls, one: Mention) -> Self:
        shows(one.record)
        same = ("id", "type", "title", "url")
        return cls(
            content=KINDS[one.type].content(one.record),
            created_at=one.created,
            source=one.record.source,
            trust=one.record.trust,
            **{name: getattr(one, name) for name in same},
        )


class MonthOut(BaseModel):
    """How many of the records were created in a month."""

    month: date
    records: int


class BesideOut(BaseModel):
    """A name in the same records."""

    name: str
    records: int


class AboutOut(BaseModel):
    """Everything about a name. `beside` comes from the newest `read` records."""

    name: str
    aliases: list[str]
    total: int
    counts: dict[str, int] = Field(description="Records by type.")
    months: list[MonthOut]
    beside: list[BesideOut]
    read: int
    items: list[MentionOut]
    next: str | None = None

    @classmethod
    def of(cls, found: About) -> Self:
        if found.beside:  # the names come from records that aren't all listed
            shows(trust=lowest_trust([Trust.OWNER, *found.trusts]))
        told: dict[str, Any] = {
            "name": found.group.name,
            "aliases": list(found.group.names[1:]),
            "months": [MonthOut(month=month, records=n) for month, n in found.months],
            "beside": [BesideOut(name=one.name, records=one.records) for one in found.beside],
            "items": [MentionOut.of(one) for one in found.mentions],
            "next": closed(found.next, _LIST),
        }
        return cls(total=found.total, counts=found.counts, read=found.read, **told)


@api.get("", auth=READ, response=AboutOut)
def show_about(request: ApiRequest, wanted: Query[AboutQuery]) -> AboutOut:
    """Return everything about a name: its records, newest first, their numbers and the names beside it."""
    caller = request.auth
    shows()
    is_agent = not caller.by.is_person
    scopes = tuple(caller.context().scopes) if is_agent else ()
    found = about(
        Reader(caller.owner, is_agent=is_agent, scopes=scopes),
        wanted.name,
        types=wanted.type,
        cursor=opened(wanted, _LIST),
        limit=wanted.limit,
    )
    if is_agent:
        Use.note_records(caller.owner, [one.record for one in found.mentions], caller.place)
    return AboutOut.of(found)
