"""What the tracks of a deep run did: one row for each call of a tool."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from research.models.runs import Run


class ToolCall(models.Model):
    """One call of a tool in a track of a run, and what the model was told.

    `part` is the number of the track, `attempt` the run's when it was made: a track that was
    interrupted begins anew, and what it did before stays in sight.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="tool_calls")
    part = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField(default=0)
    round = models.PositiveIntegerField()
    tool = models.CharField(max_length=80)
    arguments = models.JSONField(default=dict, blank=True)
    result = models.TextField(blank=True)  # its beginning; the whole of it is the content item
    is_error = models.BooleanField(default=False)
    content_item = models.ForeignKey(
        "memory.ContentItem", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    milliseconds = models.PositiveIntegerField(default=0)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("run", "part", "position")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "part", "position"], name="tool_call_once_a_track"
            )
        ]

    def __str__(self) -> str:
        return self.tool
