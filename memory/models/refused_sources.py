"""Sources from which an owner wants nothing any more: an agent, a domain of the web, a name."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet

LONGEST_NAME = 255


class RefusedSourceQuerySet(OwnedQuerySet):
    """The questions asked of refused sources."""

    def count_refusals(self, number: int = 1) -> None:
        """Note that these turned something away."""
        self.update(refused=F("refused") + number, last_refused_at=timezone.now())


class RefusedSource(models.Model):
    """A source whose writes are refused, or whose pages are not read; `refused` counts both."""

    class Kind(models.TextChoices):
        AGENT = "agent", _("agent")
        DOMAIN = "domain", _("domain")
        SOURCE = "source", _("source")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    kind = models.CharField(_("kind"), max_length=6, choices=Kind)
    name = models.CharField(_("name"), max_length=LONGEST_NAME)
    reason = models.TextField(_("why"), blank=True)
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
