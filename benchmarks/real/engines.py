"""What is measured: Beacon's comparison without a database, and two plain diffs beside it.

An engine is one function, `changes(topic, versions_so_far)`, that returns (status, sentence, quote)
of what the last version tells beyond the one before it.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.real.documents import Topic, Version
from benchmarks.real.scoring import Engine, Item

MOST_NEW = 16  # findings a run takes from new pages


def named(name: str) -> Engine:
    """One of ENGINES, or `module:function`."""
    if name in ENGINES:
        return ENGINES[name]
    module, _colon, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def beacon(topic: Topic, versions: Sequence[Version]) -> list[Item]:
    """Compare known documents with their last text, and look for findings in new ones."""
    set_up_django()
    from research.claims import selection
    from research.services.runs.reporting import rereading

    known, added = _readings(versions, selection.PageText)
    found: list[Item] = []
    if known:
        outcome = rereading.outcome([*known, *added], ())
        found = [_as_item(change, str(change.status)) for change in outcome.changes]
    if added:
        findings = selection.find(added, topic=topic.title, known_pages=known, limit=MOST_NEW)
        found += [_as_item(finding, "new") for finding in findings]
    return found


def lines(topic: Topic, versions: Sequence[Version]) -> list[Item]:
    """Tell each added line as new and each removed line as gone."""
    told: list[Item] = []
    for _path, before, after in _pairs(versions):
        for line in difflib.unified_diff(before, after, n=0, lineterm=""):
            if line[:1] in "+-" and line[1:].strip() and line[:3] not in ("+++", "---"):
                told.append(("new" if line[0] == "+" else "gone", line[1:], ""))
    return told


def blocks(topic: Topic, versions: Sequence[Version]) -> list[Item]:
    """Tell each changed block of lines at once, as changedetection.io shows a difference."""
    status = {"insert": "new", "delete": "gone", "replace": "changed"}
    told: list[Item] = []
    for _path, before, after in _pairs(versions):
        matcher = difflib.SequenceMatcher(None, before, after)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            old, new = "\n".join(before[i1:i2]), "\n".join(after[j1:j2])
            if tag != "equal" and (old + new).strip():
                told.append((status[tag], new or old, old if new else ""))
    return told


ENGINES: dict[str, Engine] = {"beacon": beacon, "lines": lines, "blocks": blocks}


def _pairs(versions: Sequence[Version]) -> Iterator[tuple[str, list[str], list[str]]]:
    before = {one.path: one.text for one in versions[-2].documents}
    after = {one.path: one.text for one in versions[-1].documents}
    for path in before | after:
        if before.get(path) != after.get(path):
            yield path, before.get(path, "").splitlines(), after.get(path, "").splitlines()


def _readings(versions: Sequence[Version], reading: Any) -> tuple[list[Any], list[Any]]:
    last, now = versions[-2], versions[-1]
    before = {one.path: one.text for one in last.documents}
    day = datetime.fromisoformat(now.date).replace(tzinfo=UTC)
    known, added = [], []
    for number, document in enumerate(now.documents, start=1):
        previous = before.get(document.path, "")
        page = reading(
            number=number,
            url=f"https://example.org/{document.path}",
            title=document.title,
            domain="example.org",
            text=document.text,
            published_at=None if previous else day,
            previous=previous,
        )
        (known if previous else added).append(page)
    return known, added


def _as_item(told: Any, status: str) -> Item:
    sentence = getattr(told, "sentence", "") or getattr(told, "text", "")
    quote = getattr(told, "quote", "") or getattr(told, "previous_text", "")
    return status, str(sentence), str(quote or "")


def set_up_django() -> None:
    # Nothing is stored, but a status is written in the reader's language, which needs the settings.
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    # The settings want addresses; nothing listens there, so a query would fail at once.
    os.environ.setdefault("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
    django.setup()
