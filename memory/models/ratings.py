"""Ratings: whether a result of a search, or an answer, was useful for its question."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, ClassVar, Self

from django.db import models
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memory.models.chat import Message
from memory.models.history import OwnedQuerySet

MAX_RATINGS = 5_000  # of one owner
MAX_QUESTION_LENGTH = 1_000  # characters
MAX_REASON_LENGTH = 300  # characters
# A rated record's score is multiplied by this. What a rated answer cites moves less.
USEFUL, NOT_USEFUL = 1.5, 0.5
CITED_USEFUL, CITED_NOT_USEFUL = 1.2, 0.8


def can_be_rated(question: str) -> bool:
    return len(question) <= MAX_QUESTION_LENGTH and any(sign.isalnum() for sign in question)


def key_of(terms: Collection[str], language: str) -> str:
    """Return the key of a question: the same for the same words in any order; "" for none."""
    if not terms:
        return ""
    words = " ".join(sorted(set(terms)))
    return hashlib.sha256(f"{language}\n{words}".encode()).hexdigest()


class RatingQuerySet(OwnedQuerySet):
    def old(self) -> Self:
        """Keep the ratings past their retention."""
        return self.filter(created__lte=timezone.now() - Rating.LIFETIME)

    def by_record(
        self, question: str, terms: Collection[str], language: str
    ) -> dict[uuid.UUID, Rating]:
        """Return the latest rating for a question by record: one query, and one more for answers.

        A rating of a record wins over that of an answer which cites it.
        """
        if not can_be_rated(question) or not terms:
            return {}
        rows: list[Rating] = list(self.filter(key=key_of(terms, language)).order_by("created"))
        answers = [row for row in rows if row.is_answer]
        cited: dict[uuid.UUID, Rating] = {}
        if answers:
            messages = answers_of(answers[0].owner_id, answers).values_list(
                "session", "position", "cites"
            )
            cites = {(session, position): ids for session, position, ids in messages}
            for one in answers:
                for cite in cites.get((one.record_id, one.position), []):
                    cited[uuid.UUID(cite["id"])] = one
        return cited | {row.record_id: row for row in rows if not row.is_answer}


def answers_of(owner: Any, rated: Iterable[Rating]) -> models.QuerySet[Message]:
    """Return the owner's rated answers, without those of sessions in Trash."""
    condition = models.Q(pk=None)
    for one in rated:
        condition |= models.Q(session=one.record_id, position=one.position)
    return Message.objects.filter(condition, session__owner=owner, session__trashed_at=None)


class Rating(models.Model):
    """Whether a record was useful for a question.

    `key` identifies the words of the question, stemmed for `language`, in any order. An answer is
    rated as a `session` with the `position` of its message; all others have position 0.
    """

    LIFETIME = timedelta(days=365)
    is_new = False  # set by the write that created it

    class Value(models.TextChoices):
        USEFUL = "useful", _("useful")
        NOT_USEFUL = "not-useful", _("not useful")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    question = models.CharField(max_length=MAX_QUESTION_LENGTH)
    language = models.CharField(max_length=8)
    key = models.CharField(max_length=64)
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField()
    position = models.PositiveIntegerField(default=0)
    value = models.CharField(max_length=10, choices=Value)
    reason = models.CharField(max_length=MAX_REASON_LENGTH, blank=True)
    actor = models.CharField(max_length=200)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[RatingQuerySet] = RatingQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "key", "record_id", "position"], name="rating_once_a_question"
            )
        ]
        indexes = [
            models.Index(fields=["owner", "value", "-created", "-id"], name="rating_of_owner"),
            models.Index(fields=["record_id"], name="rating_of_record"),
        ]

    def __str__(self) -> str:
        return f"{self.value}: {self.record_type}"

    @property
    def is_useful(self) -> bool:
        return self.value == self.Value.USEFUL

    @property
    def is_answer(self) -> bool:
        """Return True if an answer was rated, which moves the records that it cites."""
        return self.position > 0

    @property
    def factor(self) -> float:
        """Return what the scores of the records are multiplied by."""
        if self.is_answer:
            return CITED_USEFUL if self.is_useful else CITED_NOT_USEFUL
        return USEFUL if self.is_useful else NOT_USEFUL

    @property
    def boost(self) -> str:
        """Return the explanation of the ranking."""
        agent = self.agent
        params = {"day": date_format(timezone.localtime(self.created), "j F Y"), "who": agent}
        if self.is_answer and self.is_useful:
            words = gettext("Cited in an answer to this question that was rated useful on %(day)s")
        elif self.is_answer:
            words = gettext(
                "Cited in an answer to this question that was rated not useful on %(day)s"
            )
        elif agent and self.is_useful:
            words = gettext("Rated useful for this question by %(who)s on %(day)s")
        elif agent:
            words = gettext("Rated not useful for this question by %(who)s on %(day)s")
        elif self.is_useful:
            words = gettext("Rated useful for this question on %(day)s")
        else:
            words = gettext("Rated not useful for this question on %(day)s")
        return words % params

    @property
    def agent(self) -> str:
        """Return the name of the agent that rated, or "" for a person."""
        return self.actor.removeprefix("agent:") if self.actor.startswith("agent:") else ""

    @classmethod
    def forget(cls, ids: Iterable[Any]) -> None:
        cls.objects.filter(record_id__in=list(ids)).delete()
