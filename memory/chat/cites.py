"""What an answer names as its sources: marks such as [note:0190…] and [file:facts/user.md].

Only what was given to the model or read by it in this session, and is the owner's still, counts;
any other mark is taken out of the answer, so that nobody takes it for a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from memory.models import MemoryFile, User
from memory.recall.kinds import KINDS
from memory.texts.cite_marks import FILE, MARK, marks_in
from memory.texts.text import in_brief
from memory.toolkit.types import named

LONGEST_QUOTE = 280


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer with its true marks alone, the cards of what they name, and how many were false."""

    text: str
    cites: list[dict[str, str]]
    false: int


def given_of(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the marks that may be cited, of records as tools name them."""
    marks = set()
    for one in records:
        if one.get("type") == MemoryFile.record_type():
            marks.add(f"{FILE}:{one.get('title', '')}")
        elif one.get("id"):
            marks.add(f"{one['type']}:{one['id']}")
    return marks


def records_as_named(records: Iterable[Any]) -> list[dict[str, str]]:
    """Return records as tools name them."""
    return [named(record) for record in records]


def check(owner: User, text: str, given: set[str]) -> Checked:
    """Return the answer with those marks alone that name what was given and is the owner's."""
    wanted = {mark for found in MARK.finditer(text) for mark in marks_in(found.group(1))}
    cards = _cards(owner, {full for mark in wanted if (full := _full(mark, given))})
    shown: dict[str, dict[str, str]] = {}
    false = 0

    def kept(found: re.Match[str]) -> str:
        nonlocal false
        true = []
        for mark in marks_in(found.group(1)):
            full = _full(mark, given)
            if full in cards:
                shown[full] = cards[full]
                true.append(f"[{full}]")
            else:
                false += 1
        space = found.group()[:1].strip("[") if true else ""
        return space + "".join(true)

    return Checked(MARK.sub(kept, text), list(shown.values()), false)


def _full(mark: str, given: set[str]) -> str:
    """Return the mark as it was given; an id may be cut after eight digits, where it is the only one."""
    if mark in given:
        return mark
    kind, _colon, key = mark.partition(":")
    if kind == FILE or len(key) < 8:
        return ""
    near = [one for one in given if one.startswith(mark)]
    return near[0] if len(near) == 1 else ""


def _cards(owner: User, marks: set[str]) -> dict[str, dict[str, str]]:
    """Return what is shown of each record that is still there: one query for each type."""
    keys: dict[str, list[str]] = {}
    for mark in marks:
        kind, _colon, key = mark.partition(":")
        keys.setdefault(kind, []).append(key)
    cards = {}
    for file in MemoryFile.objects.of(owner).live().filter(path__in=keys.pop(FILE, [])):
        cards[f"{FILE}:{file.path}"] = _card(file, file.summary)
    for name in keys.keys() & KINDS.keys():
        of_type = KINDS[name]
        wanted = [key for key in keys[name] if _is_uuid(key)]
        for record in of_type.rows(owner, timezone.now()).filter(pk__in=wanted):
            cards[f"{name}:{record.pk}"] = _card(record, of_type.content(record))
    return {mark: {**card, "mark": mark} for mark, card in cards.items()}


def _card(record: Any, content: str) -> dict[str, str]:
    quote = in_brief(content, LONGEST_QUOTE)
    return {**named(record), "quote": quote, "trust": str(record.trust)}


def _is_uuid(key: str) -> bool:
    try:
        return str(UUID(key)) == key
    except ValueError:
        return False
