"""What is measured: Beacon's comparison without a database, and two plain diffs beside it.

Beacon reads each file in the way a run reads a page that a server sends. An engine is one function, `changes(topic, versions_so_far)`, that returns (status, sentence, quote)
of what the last version tells beyond the one before it.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from benchmarks.real.documents import MARKUP, Document, Topic, Version
from benchmarks.real.scoring import Engine, Item

MAX_NEW, MORE_NEWS = (
    24,
    24,
)  # findings a later run takes from new pages, and from those that are news


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
        findings = selection.find(
            added, topic=topic.title, known_pages=known, limit=MAX_NEW, more_news=MORE_NEWS
        )
        found += [_as_item(finding, "new") for finding in findings]
    return found


def web_pages(topic: Topic, versions: Sequence[Version]) -> list[Item]:
    """Compare Markdown documents as Beacon does, after they were made into web pages with a menu."""
    made = [
        replace(one, documents=tuple(map(_as_web_page, one.documents))) for one in versions[-2:]
    ]
    return beacon(topic, made)


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


USUAL = ("beacon", "lines", "blocks")
ENGINES: dict[str, Engine] = {
    "beacon": beacon,
    "lines": lines,
    "blocks": blocks,
    "web-pages": web_pages,
}


def _pairs(versions: Sequence[Version]) -> Iterator[tuple[str, list[str], list[str]]]:
    before = {one.path: one.text for one in versions[-2].documents}
    after = {one.path: one.text for one in versions[-1].documents}
    for path in before | after:
        if before.get(path) != after.get(path):
            yield path, before.get(path, "").splitlines(), after.get(path, "").splitlines()


def _readings(versions: Sequence[Version], reading: Any) -> tuple[list[Any], list[Any]]:
    last, now = versions[-2], versions[-1]
    before = {one.path: fetched(one.path, one.source) for one in last.documents}
    day = datetime.fromisoformat(now.date).replace(tzinfo=UTC)
    known, added = [], []
    for number, document in enumerate(now.documents, start=1):
        previous = before.get(document.path, "")
        page = reading(
            number=number,
            url=f"https://example.org/{document.path}",
            title=document.title,
            domain="example.org",
            text=fetched(document.path, document.source),
            published_at=None if previous else day,
            previous=previous,
        )
        (known if previous else added).append(page)
    return known, added


PAGE = (
    '<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title></head><body><header>'
    '<a href="/">Home</a><nav><ul><li><a href="/docs">Docs</a></li><li><a href="/blog">Blog</a></li></ul></nav></header>'
    '<main><article>{body}</article></main><footer><p>© Example. <a href="/terms">Terms</a></p></footer></body></html>'
)
MARKDOWN = (".md", ".mdx", ".markdown", ".qmd")


@cache
def _as_web_page(document: Document) -> Document:
    if not document.path.endswith(MARKDOWN):
        return document
    from markdown_it import MarkdownIt

    from beacon_site.net import reflow

    front, text = reflow.split_front_matter(document.source)
    body = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render(text if front else document.source)
    )
    return Document(f"{document.path}.html", PAGE.format(title=document.title, body=body))


def read(versions: Sequence[Version]) -> None:
    """Extract the text of all documents, so that an engine that is timed finds it done."""
    set_up_django()
    for version in versions:
        for one in version.documents:
            fetched(one.path, one.source)


@cache
def fetched(path: str, source: str) -> str:
    """Return the text that a run stores of a page with this source."""
    from beacon_site.net import extract_child
    from beacon_site.text.cleaning import clean

    kind = "text/html" if path.endswith(MARKUP) else "text/plain"
    found = extract_child.read(
        source.encode(), f"{kind}; charset=utf-8", f"https://example.org/{path}"
    )
    return clean(found.get("text", ""))[0]


def _as_item(told: Any, status: str) -> Item:
    sentence = getattr(told, "sentence", "") or getattr(told, "text", "")
    before = getattr(told, "previous_text", "")
    if status == "changed" and before:  # a report shows both, with the replaced words crossed out
        sentence = f"{sentence} (before: {before})"
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
