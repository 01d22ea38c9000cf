"""Ratings of search results and answers, and how they change the ranking.

Data flow: a person or an agent rates a result for a question (`rate`) -> the rating is stored under
the question's stemmed words -> a later recall with the same words reads the ratings (`by_record` in
`memory/models/ratings.py`) and multiplies the scores of the rated records -> the explanation of the
result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.messages import grouped
from beacon_site.text.terms import query_terms
from memory.models import Activity, Message, Rating, Session, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from memory.models.ratings import (
    MAX_QUESTION_LENGTH,
    MAX_RATINGS,
    MAX_REASON_LENGTH,
    answers_of,
    can_be_rated,
    key_of,
)
from memory.services.search.bm25_sql import language_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import parse

ANSWER = Session.record_type()  # the type of rated answers


def key_of_text(question: str, language: str) -> str:
    """Return the key of a question's text; "" if it has no words."""
    return key_of(query_terms(question, language), language)


# --- rating ---


def rate(
    owner: User, question: str, record: Any, value: str, *, by: Actor, reason: str = ""
) -> Rating:
    """Rate a record, or an answer (a Message), for a question; an earlier rating is replaced.

    Raises InvalidValue, LimitReached, or Locked if an agent would replace a person's rating.
    """
    words, reason = _checked(question, value, reason)
    language = language_of(owner)
    key = key_of_text(words, language)
    if not can_be_rated(words) or not key:
        problem = _("Enter a question of 1 to %(most)d characters, not counting operators.")
        problem %= {"most": MAX_QUESTION_LENGTH}
        raise InvalidValue(problem, errors={"question": [problem]})
    record_type, record_id, position = rated_key(record)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        mine = Rating.objects.for_user(owner)
        held = mine.filter(key=key, record_id=record_id, position=position).first()
        _check_may_replace(held, by)
        if held is None and mine.count() >= MAX_RATINGS:
            params = {"most": grouped(MAX_RATINGS)}
            raise LimitReached(
                _("You’ve reached the limit of %(most)s ratings. Clear some of them first.")
                % params
            )
        rating = held or Rating(
            owner=owner, key=key, record_type=record_type, record_id=record_id, position=position
        )
        rating.question, rating.language = words, language
        rating.value, rating.reason = value, reason
        rating.actor, rating.created = str(by), timezone.now()
        rating.is_new = held is None
        rating.save()
        _log(rating, record, "rated", by)
    return rating


def _checked(question: str, value: str, reason: str) -> tuple[str, str]:
    """Return the question's words and the reason, cleaned. Raises InvalidValue."""
    if value not in Rating.Value.values:
        problem = _("Choose one of: %(known)s.") % {"known": ", ".join(Rating.Value.values)}
        raise InvalidValue(problem, errors={"value": [problem]})
    reason = one_line(clean(reason)[0])
    if len(reason) > MAX_REASON_LENGTH:
        params = {"most": MAX_REASON_LENGTH, "have": len(reason)}
        problem = (
            _("A reason can have at most %(most)d characters, but this one has %(have)d.") % params
        )
        raise InvalidValue(problem, errors={"reason": [problem]})
    return parse(question).words, reason


def _check_may_replace(rating: Rating | None, by: Actor) -> None:
    if rating is None or by.is_person or rating.actor == str(by):
        return
    if rating.actor.startswith("human:"):
        raise Locked(
            _(
                "A person has already rated this item for the same question, so the rating wasn’t changed."
            )
        )
    raise Locked(
        _(
            "Another agent has already rated this item for the same question, so the rating wasn’t changed."
        )
    )


def clear(rating: Rating, *, by: Actor) -> None:
    """Delete a rating. Raises Locked if an agent would delete another's."""
    if not by.is_person and rating.actor != str(by):
        raise Locked(_("Only the user or the agent that gave this rating can clear it."))
    deleted, _counts = Rating.objects.for_user(rating.owner).filter(pk=rating.pk).delete()
    if deleted:
        _log(rating, rated_record(rating), "rating-cleared", by)


def _log(rating: Rating, record: Any, kind: str, by: Actor) -> None:
    subject = record.session if isinstance(record, Message) else record
    label = str(subject) if subject is not None else ""
    Activity.log(rating.owner, by, kind, subject=subject, label=label, value=rating.value)


def rated_key(record: Any) -> tuple[str, UUID, int]:
    """Return how a rating names what was rated: type, ID and position."""
    if isinstance(record, Message):
        return ANSWER, record.session_id, record.position
    return getattr(record, "SEARCH_TYPE", "") or record.record_type(), record.pk, 0


