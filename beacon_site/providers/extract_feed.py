"""What an RSS or Atom feed says.

Runs in the child process only (`extract_child.py`): a feed of some hundred kilobytes can keep the
parser for minutes.
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime
from typing import Any

import feedparser

MOST_ENTRIES = 500  # of one feed, the first ones
LONGEST_TEXT = 20_000  # characters of one field handed over
MOST_LINKS = 5
MOST_NAMES = 10  # of authors: papers of large collaborations have thousands


def read_feed(content: bytes, url: str) -> dict[str, Any]:
    """Return {"version", "title", "total", "start", "entries": [...]}, links resolved.

    `total` and `start` are OpenSearch's; an entry's `more` has the fields of arXiv.
    """
    # Sanitising is switched off: only words are taken, and its parser is slow on hostile markup.
    parsed: Any = feedparser.parse(
        content,
        sanitize_html=False,
        resolve_relative_uris=False,
        response_headers={"content-location": url},
    )
    return {
        "version": str(parsed.get("version") or ""),
        "title": _text(parsed.feed.get("title")),
        "total": _text(parsed.feed.get("opensearch_totalresults")),
        "start": _text(parsed.feed.get("opensearch_startindex")),
        "entries": [_entry(entry) for entry in parsed.entries[:MOST_ENTRIES]],
    }


def _entry(entry: Any) -> dict[str, Any]:
    content = entry.get("content") or [{}]
    links = [entry.get("link"), *(link.get("href") for link in entry.get("links", []))]
    return {
        "title": _text(entry.get("title")),
        "links": [_text(link) for link in links if link][:MOST_LINKS],
        "id": _text(entry.get("id")),
        "text": _text(entry.get("summary") or content[0].get("value")),
        "author": _text(entry.get("author")),
        "authors": [_text(author.get("name")) for author in entry.get("authors", [])[:MOST_NAMES]],
        "day": _day(entry),
        "more": {
            "category": _text((entry.get("arxiv_primary_category") or {}).get("term")),
            "comment": " ".join(_text(entry.get("arxiv_comment")).split()),
            "doi": _text(entry.get("arxiv_doi")),
            "updated": _text(entry.get("updated")),
        },
    }


def _text(value: object) -> str:
    """Return a bounded text that UTF-8 can carry."""
    text = value[:LONGEST_TEXT] if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8")


def _day(entry: Any) -> str:
    """Return the day of publishing, else of the last change, in UTC as ISO text, or ""."""
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        if moment := entry.get(name):
            try:
                return datetime.fromtimestamp(calendar.timegm(moment), UTC).date().isoformat()
            except (ValueError, OverflowError, OSError):
                continue
    return ""
