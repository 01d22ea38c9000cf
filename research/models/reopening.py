"""Which steps a retried run carries out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory.models import Topic

if TYPE_CHECKING:
    from research.models.runs import Run


def reopen_steps(run: Run) -> None:
    """Make the steps that a retry carries out wait again.

    All of them where what is known has moved on: a report over the memory of then would tell old
    news and retire facts it never saw.
    """
    steps = run.steps.filter(is_follow_up=False)
    waiting = {"state": "waiting", "warning": "", "started_at": None, "finished_at": None}
    first = steps.filter(name="load_memory", state="done").first()
    if first is not None and _memory_moved_on(run, first.output.get("memory")):
        run.hits.all().delete()
        steps.update(**waiting, output={}, counts={}, detail="")
    elif run.stop_reason:
        # What was stopped early is done only in name; answers and pages that are there are kept.
        steps.exclude(name__in=["load_memory", "plan"]).update(**waiting)
    else:
        steps.exclude(state="done").update(**waiting)


def _memory_moved_on(run: Run, loaded: dict[str, Any] | None) -> bool:
    """Whether another run was saved, or memory lapsed or came back, since `loaded` was."""
    topic = Topic.objects.get(pk=run.topic_id)
    now = topic.run_count if topic.memory_is_live() else None
    return now != (loaded["run_count"] if loaded else None)
