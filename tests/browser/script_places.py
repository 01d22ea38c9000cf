"""The states to check of an owner whose memory is full of words that are hard to set: name, path, act."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states: lists of all kinds, then a topic and a file in each of their views."""
    arabic, word = cast["words arabic"], cast["words word"]
    return [
        ("words home", "/", None),
        ("words topics", "/topics/", None),
        ("words reports", "/reports/", None),
        ("words schedule", "/schedule/", None),
        ("words library", "/library/", None),
        ("words notes", "/notes/", None),
        ("words review", "/inbox/", None),
        ("words conflicts", "/inbox/?show=conflict", None),
        ("words recall", "/memory/?q=400", None),
        ("words palette", "/palette/?words=2026", None),
        ("words session", cast["words session"], None),
        ("words proposal", cast["words proposal"], None),
        ("words content", cast["words content word"], None),
        ("words report", cast["words arabic run"], unfold),
        ("words report endless", cast["words word run"], unfold),
        ("words compare", f"{arabic}compare/?from=1&to=2", unfold),
        ("words compare sides", f"{word}compare/?from=1&to=2&view=lines&layout=side", None),
        ("words timeline", f"{arabic}timeline/", unfold),
        ("words file", "/files/facts/memory.md/", None),
        ("words blame", "/files/episodes/2026-11.md/blame/", None),
    ]
