"""Exports and imports in every state, for the checked pages, and where each is."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import timedelta
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from memory.accounts.archive import exporter, jobs
from memory.models import Archive

_LINES = [
    {"content": "Retries need jitter, or all come back at once.", "category": "lesson"},
    {"content": "据报道，新型固态电池的能量密度达到每公斤四百瓦时。", "tags": ["电池"]},
    {"content": "The heat pump was serviced.", "kind": "log", "tags": ["house", "heat"]},
    {"content": "x", "kind": "poem"},
]


def _vault() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("House/Heat pump.md", "---\ntags: [house]\n---\nServiced in **May**.")
        archive.writestr("Garden.md", "- plant beans\n- water them daily\n")
        archive.writestr("photo.png", b"\x89PNG")
    return held.getvalue()


def _claude() -> bytes:
    said = [
        {
            "sender": "human",
            "text": "Which heat pump fits an old house?",
            "created_at": "2026-05-03T10:02:00Z",
        },
        {"sender": "assistant", "text": "One with a high flow temperature."},
    ]
    talks = [
        {
            "uuid": "u-1",
            "name": "Heat pump for an old house",
            "updated_at": "2026-05-03T10:05:00Z",
            "chat_messages": said,
        },
        {"uuid": "u-2", "name": "", "chat_messages": []},
    ]
    told = "**Work context**\n\nWrites about energy for a small magazine.\n\nPrefers short answers with sources."
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("conversations.json", json.dumps(talks))
        archive.writestr("memories.json", json.dumps([{"conversations_memory": told}]))
    return held.getvalue()


_BOOKMARKS = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><p><DT><H3>House</H3><DL><p>
<DT><A HREF="https://example.org/heat-pumps" TAGS="heat, house">Heat pumps in old houses</A><DD>Which flow temperature they need.
<DT><A HREF="https://example.org/%s">什么是热泵</A>
<DT><A HREF="javascript:alert(1)">Trick</A>
</DL></DL>""" % ("a-very-long-path" * 12)


def _bookmarks(owner: Any) -> dict[str, Archive]:
    """Create the preview of bookmarks, and the fetching of their pages in progress, stopped and done."""
    rows = {}
    for name in ("import bookmarks", "pages going"):
        row = jobs.upload(owner, SimpleUploadedFile("bookmarks.html", _BOOKMARKS.encode()))
        jobs.perform(row.pk)
        rows[name] = row
    row = rows["pages going"]
    jobs.confirm(row, pages=True)
    jobs.perform(row.pk)
    row.refresh_from_db()
    done = Archive.objects.get(pk=row.result["fetching"])
    keys = done.options["documents"]
    why = "“example.org” took longer than 20 seconds to answer."
    failed = [{"document": key, "why": why} for key in keys]
    for name, more, result in (
        ("pages going", {"state": "running", "lease_until": timezone.now() + timedelta(days=1)}, {"next": 1, "fetched": 1}),
        ("pages stopped", {"state": "stopped"}, {"next": 1, "failed": failed[:1]}),
        ("pages done", {"state": "done"}, {"next": 2, "failed": failed}),
    ):  # fmt: skip
        rows[name] = Archive.objects.create(
            owner=owner, kind="pages", name=row.name, options=done.options,
            result=done.result | result, **more,
        )  # fmt: skip
    done.delete()
    return rows


def archives(owner: Any) -> dict[str, str]:
    """Create one of each state."""
    rows = {"export done": jobs.ask_export(owner)}
    jobs.perform(rows["export done"].pk)
    own = Archive(owner=owner, kind="import", name="beacon-grace-2026-11-01.zip")
    exporter.write(owner, own.file)
    own.options = {"shape": "beacon", "own": True, "account": "grace", "made_at": "2026-11-01"}
    own.size = own.file.stat().st_size
    own.save()
    jobs.perform(own.pk)
    rows["import archive"] = own
    lines = "\n".join([*map(json.dumps, _LINES), "{broken"]).encode()
    for name, file, content in (
        ("import lines", "old memory.jsonl", lines),
        ("import vault", "vault.zip", _vault()),
        ("import app", "claude-2026-11-20.zip", _claude()),
    ):
        rows[name] = jobs.upload(owner, SimpleUploadedFile(file, content))
        jobs.perform(rows[name].pk)
    rows["import done"] = jobs.upload(owner, SimpleUploadedFile("a.jsonl", lines))
    jobs.perform(rows["import done"].pk)
    jobs.confirm(rows["import done"])
    jobs.perform(rows["import done"].pk)
    rows |= _bookmarks(owner)
    rows["import failed"] = Archive.objects.create(
        owner=owner, kind="import", state="failed", name="from-the-future.zip",
        options={"shape": "beacon"}, finished_at=timezone.now(),
        problem="The archive was created by Beacon 4.0 in format 9. This version of Beacon supports formats up to 1. "
        "Update Beacon, then import the archive again.",
    )  # fmt: skip
    rows["export going"] = Archive.objects.create(
        owner=owner, kind="export", state="running", name="beacon-grace-2026-11-22.zip",
        options={"rows": 48_000}, started_at=timezone.now() - timedelta(seconds=20),
        lease_until=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    return {name: reverse("memory:archive-row", args=[row.pk]) for name, row in rows.items()}
