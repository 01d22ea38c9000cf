"""Names that a person merged: two spellings, or two names, of the same thing."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from beacon_site.text.names import LONGEST_NAME
from memory.models.history import OwnedQuerySet


class NameAlias(models.Model):
    """Another name of something: records that name `name` are about `target`.

    `target` is never an alias itself, so one lookup is enough.
    """

    MOST = 500  # per owner

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    key = models.CharField(max_length=LONGEST_NAME)
    name = models.CharField(max_length=LONGEST_NAME)
    target_key = models.CharField(max_length=LONGEST_NAME)
    target = models.CharField(max_length=LONGEST_NAME)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[NameAlias]] = OwnedQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "name aliases"
        ordering = ("target_key", "key")
        constraints = [
            models.UniqueConstraint(fields=["owner", "key"], name="name_alias_once"),
            models.CheckConstraint(
                condition=~models.Q(key=models.F("target_key")), name="name_alias_of_another"
            ),
        ]

    def __str__(self) -> str:
        return f"name alias {self.pk}"  # the names are private, and admin shows this
