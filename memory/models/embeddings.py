"""Vectors of what records say, and which records wait for one."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.history import OwnedQuerySet


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

    objects: ClassVar[models.Manager[Embedding]] = OwnedQuerySet.as_manager()

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
    """A record whose words changed and that has no vector of them yet; a task works these off."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    tries = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[EmbeddingDue]] = OwnedQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "embeddings due"
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_due_once")
        ]
        indexes = [models.Index(fields=["not_before"], name="embedding_due_next")]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id}"
