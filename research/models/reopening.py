"""Which steps a retried run carries out again, and what is cleared for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from memory.models import Topic

if TYPE_CHECKING:
    from research.models.runs import Run

_WAITING = {"state": "waiting", "warning": "", "started_at": None, "finished_at": None}
_EMPTY: dict[str, Any] = {"output": {}, "counts": {}, "detail": "", "input_hash": ""}


class StepNotFinished(Exception):
    """A run cannot go on from a step that it has not finished."""

    def __init__(self, name: str) -> None:
        super().__init__(
            _("The run has not finished a step “%(step)s” that it could be retried from.")
            % {"step": name}
        )


def reopen_steps(run: Run, first: str = "") -> None:
    """Make the steps that a retry carries out wait again: those from `first` on, emptied.

    Without a `first` those that are not finished.  All of them, emptied, where what is known has
    moved on: a report over the memory of then would tell old news and retire facts it never saw.
    Raises StepNotFinished.
    """
    steps = run.steps.filter(is_follow_up=False)
    chosen = steps.filter(name=first, part=0, state="done").first() if first else None
    if first and chosen is None:
        raise StepNotFinished(first)
    loaded = steps.filter(name="load_memory", state="done").first()
    if loaded is not None and _memory_moved_on(run, loaded.output.get("memory")):
        _empty(run, steps)
    else:
        if run.stop_reason:
            # What was stopped early is done only in name; answers and pages there are are kept.
            steps.exclude(name__in=["load_memory", "plan"]).update(**_WAITING)
        if chosen is not None:
            _empty(run, steps.filter(position__gte=chosen.position))
        else:
            steps.exclude(state="done").update(**_WAITING)
    _keep_warnings(run)


def reopen_plan(run: Run) -> None:
    """Make the run plan once more: nothing of its plan is kept, its warning neither."""
    _empty(run, run.steps.filter(name="plan", is_follow_up=False))
    _keep_warnings(run)


def _empty(run: Run, steps: QuerySet[Any]) -> None:
    """Take from the steps, and from the hits, what carrying them out made."""
    names = set(steps.values_list("name", flat=True))
    counts: dict[str, int] = {}
    if "search" in names:
        run.hits.all().delete()
    if "filter_seen" in names:
        run.hits.update(state="new", reason="")
        counts |= {"new_count": 0, "known_count": 0, "returning_count": 0}
    if "read" in names:
        read = run.hits.exclude(state__in=["known", "blocked"])
        read.update(reading="not read", reason="", content_item=None)
        counts["read_count"] = 0
    if "verify" in names:
        counts["unsupported_count"] = 0
    if "tracks" in names:
        run.tool_calls.all().delete()
    if counts:
        type(run).objects.filter(pk=run.pk).update(**counts)
    steps.update(**_WAITING, **_EMPTY)


def _keep_warnings(run: Run) -> None:
    """Leave on the run the warnings of the steps that stay done; the others' come anew, or not."""
    done = run.steps.filter(state="done", is_follow_up=False)
    theirs = list(done.exclude(warning="").values_list("warning", flat=True))
    rows = type(run).objects.filter(pk=run.pk)
    said = rows.values_list("warnings", flat=True).get()
    # A step holds all that it warned of in one line, the run each of them.
    rows.update(warnings=[one for one in said if any(one in text for text in theirs)])


def _memory_moved_on(run: Run, loaded: dict[str, Any] | None) -> bool:
    """Whether another run was saved, or memory lapsed or came back, since `loaded` was."""
    topic = Topic.objects.get(pk=run.topic_id)
    now = topic.run_count if topic.memory_is_live() else None
    return now != (loaded["run_count"] if loaded else None)
