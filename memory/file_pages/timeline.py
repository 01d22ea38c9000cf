"""The episodes of a month as a timeline: each entry a card under its day, the newest first."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from itertools import groupby

from memory.file_texts.entries import Entry, entries_of
from memory.file_texts.sections import anchor_of, sections_of
from memory.models import MemoryFile

PAGE = 50  # entries of a page


@dataclass(frozen=True, slots=True)
class Card:
    """One entry: `anchor` is where it stands on its file's page."""

    entry: Entry
    anchor: str


@dataclass(frozen=True, slots=True)
class Day:
    """The entries of one day, the last written first; None are those without a date."""

    day: datetime.date | None
    cards: list[Card]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A part of the timeline; `later` is the place of the next part, 0 if there is none."""

    days: list[Day]
    count: int
    problems: int
    begin: int
    later: int


def timeline_of(file: MemoryFile, *, begin: int = 0) -> Timeline:
    """Return the entries by day, the newest first, those without a date at the end."""
    anchors = {one.first_line: anchor_of(one.heading) for one in sections_of(file.content)}
    found = sorted(entries_of(file.content), key=_place, reverse=True)
    begin = begin if begin < len(found) else 0
    cards = [Card(one, anchors.get(one.first_line, "")) for one in found[begin : begin + PAGE]]
    later = begin + PAGE if begin + PAGE < len(found) else 0
    days = [Day(day, list(some)) for day, some in groupby(cards, key=lambda card: card.entry.day)]
    problems = sum(bool(one.problems) for one in found)
    return Timeline(days, len(found), problems, begin, later)


def _place(entry: Entry) -> tuple[datetime.date, int]:
    return entry.day or datetime.date.min, entry.first_line
