"""`/related/{id}`: the records nearest to one record, by meaning and shared rare words."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.utils import timezone
from ninja import Query
from pydantic import BaseModel, Field

from memory.api.auth import READ, ApiRequest, Caller
from memory.api.frame import router
from memory.api.problems import Problem, not_found
from memory.api.recall import Type
from memory.api.shown import one_of, shows
from memory.models import Use
from memory.services.search.kinds import KINDS
from memory.services.search.related import MOST, Related, related_to

api = router("related")


class RelatedQuery(BaseModel):
    """How many related records, and of which types."""

    type: list[Type] = Field([], max_length=5, description="Only these types.")
    limit: int = Field(6, ge=1, le=MOST, description="Maximum number of records.")


class RelatedOut(BaseModel):
    """A record near another one."""

    id: UUID
    type: Type
    title: str
    content: str
    url: str
    created_at: datetime
    source: str
    trust: str
    score: float = Field(description="0 to 1. Use it only to compare records of one answer.")
    meaning: float = Field(description="Cosine of the two texts’ vectors, or 0 if it isn’t near.")
    words: list[str] = Field(description="Rare words that both contain.")
    reasons: list[Literal["meaning", "words"]] = Field(description="Why it is related.")

    @classmethod
    def of(cls, one: Related) -> Self:
        shows(one.record)
        same = ("id", "type", "title", "url", "score", "meaning", "words", "reasons")
        return cls(
            content=KINDS[one.type].content(one.record),
            created_at=one.record.created,
            source=one.record.source,
            trust=one.record.trust,
            **{name: getattr(one, name) for name in same},
        )


class RelatedListOut(BaseModel):
    """The related records, nearest first."""

    items: list[RelatedOut]
    next: None = None


@api.get("/{uuid:memory_id}", auth=READ, response=RelatedListOut)
def list_related(
    request: ApiRequest, memory_id: UUID, wanted: Query[RelatedQuery]
) -> RelatedListOut:
    """Return the records nearest to a record of any type that recall returns."""
    caller = request.auth
    shows()
    record = _record(caller, memory_id)
    record.owner = caller.owner
    if caller.by.is_person:
        found = related_to(record, limit=wanted.limit, types=wanted.type)
    else:
        found = related_to(record, limit=MOST, types=wanted.type, is_agent=True)
        context = caller.context()
        found = [one for one in found if context.may_read(one.record)][: wanted.limit]
        Use.note_records(caller.owner, [one.record for one in found], caller.place)
    return RelatedListOut(items=[RelatedOut.of(one) for one in found])


def _record(caller: Caller, key: UUID) -> Any:
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
