"""Where a topic's knowledge came from: the URLs it has seen, and the pages it has read."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from django.db import models
from django.utils import timezone

from memory.models.topics import Topic


class TopicRowQuerySet(models.QuerySet[Any]):
    """Rows that hang on a topic and are owned through it."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(topic__owner=user)


class SeenUrl(models.Model):
    """A canonical URL that a search returned for the topic; the 500 last returned are kept.

    `returned_in` and `place` say when it was returned last: a later run, or a later place in the
    same run, is newer.  The oldest drop out first (R16).
    """

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="seen_urls")
    url = models.TextField()
    returned_in = models.PositiveIntegerField()
    place = models.PositiveIntegerField(default=0)
    returned_at = models.DateTimeField()

    objects: ClassVar[models.Manager[Any]] = TopicRowQuerySet.as_manager()

    class Meta:
        ordering = ("-returned_in", "place")
        constraints = [
            models.UniqueConstraint(fields=["topic", "url"], name="seen_url_once_a_topic")
        ]
        indexes = [
            models.Index(fields=["topic", "-returned_in", "place"], name="seen_url_of_topic")
        ]

    def __str__(self) -> str:
        return self.url


class Source(models.Model):
    """A page that was ever read or cited for the topic, with its domain."""

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="sources")
    url = models.TextField()
    link = models.TextField(blank=True)
    domain = models.CharField(max_length=255)
    title = models.CharField(max_length=500, blank=True)
    published_at = models.DateField(null=True, blank=True)
    first_run = models.PositiveIntegerField()
    last_run = models.PositiveIntegerField()
    times_read = models.PositiveIntegerField(default=0)
    times_cited = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(default=timezone.now)
    # What the server said of the page's version when a recheck read it: asked for again by that.
    etag = models.CharField(max_length=300, blank=True)
    last_modified = models.CharField(max_length=100, blank=True)

    objects: ClassVar[models.Manager[Any]] = TopicRowQuerySet.as_manager()

    class Meta:
        ordering = ("-last_run", "id")
        constraints = [models.UniqueConstraint(fields=["topic", "url"], name="source_once_a_topic")]
        indexes = [models.Index(fields=["topic", "-last_run", "id"], name="source_of_topic")]

    def __str__(self) -> str:
        return self.title or self.url
