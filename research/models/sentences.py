"""What a person says of a report's sentences: that they checked one, or that one is wrong.

The report's text is never rewritten: these rows stand beside it, and each can be taken back.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from memory.models import Observation, Topic, TopicFact, Trust
from memory.models.history import OwnedQuerySet
from memory.texts.text import shorten
from research.models.reports import Report


class SentenceQuerySet(OwnedQuerySet):
    """The questions asked of what people said of sentences."""

    def standing(self) -> Self:
        """Keep what was not taken back."""
        return self.filter(taken_back_at=None)

    def readable(self) -> Self:
        """Keep what is about reports that are not in the trash, nor their topics."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class OfSentence(models.Model):
    """Something said of one sentence of a report; `key` is the sentence's, as it is compared."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    sentence = models.TextField()
    key = models.CharField(max_length=16)
    by = models.CharField(max_length=200)  # an actor: `human:alice`
    created = models.DateTimeField(default=timezone.now)
    taken_back_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[SentenceQuerySet] = SentenceQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return shorten(self.sentence, 120)

    @property
    def name(self) -> str:
        """Return who said it, as people read it."""
        return self.by.partition(":")[2] or self.by


class CheckedSentence(OfSentence):
    """A person looked it up themselves, and vouches for a sentence."""

    report = models.ForeignKey(Report, models.CASCADE, related_name="checked_sentences")

    class Meta:
        ordering = ("created", "id")
        constraints = [
            models.UniqueConstraint(
                F("report"), F("key"), condition=Q(taken_back_at=None), name="sentence_checked_once"
            )
        ]
        indexes = [models.Index(fields=["owner", "-created"], name="checked_sentence_of_owner")]


class Correction(OfSentence):
    """A person said what is wrong with a sentence, and perhaps what is right.

    `lesson` is the observation that later runs are told; `corrected` names what became of facts.
    """

    topic = models.ForeignKey(Topic, models.CASCADE, related_name="corrections")
    report = models.ForeignKey(Report, models.CASCADE, related_name="corrections")
    wrong = models.TextField(gettext_lazy("what is wrong"))
    right = models.TextField(gettext_lazy("what is right"), blank=True)
    lesson = models.ForeignKey(
        Observation, models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                F("report"),
                F("key"),
                condition=Q(taken_back_at=None),
                name="sentence_corrected_once",
            )
        ]
        indexes = [
            models.Index(fields=["topic", "-created"], name="correction_of_topic"),
            models.Index(fields=["owner", "-created"], name="correction_of_owner"),
        ]


class CorrectedFact(models.Model):
    """What a correction did to one topic fact; `version` is the fact's after it."""

    class Act(models.TextChoices):
        CORRECTED = "corrected", gettext_lazy("corrected")
        STRUCK = "struck", gettext_lazy("struck")

    id = models.BigAutoField(primary_key=True)
    correction = models.ForeignKey(Correction, models.CASCADE, related_name="facts")
    fact = models.ForeignKey(TopicFact, models.CASCADE, related_name="+")
    act = models.CharField(max_length=9, choices=Act)
    before = models.TextField()
    after = models.TextField(blank=True)
    version = models.PositiveIntegerField()
    was_touched = models.BooleanField(default=False)  # by a person, before
    was_trust = models.CharField(max_length=12, choices=Trust, default=Trust.EXTERNAL)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(F("correction"), F("fact"), name="fact_corrected_once_by_each")
        ]

    def __str__(self) -> str:
        return f"{self.get_act_display()}: {self.before[:80]}"
