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


class AgentScopeQuerySet(OwnedQuerySet):
    """The questions asked of the scopes that agents named."""

    def holder(self, owner: Any, scope: str) -> str:
        """Return the name of the agent that holds the scope, or that it is part of; "" for none."""
        names = self.of(owner).filter(scope=_whole(scope)).values_list("agent", flat=True)
        return names.first() or ""

    def claim(self, owner: Any, scope: str, agent: str) -> bool:
        """Let the agent hold the scope if no other agent does; return whether it holds it now."""
        row, _made = self.get_or_create(owner=owner, scope=_whole(scope), defaults={"agent": agent})
        return bool(row.agent == agent)


def _whole(scope: str) -> str:
    return scope.partition("/")[0]  # a sub-agent's scope is part of that of its run or session


class AgentScope(models.Model):
    """Which agent holds a scope that it named itself (`session:<name>`, `run:<name>`).

    The first agent that writes there holds it, and no other agent reads or writes there.
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    scope = models.CharField(max_length=200)
    agent = models.CharField(max_length=LONGEST_NAME)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Any]] = AgentScopeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "scope"], name="agent_scope_once_an_owner")
        ]

    def __str__(self) -> str:
        return self.scope


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
