"""Proposals: agents' writes that wait for approval, the rules for them, and refused sources."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.message_fields import MessageField
from beacon_site.text.cleaning import in_brief
from memory.models.actors import Actor
from memory.models.history import Activity, OwnedQuerySet

PROPOSAL_LIFETIME = timedelta(days=30)


def _a_lifetime_from_now() -> datetime:
    return timezone.now() + PROPOSAL_LIFETIME


class Danger(models.IntegerChoices):
    """How much harm accepting a proposal unread could do, worst first. Review uses this order."""

    INJECTION = 1, _("Prompt injection")
    YOUR_WORDS = 2, _("Changes to your own words")
    IDENTITY = 3, _("Rules and identity")
    EXTERNAL = 4, _("From pages and documents")
    OTHER = 5, _("Other changes")

    @property
    def code(self) -> str:
        return self.name.lower().replace("_", "-")


class ProposalQuerySet(OwnedQuerySet):
    def waiting(self) -> ProposalQuerySet:
        """Keep pending proposals, most dangerous first, then oldest."""
        now = timezone.now()
        rows = self.filter(state=Proposal.State.WAITING, expires_at__gt=now)
        return rows.order_by("danger", "created", "id")


class Proposal(models.Model):
    """A held write: what it would change, in which version, and why it is held.

    `record_type` and `target_id` name the record. Without a target, it would be created. `before`
    and `after` are what the writer saw and wants. `edited` is a person's version of `after`, and
    `result_id` the resulting record. `results` lists each resulting revision in order, as `[record
    type, record, version]`, for undo. `risks` are the codes for why it is held
    (`memory.services.review.risks`), and `danger` is the worst of them.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        ACCEPTED = "accepted", _("accepted")
        REJECTED = "rejected", _("rejected")
        EXPIRED = "expired", _("expired")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    actor = models.CharField(max_length=200)
    source = models.CharField(max_length=200, blank=True)
    record_type = models.CharField(max_length=40)
    target_id = models.UUIDField(null=True, blank=True)
    version_seen = models.PositiveIntegerField(null=True, blank=True)
    before = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    after = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    edited = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    result_id = models.UUIDField(null=True, blank=True)
    results = models.JSONField(default=list, blank=True)
    reason = models.TextField(blank=True)
    hold_reasons = models.TextField(blank=True)
    danger = models.PositiveSmallIntegerField(choices=Danger, default=Danger.OTHER)
    risks = models.JSONField(default=list, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    decided_by = models.CharField(max_length=200, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = MessageField(blank=True)
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(default=_a_lifetime_from_now)

    objects: ClassVar[models.Manager[Any]] = ProposalQuerySet.as_manager()

    class Meta:
        ordering = ("created", "id")
        indexes = [
            models.Index(fields=["owner", "state", "created"], name="proposal_of_owner"),
            models.Index(
                fields=["owner", "danger", "created", "id"],
                condition=models.Q(state="waiting"),
                name="proposal_by_danger",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.record_type} by {self.actor}"

    def get_absolute_url(self) -> str:
        return reverse("memory:proposal", args=[self.pk])

    @property
    def writer(self) -> Actor:
        kind, _colon, name = self.actor.partition(":")
        return Actor(kind, name)

    @classmethod
    def forget(cls, which: models.Q) -> None:
        """Delete proposals permanently, and blank what the log says of them."""
        ids = list(cls.objects.filter(which).values_list("pk", flat=True))
        Activity.forget(ids)
        cls.objects.filter(pk__in=ids).delete()

    @property
    def label(self) -> str:
        """Return a short description of the write."""
        if "path" in self.after:
            return str(self.after["path"])
        lines = self.after.get("lines") or [self.after]
        return in_brief(str(lines[0].get("content", "")), 120)

    @property
    def is_waiting(self) -> bool:
        return self.state == self.State.WAITING and self.expires_at > timezone.now()

    @property
    def reasons(self) -> list[str]:
        return [reason for reason in self.hold_reasons.split("; ") if reason]


class ReviewLevel(models.Model):
    """An owner's review rule for agents' writes of one kind. No row means `hold risky`.

    `writer` is the actor that it applies to, such as `agent:claude`. An empty one means all agents.
    """

    class Level(models.TextChoices):
        ACCEPT = "accept", _("accept")
        HOLD_RISKY = "hold risky", _("hold risky")
        HOLD_ALL = "hold all", _("hold all")

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    kind = models.CharField(max_length=40, default="default")
    writer = models.CharField(max_length=200, blank=True)
    level = models.CharField(max_length=10, choices=Level, default=Level.HOLD_RISKY)

    objects: ClassVar[models.Manager[ReviewLevel]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "kind", "writer"], name="review_level_once_a_kind"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.level}"


# --- refused sources: an agent, a web domain or a name ---

MAX_NAME_LENGTH = 255


class RefusedSourceQuerySet(OwnedQuerySet):
    def count_refusals(self, number: int = 1) -> None:
        self.update(refused=F("refused") + number, last_refused_at=timezone.now())


class RefusedSource(models.Model):
    """A source whose writes are refused or whose pages aren't read. `refused` counts both."""

    class Kind(models.TextChoices):
        AGENT = "agent", _("agent")
        DOMAIN = "domain", _("domain")
        SOURCE = "source", _("source")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    kind = models.CharField(_("type"), max_length=6, choices=Kind)
    name = models.CharField(_("name"), max_length=MAX_NAME_LENGTH)
    reason = models.TextField(_("reason"), blank=True)
    refused = models.PositiveIntegerField(default=0)
    last_refused_at = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Any]] = RefusedSourceQuerySet.as_manager()

    class Meta:
        ordering = ("-created",)
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "kind", "name"], name="refused_source_once_an_owner"
            )
        ]

    def __str__(self) -> str:
        return self.name
