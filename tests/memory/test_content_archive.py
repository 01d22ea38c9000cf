"""The content store in a person's own export, and on its way into another account."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memory.accounts.archive import exporter
from memory.accounts.archive.importer import ImportContext, KindCounts, import_archive
from memory.accounts.archive.zips import ImportRejected
from memory.models import ContentItem, Snapshot
from memory.models.actors import Actor
from memory.services.content.items import store
from memory.services.content.snapshots import restore_snapshot, take_snapshot

AGENT = Actor("agent", "claude")
RUN = "run:12"


@pytest.fixture
def path(alice: Any, tmp_path: Path) -> Path:
    """Alice's archive: two items, of which one names the other, and their snapshot."""
    one = store(alice, "naïve 🦉\n\t“words”", by=AGENT, scope=RUN, title="A", tags=["a"])
    told = {"title": "B", "action": "search", "related_to": [one.pk], "trust": "external"}
    store(alice, "more words", by=AGENT, scope=RUN, run_step="run:12/step:3", **told)
    take_snapshot(alice, RUN, by=AGENT, title="Before")
    exporter.write(alice, tmp_path / "alice.zip")
    return tmp_path / "alice.zip"


def imported(path: Path, owner: Any, *, own: bool = True) -> dict[str, KindCounts]:
    return import_archive(path, ImportContext(owner, owner.actor, path.name, own), only_look=False)


def held(owner: Any) -> list[Any]:
    names = ("title", "content", "size", "tags", "action", "trust", "created", "run_step")
    return [
        [*(getattr(item, name) for name in names), [one.title for one in item.related_to.all()]]
        for item in ContentItem.objects.for_user(owner).live().filter(scope=RUN).order_by("title")
    ]


def changed(path: Path, name: str, change: Any) -> Path:
    """Return a copy of the archive in which the lines of one kind were changed."""
    other = path.with_name(f"{name}-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == f"data/{name}.jsonl":
                lines = [json.loads(line) for line in data.splitlines()]
                change(lines)
                data = "\n".join(map(json.dumps, lines)).encode()
            new.writestr(info.filename, data)
    return other


def test_items_and_snapshots_come_along_and_are_restored_as_they_were(
    alice: Any, bob: Any, path: Path
):
    assert imported(path, bob)["snapshot-items"].new == 2
    assert held(bob) == held(alice)

    ContentItem.objects.for_user(bob).filter(title="A").get().trash(by=bob.actor)
    restored = restore_snapshot(Snapshot.objects.for_user(bob).get(), by=bob.actor)

    assert held(bob) == held(alice)
    hers = set(ContentItem.objects.for_user(alice).values_list("pk", flat=True))
    assert hers.isdisjoint(item.pk for item in restored) and len(restored) == 2
    assert imported(path, bob)["content"].new == 0


def test_a_stranger_s_items_come_from_outside_in_snapshots_too(bob: Any, path: Path):
    imported(path, bob, own=False)

    items = Snapshot.objects.for_user(bob).get().items.all()
    assert {item.trust for item in [*items, *ContentItem.objects.for_user(bob)]} == {"external"}


def test_items_that_lead_back_to_themselves_are_refused_whole(bob: Any, path: Path):
    def close(lines: list[dict[str, Any]]) -> None:
        first = next(line for line in lines if not line["related_to"])
        first["related_to"] = [line["id"] for line in lines if line["related_to"]]

    with pytest.raises(ImportRejected, match="form a loop"):
        imported(changed(path, "content", close), bob)

    assert not ContentItem.objects.for_user(bob).exists()


def test_what_is_too_large_or_newer_is_refused_alone_and_sizes_are_counted_again(
    bob: Any, path: Path
):
    def grow(lines: list[dict[str, Any]]) -> None:
        lines[0]["content"] = "x" * (8 * 1024 * 1024 + 1)
        lines[1]["size"] = 1

    def renew(lines: list[dict[str, Any]]) -> None:
        lines[0]["format"] = 2

    counts = imported(changed(changed(path, "content", grow), "snapshots", renew), bob)

    assert counts["content"].refused == 1 and counts["snapshots"].refused == 1
    item = ContentItem.objects.for_user(bob).get()
    assert item.size == len(item.content) and not Snapshot.objects.for_user(bob).exists()
