"""A deep run's rows, for tests of pages: tracks and their tool calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory.models import ContentItem, Topic
from research.models import Run, Step, ToolCall
from research.services.runs.execution import pipeline
from tests.research.factories import DONE, make_hits, make_report, make_run

CALLS: tuple[dict[str, Any], ...] = (
    {"tool": "web_search", "arguments": {"query": "PostgreSQL 18 criticism"}, "milliseconds": 812,
     "result": "This came from outside.\n<<<\np12: What PostgreSQL 18 leaves open (example.org)\n>>>"},
    {"tool": "open_page", "arguments": {"page": "p12"}, "milliseconds": 1_904,
     "result": "p12 (example.org, 2026-11-12)\n<<<\nAsynchronous I/O is off on Windows.\n>>>"},
    {"tool": "open_page", "arguments": {"page": "p3"}, "is_error": True, "milliseconds": 20_003,
     "result": "p3 couldn’t be read: example.net took longer than 20 s. Open another page."},
    {"tool": "retrieve_from_memory", "arguments": {"id": "0190", "transform": "filtered"},
     "result": "Lines 41 to 44 of 512", "milliseconds": 6},
)  # fmt: skip


def make_tracks(run: Run, *, live: int = 0, calls: int = 4) -> list[Step]:
    """Return the rows of three tracks: those before `live` done, that one running (0: all done)."""
    now = timezone.now()
    position = [kind.name for kind in pipeline.steps_of("deep")].index("tracks")
    item = ContentItem.objects.create(
        owner=run.topic.owner, topic=run.topic, source=run.source, scope=run.source,
        title="What PostgreSQL 18 leaves open", content="Asynchronous I/O is off on Windows.",
    )  # fmt: skip
    rows = []
    for part in (1, 2, 3):
        if live and part > live:
            break
        is_live = part == live
        rows.append(
            Step(
                run=run, name="tracks", part=part, position=position, attempt=1,
                state=Step.State.RUNNING if is_live else Step.State.DONE,
                detail=f"{calls} tool calls, 1 page opened", prompt_tokens=18_210, completion_tokens=840,
                started_at=now - timedelta(seconds=12 if not is_live else 50),
                finished_at=None if is_live else now,
                warning="it reached its share of the run’s token limit" if part == 2 else "",
            )
        )  # fmt: skip
        for place in range(calls):
            ToolCall.objects.create(
                run=run, part=part, position=place + 1, attempt=1, round=1 + place // 2,
                content_item=item if place % 4 == 1 else None, **CALLS[place % 4],
            )  # fmt: skip
    return list(Step.objects.bulk_create(rows))


def make_steps(run: Run, *, done: int, state: str = "") -> None:
    """Make the run's own steps: the first `done` of them done, the next as `state` says."""
    now = timezone.now()
    Step.objects.bulk_create(
        Step(
            run=run,
            name=kind.name,
            position=place,
            state="done" if place < done else (state or "waiting") if place == done else "waiting",
            detail=DONE[kind.name] if place < done else "",
            started_at=now if place <= done else None,
            finished_at=now if place < done else None,
        )
        for place, kind in enumerate(pipeline.steps_of("deep"))
    )


def unfinished_runs(topic: Topic, *, calls: int = 4) -> Run:
    """Return a deep run whose second track is running."""
    run = make_run(topic, saved=False, depth="deep", new_count=4, known_count=1)
    make_steps(run, done=4, state="running")
    make_tracks(run, live=2, calls=calls)
    make_hits(run, 5)
    return run


def saved(topic: Topic) -> Run:
    """Return a deep run with its report."""
    run = make_run(
        topic,
        depth="deep",
        new_count=4,
        prompt_tokens=61_400,
        completion_tokens=3_900,
        money="0.041",
    )
    make_report(run, written_by="gpt-5-mini", is_extractive=False)
    make_steps(run, done=9)
    make_tracks(run)
    make_hits(run, 5)
    return run
