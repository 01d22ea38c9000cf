"""What a run's searches returned, and the processes that carry runs out."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy

from research.models.runs import Run


class Hit(models.Model):
    """One search result of a run, once by its canonical URL, and what became of it."""

    class State(models.TextChoices):
        NEW = "new", gettext_lazy("new")
        KNOWN = "known", gettext_lazy("known")
        RETURNING = "returning", gettext_lazy("returning")
        BLOCKED = "blocked", gettext_lazy("blocked")

    class Reading(models.TextChoices):
        NOT_READ = "not read", gettext_lazy("not read")
        READ = "read", gettext_lazy("read")
        NEAR_DUPLICATE = "near-duplicate", gettext_lazy("near-duplicate")
        QUARANTINED = "quarantined", gettext_lazy("quarantined")
        FAILED = "failed", gettext_lazy("failed")

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="hits")
    url = models.TextField()
    link = models.TextField()
    domain = models.CharField(max_length=255, blank=True)
    title = models.CharField(max_length=500, blank=True)
    snippet = models.TextField(blank=True)
    service = models.CharField(max_length=20)
    queries = models.JSONField(default=list)
    rank = models.PositiveIntegerField(default=0)
    place = models.PositiveIntegerField(default=0)
    published_at = models.DateField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    reading = models.CharField(max_length=16, choices=Reading, default=Reading.NOT_READ)
    reason = models.TextField(blank=True)
    content_item = models.ForeignKey(
        "memory.ContentItem", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    cited_as = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("run", "place")
        constraints = [models.UniqueConstraint(fields=["run", "url"], name="hit_once_a_run")]
        indexes = [models.Index(fields=["run", "place"], name="hit_of_run")]

    def __str__(self) -> str:
        return self.title or self.url


class Worker(models.Model):
    """When a worker or beat process last said that it is alive (R234)."""

    name = models.CharField(max_length=200, primary_key=True)
    kind = models.CharField(max_length=8)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
