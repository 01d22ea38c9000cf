"""Ratings: whether a result of a search, or an answer, was useful for its question."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar, Self

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet

MOST_RATINGS = 5_000  # of one owner
LONGEST_QUESTION = 1_000  # characters
LONGEST_REASON = 300  # characters


class RatingQuerySet(OwnedQuerySet):
    def old(self) -> Self:
        """Keep the ratings past their retention."""
        return self.filter(created__lte=timezone.now() - Rating.LIFETIME)


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
    question = models.CharField(max_length=LONGEST_QUESTION)
    language = models.CharField(max_length=8)
    key = models.CharField(max_length=64)
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField()
    position = models.PositiveIntegerField(default=0)
    value = models.CharField(max_length=10, choices=Value)
    reason = models.CharField(max_length=LONGEST_REASON, blank=True)
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
    def agent(self) -> str:
        """Return the name of the agent that rated, or "" for a person."""
        return self.actor.removeprefix("agent:") if self.actor.startswith("agent:") else ""

    @classmethod
    def forget(cls, ids: Iterable[Any]) -> None:
        """Delete the ratings of purged records."""
        cls.objects.filter(record_id__in=list(ids)).delete()
