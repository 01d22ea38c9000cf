"""The scratchpad: values under keys, for work in progress (seed 001)."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memory.models.remembered import OWNER_SCOPE, Remembered, RememberedQuerySet

MOST_KEY = 200  # characters
MOST_VALUE = 65_536  # bytes of UTF-8


class ScratchpadQuerySet(RememberedQuerySet):
    def in_scope(self, scope: str = OWNER_SCOPE) -> Self:
        """Keep the entries of one scope (`owner`, `session:<id>`, `run:<id>`, `agent:<name>`)."""
        return self.filter(scope=scope)


class ScratchpadEntry(Remembered):
    """A value and its key, which is unique in its scope."""

    REVISED = ("key", "value", "pinned", "lock")
    is_new = False  # set by the write that created it

    key = models.CharField(_("key"), max_length=MOST_KEY, db_collation="C")
    value = models.TextField(_("value"), blank=True)
    scope = models.CharField(_("scope"), max_length=200, default=OWNER_SCOPE)

    objects: ClassVar[ScratchpadQuerySet] = ScratchpadQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = _("scratchpad entries")
        ordering = ("key",)
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "scope", "key"],
                condition=Q(trashed_at=None),
                name="scratchpad_key_once_a_scope",
            )
        ]

    def __str__(self) -> str:
        return self.key
