"""Topics and runs as the page tests need them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from memory.models import Topic
from research.models import DeltaItem, Report, Run
from research.services.runs.execution.starting import create_topic
from research.services.schedules import scheduling


def make(owner: Any, title: str, *, preset: str = "none", **fields: Any) -> Topic:
    schedule = scheduling.schedule_fields(preset=preset, time_zone="UTC")
    return create_topic(owner=owner, title=title, by=owner.actor, schedule=schedule, **fields)


def ran(topic: Topic, number: int, **fields: Any) -> Run:
    fields = {"status": Run.Status.SUCCEEDED, "finished_at": timezone.now()} | fields
    run = Run.objects.create(topic=topic, number=number, **fields)
    Topic.objects.filter(pk=topic.pk).update(run_count=number, last_run_at=run.finished_at)
    return run


def reported(topic: Topic, number: int, *, changes: int = 0) -> Run:
    run = ran(topic, number, new_count=number)
    Report.objects.create(owner=topic.owner, run=run, title=topic.title, written_by="test")
    for position in range(changes):
        DeltaItem.objects.create(
            run=run, position=position, status="new", sentence=f"It is so {position}."
        )
    return run


def text_of(response: Any) -> str:
    return " ".join(response.content.decode().split())
