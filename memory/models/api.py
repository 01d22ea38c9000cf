"""Answers of the API that are kept, so that a request sent twice is carried out once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

from memory.models.agents import ApiToken

KEPT = timedelta(hours=24)
LONGEST_KEY = 255
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class ApiAnswerQuerySet(models.QuerySet["ApiAnswer"]):
    """The questions asked of kept answers."""

    def kept(self, at: datetime | None = None) -> Self:
        """Keep those that are still given again at `at` (default: now)."""
        return self.filter(created__gt=(at or timezone.now()) - KEPT)

    def old(self, at: datetime | None = None) -> Self:
        """Keep those whose day is over."""
        return self.filter(created__lte=(at or timezone.now()) - KEPT)


class ApiAnswer(models.Model):
    """What a POST with an Idempotency-Key was answered, for 24 hours.

    `fingerprint` is what the same request has in common (method, address, body).  `record_ids` are
    the records that the answer names or shows: it goes with them when one is deleted for good, and
    becomes `bare` (no stored text) when somebody else may see one, or it is believed otherwise.
    `trust` is the lowest of what the answer shows.
    """

    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="+")
    key = models.CharField(max_length=LONGEST_KEY)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)
    bare = models.TextField(blank=True)
    trust = models.CharField(max_length=12, blank=True)
    record_ids = ArrayField(models.UUIDField(), default=list)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[ApiAnswerQuerySet] = ApiAnswerQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "key"], name="apianswer_key_once_a_token")
        ]
        indexes = [
            GinIndex(fields=["record_ids"], name="apianswer_by_record"),
            models.Index(fields=["created"], name="apianswer_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.token}: {self.key[:40]}"

    def save_answer(
        self,
        status: int,
        headers: dict[str, str],
        body: str,
        *,
        bare: str = "",
        ids: Iterable[uuid.UUID] = (),
    ) -> None:
        """Store the answer, with the records that it names and those of `ids`."""
        self.status, self.headers, self.body, self.bare = status, headers, body, bare
        named = [uuid.UUID(key) for key in _ID.findall(body)]
        self.record_ids = list(dict.fromkeys([*named, *ids]))
        self.save(force_insert=True)

    @classmethod
    def forget(cls, ids: Iterable[uuid.UUID]) -> None:
        """Delete the answers that name records deleted for good: their text is to be gone."""
        cls.objects.filter(record_ids__overlap=list(ids)).delete()

    @classmethod
    def withhold(cls, ids: Iterable[uuid.UUID]) -> None:
        """Take the text out of the answers that name these records: who may see it has changed.

        The request itself stays known, so that sending it again does not carry it out again.
        """
        cls.objects.filter(record_ids__overlap=list(ids)).update(body=models.F("bare"))