# --- what can be rated ---


def record_of(owner: User, record_id: UUID, record_type: str = "") -> Any:
    """Return the owner's record that recall can find under this ID; None if there is none."""
    names = [record_type] if record_type else list(KINDS)
    now = timezone.now()
    for name in names:
        found = KINDS[name].rows(owner, now).filter(pk=record_id).first() if name in KINDS else None
        if found is not None:
            found.owner = owner
            return found
    return None


def answer_of(owner: User, session_id: UUID, position: int) -> Message | None:
    """Return an answer in one of the owner's sessions; None if there is none."""
    rows = Message.objects.filter(session__owner=owner, session__trashed_at=None, role="assistant")
    rows = rows.filter(session=session_id, position=position, state=Message.State.DONE)
    return rows.select_related("session").first()


def question_of(answer: Message) -> str:
    """Return the words of the message that was answered, as `question_in` does."""
    rows = Message.objects.filter(
        session=answer.session_id, role="user", is_index=False, position__lt=answer.position
    )
    return question_in(rows.order_by("-position").values_list("content", flat=True).first() or "")


def question_in(text: str) -> str:
    """Return the words of a message or query that can be rated; "" if there are none or too many."""
    words = parse(text).words
    return words if can_be_rated(words) else ""


def rated_record(rating: Rating) -> Any:
    """Return what was rated; None if it can no longer be found."""
    if rating.position:
        return answer_of(rating.owner, rating.record_id, rating.position)
    return record_of(rating.owner, rating.record_id, rating.record_type)


def records_of(owner: User, rated: Sequence[Rating]) -> dict[UUID, Any]:
    """Return what was rated by the rating's ID, without what can no longer be found.

    One query for each type of record.
    """
    now = timezone.now()
    found: dict[tuple[str, UUID, int], Any] = {}
    for name in {one.record_type for one in rated} & KINDS.keys():
        keys = [one.record_id for one in rated if one.record_type == name]
        for record in KINDS[name].rows(owner, now).filter(pk__in=keys):
            record.owner = owner
            found[(name, record.pk, 0)] = record
    answers = [one for one in rated if one.record_type == ANSWER]
    if answers:
        rows = answers_of(owner, answers).filter(role="assistant")
        found |= {rated_key(one): one for one in rows.select_related("session")}
    keys_of = {one.pk: (one.record_type, one.record_id, one.position) for one in rated}
    return {pk: found[key] for pk, key in keys_of.items() if key in found}


def rating_of(owner: User, question: str, record: Any) -> Rating | None:
    _type, key, position = rated_key(record)
    words = key_of_text(parse(question).words, language_of(owner))
    return (
        Rating.objects.for_user(owner).filter(key=words, record_id=key, position=position).first()
    )


def of_answers(session: Session) -> dict[int, Rating]:
    """Return the ratings of a session's answers by position, the latest of each."""
    rows = Rating.objects.for_user(session.owner).filter(record_type=ANSWER, record_id=session.pk)
    return {one.position: one for one in rows.order_by("created")}


# --- retention ---


def tidy() -> int:
    """Delete old ratings and those of records that are gone; return how many.

    A rating in another language than its owner's gets the key of the owner's language.
    """
    deleted = Rating.objects.old().delete()[0]
    known = {name: kind.model for name, kind in KINDS.items()} | {ANSWER: Session}
    for name, model in known.items():
        there = model._default_manager.filter(pk=models.OuterRef("record_id"))
        gone = Rating.objects.filter(record_type=name).exclude(models.Exists(there))
        deleted += gone.delete()[0]
    for owner in User.objects.filter(pk__in=Rating.objects.values("owner").distinct()):
        language = language_of(owner)
        for rating in (
            Rating.objects.for_user(owner).exclude(language=language).order_by("-created")
        ):
            deleted += _translate(rating, language)
    return deleted


def _translate(rating: Rating, language: str) -> int:
    """Renew a rating's key; delete it if there is none, or another rating with it. Return how many
    were deleted.
    """
    key = key_of_text(rating.question, language)
    rows = Rating.objects.filter(pk=rating.pk)
    if not key:  # in this language, the question has only stop words
        return rows.delete()[0]
    try:
        with transaction.atomic():
            rows.update(key=key, language=language)
    except IntegrityError:
        return rows.delete()[0]
    return 0
