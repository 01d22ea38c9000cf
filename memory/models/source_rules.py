"""How a person wants one place of the web treated by the runs of all their topics."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet


class SourceRule(models.Model):
    """A place (a domain, or a page's canonical address) that all topics block, boost or mute.

    What a topic itself says of the place goes before it (`research.sources.rules`).
    """

    class Act(models.TextChoices):
        BLOCK = "block", _("block")
        BOOST = "boost", _("boost")
        MUTE = "mute", _("mute")

    MOST = 200  # of one person: each run reads them all

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    place = models.TextField(_("place"))
    act = models.CharField(_("act"), max_length=5, choices=Act)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SourceRule]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("place",)
        constraints = [
            models.UniqueConstraint(fields=["owner", "place"], name="source_rule_once_a_place")
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.place[:200]}"
