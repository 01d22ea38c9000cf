"""Agents and the tokens by which they and people's programs come in."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from memory.actors import Actor
from memory.models.history import OwnedQuerySet

LONGEST_NAME = 80  # characters of an agent's


class Agent(models.Model):
    """A program that acts for its owner, one per API token; `research` is the built-in one.

    The four settings are seed 002's: memory off, sharing with sub-agents on, compaction by a
    model off, and the prompt of that compaction.  `read_trust` is the lowest trust of what it read
    lately, `read_at` when it last called (`memory.reviewing.agent_reading`).
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    name = models.CharField(max_length=LONGEST_NAME)
    enable_memory = models.BooleanField(default=False)
    share_with_subagents = models.BooleanField(default=True)
    use_model_compaction = models.BooleanField(default=False)
    compaction_prompt = models.TextField(blank=True)
    read_trust = models.CharField(max_length=12, blank=True, editable=False)
    read_at = models.DateTimeField(null=True, editable=False)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Agent]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="agent_name_once_an_owner")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def actor(self) -> Actor:
        """Return this agent as the one who acts."""
        return Actor("agent", self.name)


class TokenQuerySet(models.QuerySet["ApiToken"]):
    """Tokens, whose owner is their agent's."""

    def of(self, user: Any) -> TokenQuerySet:
        """Keep the tokens of what acts for `user`: the one owner filter."""
        return self.filter(agent__owner=user)

    def usable(self, at: datetime | None = None) -> TokenQuerySet:
        """Keep tokens neither revoked nor expired at `at` (default: now), of open accounts."""
        unexpired = Q(expires_at=None) | Q(expires_at__gt=at or timezone.now())
        return self.filter(unexpired, revoked_at=None, agent__owner__is_active=True)


class ApiToken(models.Model):
    """A bearer token (`bcn_…`), of which only the hash is stored."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="tokens")
    hash = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=10), default=list)
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[TokenQuerySet] = TokenQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.agent} ({', '.join(self.scopes)})"
