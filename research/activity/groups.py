"""Activity: changes alike that follow each other stand as one line, which unfolds.

A run that makes forty observations is one thing that happened.  Rows are gathered before they are
put in words, so that a page of lines is not all one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from memory.records.kinds import counted
from research.activity import words
from research.activity.line import Line
from research.activity.streams import Happened

LEAST = 3  # two lines are read as quickly as one that has to be unfolded
APART = timedelta(hours=1)  # what lies further apart are two sittings
_LISTS = {"note": "memory:notes", "observation": "memory:observations"}
_Alike = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Lines of one actor, source, type of record and act; `goes_on` on the next page."""

    lines: Sequence[Line]
    record_type: str
    source: str
    goes_on: bool = False
    name: str = "group"

    @property
    def first(self) -> Line:
        """Return the newest line, which says who it was and in which run."""
        return self.lines[0]

    @property
    def since(self) -> datetime | None:
        """Return when the oldest was, if that reads otherwise than the newest."""
        oldest = self.lines[-1].at
        return oldest if (self.first.at - oldest).total_seconds() >= 60 else None

    @property
    def records(self) -> str:
        """Return how many records it is about: "14 observations"."""
        return counted(self.record_type, len(self.lines))

    @property
    def why(self) -> str:
        """Return the reason, where it is one."""
        reasons = {line.why for line in self.lines}
        return reasons.pop() if len(reasons) == 1 else ""

    @property
    def details(self) -> list[str]:
        """Return the fields that any of the changes touched."""
        return list(dict.fromkeys(one for line in self.lines for one in line.details))

    @property
    def list_url(self) -> str:
        """Return the list of all from that source, where there is one."""
        if self.record_type not in _LISTS or not self.source:
            return ""
        asked = urlencode({"q": f"source:{self.source}"})
        return f"{reverse(_LISTS[self.record_type])}?{asked}"


@dataclass(frozen=True, slots=True)
class Gathering:
    """Rows that follow each other and are alike; `alike` is None for what stands by itself."""

    alike: _Alike | None
    rows: list[Happened]
    records: set[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def takes(self, one: Happened, alike: _Alike | None) -> bool:
        """Whether a row goes with these: each record once, or the count would be wrong."""
        if alike is None or alike != self.alike or one.row.record_id in self.records:
            return False
        return self.rows[-1].place.at - one.place.at <= APART

    def entries(self, lines: Sequence[Line], following: Happened | None) -> list[Line | Group]:
        """Return the rows, put in words as `lines`, as the page shows them."""
        if self.alike is None or len(lines) < LEAST:
            return list(lines)
        goes_on = following is not None and self.takes(following, _alike(following))
        _actor, source, record_type, _said = self.alike
        return [Group(lines, record_type, source, goes_on)]


def gathered(found: Sequence[Happened]) -> list[Gathering]:
    """Return the rows in their order, those alike that follow each other together."""
    gatherings: list[Gathering] = []
    for one in found:
        alike = _alike(one)
        if not (gatherings and gatherings[-1].takes(one, alike)):
            gatherings.append(Gathering(alike, [], set()))
        gatherings[-1].rows.append(one)
        if alike is not None:
            gatherings[-1].records.add(one.row.record_id)
    return gatherings


def _alike(one: Happened) -> _Alike | None:
    """Return what changes of one line have in common; None for what is no change."""
    if one.name != "change":
        return None
    row = one.row
    return row.actor, row.source, row.record_type, words.of_change(row)
