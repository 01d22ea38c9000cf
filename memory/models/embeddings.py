"""Vectors of what records say, and which records wait for one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.utils import timezone

from memory.models.history import OwnedQuerySet


class OfRecordsQuerySet(OwnedQuerySet):
    """Rows that each hang on one record of any type."""

    def about(self, records: Iterable[Any]) -> Any:
        """Keep the rows of these records."""
        ids = defaultdict(list)
        for record in records:
            ids[record.search_type()].append(record.pk)
        which = models.Q(pk__in=[])
        for record_type, some in ids.items():
            which |= models.Q(record_type=record_type, object_id__in=some)
        return self.filter(which)


_MARK = """
INSERT INTO memory_embeddingdue AS due
       (owner_id, record_type, object_id, tries, held, not_before, created)
SELECT one.owner_id, one.record_type, one.object_id, 0, false, new.at, new.at
  FROM (SELECT %s::timestamptz AS at) new,
       unnest(%s::bigint[], %s::text[], %s::uuid[]) one (owner_id, record_type, object_id)
    ON CONFLICT (record_type, object_id) DO UPDATE
   SET created = excluded.created, not_before = excluded.not_before, tries = 0, held = false
"""


class EmbeddingDueQuerySet(OfRecordsQuerySet):
    """What waits for a vector."""

    def mark(self, records: Iterable[Any]) -> None:
        """Let the records wait for a vector of what they say now; one they had is taken away.

        In the writer's own transaction: so no vector of words that are gone is ever looked at.
        """
        members = sorted(records, key=lambda record: record.pk)
        rows = [(one.owner_id, one.search_type(), one.pk) for one in members]
        if not rows:
            return
        with connection.cursor() as cursor:
            cursor.execute(_MARK, [timezone.now(), *map(list, zip(*rows, strict=True))])
        # After the mark, at which a task waits that stores a vector of the old words just now.
        Embedding.objects.about(members).delete()

    def waiting(self) -> Any:
        """Keep what an embedder of this Beacon could work off."""
        return self.filter(held=False)


class RealField(models.FloatField):  # type: ignore[type-arg]
    """A four-byte float: a vector's figures need no more, and there are many of them."""

    def db_type(self, connection: Any) -> str:
        """Return Postgres' name of the type."""
        return "real"


class Embedding(models.Model):
    """The vector of one record by one model.  An ordinary table: no extension is needed for it."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    model = models.CharField(max_length=120)
    dimensions = models.PositiveIntegerField()
    values = ArrayField(RealField())
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OfRecordsQuerySet] = OfRecordsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_once")
        ]
        indexes = [
            models.Index(fields=["owner", "model", "record_type"], name="embedding_of_owner")
        ]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id} by {self.model}"


class EmbeddingDue(models.Model):
    """A record whose words changed and that has no vector of them yet; a task works these off.

    `created` is when its words last changed, by which a task knows that what it embedded still
    stands; `held` says that it is sensitive and waits for an embedder on this machine.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    tries = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now)
    created = models.DateTimeField(default=timezone.now)
    held = models.BooleanField(default=False)

    objects: ClassVar[EmbeddingDueQuerySet] = EmbeddingDueQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "embeddings due"
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_due_once")
        ]
        indexes = [models.Index(fields=["not_before"], name="embedding_due_next")]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id}"
