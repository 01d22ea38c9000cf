"""Data of Activity, the scratchpad and Trash, for the checked pages."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from memory.models import Activity, FileEntry, Note, Revision, SavedView
from memory.models.actors import MAINTENANCE, SYSTEM, Actor
from memory.services import scratchpad
from memory.services.files.saving import save_file
from memory.services.library import documents as library_services

AGENT = Actor("agent", "desk")
VALUES = (
    ("plan/next", "Ask the maker for the date of the last test restore."),
    ("plan/steps", '{"done": ["hosts", "prices"], "open": ["contract"], "by": "2026-12-01"}'),
    ("plan/costs:cells", "89 $/kWh"),
    (
        "draft.md",
        "# Draft\n\nThe pilot line makes 400 cells a day. " + "Add the yield of each week. " * 60,
    ),
    ("最近的问题", "固态电池的能量密度"),
    ("empty", ""),
)


def happened(owner: Any) -> dict[str, str]:
    """Make changes by each kind of actor, warnings, values under keys, and something in Trash."""
    for key, value in VALUES:
        scratchpad.set_value(owner, key, value, by=AGENT)
    scratchpad.set_value(owner, "asked", "fares to Tokyo", by=AGENT, scope="session:7f2")
    first = scratchpad.get_entry(owner, "plan/next")
    scratchpad.set_value(owner, "plan/next", first.value + " Then decide.", by=owner.actor)
    note = Note.objects.create(owner=owner, content="Send the summary on Mondays.\nTo the team.")
    Revision.record_first([note], by=AGENT)
    note.change(by=MAINTENANCE, why="merged from two", tags=["weekly", "team"])
    note.change(
        by=owner.actor,
        why="it is Tuesday now",
        content="Send the summary on Tuesdays, with the prices.\nTo the team.",
    )
    type(note).follow([note])
    Activity.log(
        owner, SYSTEM, "publish-failed", warning=True, label="Asynchronous I/O",
        why="Redis isn’t responding. The copy in Redis will be updated as soon as it responds.",
    )  # fmt: skip
    scratchpad.set_value(owner, "old", "x", by=AGENT).trash(by=owner.actor)
    library_services.add_document(owner, text="# An old paper\n\nWords.", by=owner.actor).trash(
        by=MAINTENANCE, why="not read for a year"
    )
    entry = _lost_and_written_anew(owner)
    SavedView.objects.create(owner=owner, page="activity", name="Agents", query="actor=agent")
    SavedView.objects.create(
        owner=owner, page="recall", name="Lessons", query="q=category%3Alesson"
    )
    last = Revision.objects.filter(record_id=note.pk).latest("id")
    return {
        "scratchpad": str(first.pk),
        "change": reverse("research:activity-change", args=[last.pk]),
        "file entry": f"{reverse('memory:file-edit', args=[entry.path])}?entry={entry.pk}",
    }


def _lost_and_written_anew(owner: Any) -> FileEntry:
    """Return a section in Trash whose place now has other text."""
    path, top = "episodes/2019-01.md", "# 2019-01 Episodes\n\n"
    for text in (
        f"{top}## Roof\n\n- Summary: mended by the firm from Graz\n",
        top,
        f"{top}## Roof\n\n- Summary: mended again in March\n",
    ):
        save_file(owner, path, text, by=owner.actor)
    found: FileEntry = FileEntry.objects.for_user(owner).get(path=path)
    return found
