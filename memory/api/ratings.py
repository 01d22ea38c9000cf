"""`/recall/ratings`: whether a result, or an answer in a session, was useful for its question."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from memory.api.auth import WRITE, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.problems import not_found
from memory.api.proposals import check_unreviewed
from memory.api.shown import shows
from memory.models import Rating
from memory.models.ratings import LONGEST_REASON
from memory.services.search import ratings

api = router("recall")

REVIEWED_AS = "rating"  # the rule for everything else applies


class RatingIn(Body):
    """A rating of a result for a question."""

    question: str = Field(
        max_length=10_000, description="The query. The order of its words doesn’t matter."
    )
    id: UUID = Field(
        strict=False, description="The ID of the result, or of a session for one of its answers."
    )
    position: int = Field(
        0, ge=0, le=1_000_000, description="For an answer: the position of its message."
    )
    value: Literal["useful", "not-useful"]
    reason: str = Field("", max_length=LONGEST_REASON, description="Why, in a few words.")


class RatingOut(BaseModel):
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
        return cls(**{name: getattr(rating, name) for name in cls.model_fields})


@api.post("", auth=WRITE, response={200: RatingOut, 201: RatingOut, 404: None})
def rate_result(request: ApiRequest, rating: RatingIn) -> Any:
    """Rate a result as useful or not useful for a question; an earlier rating is replaced.

    The same question then ranks the result higher or lower. An agent can’t replace a person’s
    rating.
    """
    caller = request.auth
    record = _record(caller, rating)
    check_unreviewed(caller, REVIEWED_AS, _("Rating a result"))
    stored = ratings.rate(
        caller.owner, rating.question, record, rating.value, by=caller.by, reason=rating.reason
    )
    return Status(201 if stored.is_new else 200, RatingOut.of(stored))


@api.delete("/{rating_id}", auth=WRITE, response={204: None})
def clear_rating(request: ApiRequest, rating_id: UUID) -> Status[None]:
    """Clear a rating. An agent can clear only its own."""
    caller = request.auth
    rating = Rating.objects.of(caller.owner).filter(pk=rating_id).first()
    if rating is None:
        raise not_found()
    check_unreviewed(caller, REVIEWED_AS, _("Clearing a rating"))
    rating.owner = caller.owner
    ratings.clear(rating, by=caller.by)
    return Status(204, None)


def _record(caller: Caller, wanted: RatingIn) -> Any:
    """Return what the caller rates, which it can read.  Raises Problem (404)."""
    if wanted.position:
        answer = ratings.answer_of(caller.owner, wanted.id, wanted.position)
        if answer is None or not _is_own(caller, answer.session):
            raise not_found()
        return answer
    record = ratings.record_of(caller.owner, wanted.id)
    if record is None or not (caller.by.is_person or caller.context().may_read(record)):
        raise not_found()
    return record


def _is_own(caller: Caller, session: Any) -> bool:
    return caller.by.is_person or session.agent_id == caller.agent.pk
