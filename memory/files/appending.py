"""A text with an entry more: a blank line between entries, a month's file begun by its first."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from django.utils import timezone

from memory.file_texts.outline import lines_of
from memory.file_texts.paths import is_fact, month_of
from memory.file_texts.summaries import UPDATED, line_of
from memory.texts.time_zones import named

_TITLES = {"facts/user.md": "User", "facts/memory.md": "Memory"}
_BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])[ \t]")


def new_file(path: str) -> str:
    """Return the text that a file begins with: its title, and a summary line yet to be made."""
    title = _TITLES.get(path) or f"{month_of(path)} Episodes"
    return f"# {title}\n\n{line_of('')}\n"


def first_text(path: str, day: str) -> str:
    """Return what a fact file of a new account says, in seed 003's format."""
    return f"{new_file(path)}\n- Updated: {day}\n"


def with_entry(path: str, text: str, entry: str, zone: str) -> str:
    """Return the text with the entry at its end, one blank line before it (R156).

    The `- Updated:` line with which a fact file ends stays its last line, with today's date.
    """
    entry = entry.strip("\n")
    lines = lines_of(text.rstrip("\n"))
    if not (is_fact(path) and lines and UPDATED.match(lines[-1])):
        stands = text.rstrip("\n")
        return f"{stands}\n\n{entry}\n" if stands.strip() else f"{entry}\n"
    stands = "\n".join(lines[:-1]).rstrip("\n")
    gap = "\n" if _BULLET.match(entry.split("\n")[-1]) else "\n\n"
    day = timezone.now().astimezone(ZoneInfo(named(zone) or "UTC")).date().isoformat()
    before = f"{stands}\n\n" if stands.strip() else ""
    return f"{before}{entry}{gap}- Updated: {day}\n"
