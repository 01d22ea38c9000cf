"""The reflection on a run, for the checked pages: every kind of change and call."""

from __future__ import annotations

from django.utils import timezone

from memory.models import Reflection
from memory.models.actors import REFLECTOR
from memory.services.review import proposals as review_services
from research.models import Run

ENTRY = "## Asynchronous I/O (Run #2)\n- Summary: io_uring is the default\n- Date: 2026-11-22"
MONTH = "episodes/2026-11.md"


def looked_back(run: Run) -> None:
    """Make the reflection on a run: one file written, one write that waits, one that is gone."""
    owner = run.topic.owner
    held = review_services.hold(
        owner, "file", by=REFLECTOR, source=run.source, before={},
        after={"path": MONTH, "content": f"# 2026-11 Episodes\n\n{ENTRY}\n", "entry": ENTRY},
        why="", held="it comes from pages or documents that Beacon read, and would be used outside its topic",
    )  # fmt: skip
    refused = "facts/memory.md was changed meanwhile. Version 2, as it stands:\n# Memory\n"
    Reflection.objects.update_or_create(
        owner=owner,
        source=run.source,
        defaults={
            "topic": run.topic,
            "state": Reflection.State.DONE,
            "by": "model",
            "rounds": 5,
            "assessment": "The default changed on Linux; a lesson on where to look first is kept.",
            "why": "Stopped at the limit of 5 rounds of tool calls.",
            "calls": [
                _call(
                    "memory_patch", {"path": "facts/memory.md", "patches": []}, refused, bad=True
                ),
                _call("memory_append", {"path": MONTH, "entry": ENTRY}, "Pending approval."),
            ],
            "changes": [
                {"act": "written", "path": "facts/memory.md", "version": 3},
                {"act": "held", "path": MONTH, "proposal": str(held.pk)},
                {"act": "held", "path": MONTH, "proposal": "00000000-0000-4000-8000-000000000000"},
            ],
            "finished_at": timezone.now(),
        },
    )


def _call(
    tool: str, arguments: dict[str, object], result: str, *, bad: bool = False
) -> dict[str, object]:
    return {"round": 1, "tool": tool, "arguments": arguments, "result": result, "is_error": bad}
