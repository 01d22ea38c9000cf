"""Observations: findings, insights and lessons from a step or a session (seed 001)."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from beacon_site.text.cleaning import in_brief, one_line
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked
from memory.models.remembered import OWNER_SCOPE, RememberedQuerySet, address
from memory.models.search_index import Recalled, list_indexes


class ObservationQuerySet(RememberedQuerySet):
    def active(self) -> Self:
        """Keep the observations that recall can return: those not in Trash."""
        return self.live()


class Observation(Recalled):
    """A finding, insight or lesson. Agents can only add them, people can also correct them (R83).

    `digest` identifies the text: the same text from the same source is the same observation (R98).
    `near_duplicate_of` is an older one that says almost the same. Both are kept and marked.
    """

    class Category(models.TextChoices):
        FINDING = "finding", _("finding")
        INSIGHT = "insight", _("insight")
        LESSON = "lesson", _("lesson")

    class StepType(models.TextChoices):
        GOAL = "GOAL", _("goal")
        AGENT = "AGENT", _("agent")
        RUN = "RUN", _("run")

    REVISED = ("content", "category", "tags", "sensitivity", "pinned", "lock", "paused")

    category = models.CharField(_("category"), max_length=7, choices=Category)
    content = models.TextField(_("observation"))
    scope = models.CharField(_("scope"), max_length=200, default=OWNER_SCOPE)
    step_name = models.CharField(_("step"), max_length=200, blank=True)
    step_type = models.CharField(_("type of step"), max_length=5, choices=StepType, blank=True)
    tags = ArrayField(
        models.CharField(max_length=80), default=list, blank=True, verbose_name=_("tags")
    )
    digest = models.CharField(max_length=64, editable=False)
    # Kept, and found by `is:paused`, but in no prompt and hidden from agents.
    paused = models.BooleanField(_("paused"), default=False)
    near_duplicate_of = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="near_duplicates"
    )
    topic = models.ForeignKey(
        "memory.Topic", models.SET_NULL, null=True, blank=True, related_name="observations"
    )

    objects: ClassVar[ObservationQuerySet] = ObservationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.CheckConstraint(
                condition=Q(category__in=["finding", "insight", "lesson"]),
                name="observation_category_known",
            ),
            models.UniqueConstraint(
                fields=["owner", "source", "category", "digest"],
                condition=Q(trashed_at=None),
                name="observation_once_a_source",
            ),
        ]
        indexes = [
            *list_indexes("observation", "category"),
            models.Index(fields=["topic", "-created"], name="observation_of_topic"),
            GinIndex(fields=["tags"], name="observation_by_tag"),
        ]

    def __str__(self) -> str:
        return in_brief(self.content, 120)

    def get_absolute_url(self) -> str:
        return address("memory:observation", self.pk)

    def search_text(self) -> str:
        """Return the content, which is all that recall searches, never the category (R75, R76)."""
        return self.content

    def check_may_change(self, by: Actor) -> None:
        """Raise Locked for agents, which can only add observations (R83)."""
        if not by.is_person:
            message = _("Agents can only add observations. Only a person can change “%(label)s”.")
            raise Locked(str(message) % {"label": self})

    def change(self, **kwargs: Any) -> Self:
        """Change the observation as Recalled.change does, and update its digest.

        Raises InvalidValue if its source already has the same text in the same category.
        """
        try:
            with transaction.atomic():
                changed = super().change(**kwargs)
                digest = self.digest_of(self.content)
                if digest != self.digest:
                    type(self).objects.filter(pk=self.pk).update(digest=digest)
                    self.digest = digest
        except IntegrityError as exc:
            self.refresh_from_db()
            problem = str(_("This source already has an observation with the same text."))
            raise InvalidValue(problem, errors={"content": [problem]}) from exc
        return changed

    @staticmethod
    def digest_of(content: str) -> str:
        """Return the SHA-256 of the text on one line, case folded, so that equal texts match."""
        return hashlib.sha256(one_line(content).casefold().encode()).hexdigest()
