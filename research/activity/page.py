"""Activity: everything that happened as one stream, newest first, one page at a time.

Each stream gives at most a page after the cursor -> merged by time -> similar changes in a row become
one line that unfolds -> the runs and versions that the lines name -> lines in words. Eight queries,
whatever the filters and however long the history.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from memory.models import User
from memory.records.kinds import counted
from memory.records.kinds import models as record_models
from memory.texts.days import in_utc
from memory.texts.text import plain
from research.activity import words
from research.activity.line import Line, address_of
from research.activity.streams import STREAMS, Happened, Place, Wanted
from research.models import Run

# --- groups of similar changes -----------------------------------------------------------------

LEAST = 3  # two lines are as quick to read as one that must be unfolded
APART = timedelta(hours=1)  # lines further apart are separate groups
_LISTS = {"note": "memory:notes", "observation": "memory:observations"}
_Alike = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Lines with the same actor, source, record type and action; `goes_on` if the next page has more."""

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
        """Return the time of the oldest line, if it reads differently from the newest."""
        oldest = self.lines[-1].at
        return oldest if (self.first.at - oldest).total_seconds() >= 60 else None

    @property
    def records(self) -> str:
        """Return the number of records, such as "14 observations"."""
        return counted(self.record_type, len(self.lines))

    @property
    def why(self) -> str:
        """Return the reason, if all lines share one."""
        reasons = {line.why for line in self.lines}
        return reasons.pop() if len(reasons) == 1 else ""

    @property
    def details(self) -> list[str]:
        """Return the fields that any of the changes touched."""
        return list(dict.fromkeys(one for line in self.lines for one in line.details))

    @property
    def list_url(self) -> str:
        """Return the URL of the list of this source's records, if there is one."""
        if self.record_type not in _LISTS or not self.source:
            return ""
        asked = urlencode({"q": f"source:{self.source}"})
        return f"{reverse(_LISTS[self.record_type])}?{asked}"


@dataclass(frozen=True, slots=True)
class Gathering:
    """Consecutive similar rows; `alike` is None for a single row."""

    alike: _Alike | None
    rows: list[Happened]
    records: set[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def takes(self, one: Happened, alike: _Alike | None) -> bool:
        """Whether a row fits into the group; each record counts once."""
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
    """Return the rows in order, with consecutive similar ones grouped."""
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
    """Return the key by which changes are grouped, or None if the line isn't a change."""
    if one.name != "change":
        return None
    row = one.row
    return row.actor, row.source, row.record_type, words.of_change(row)


# --- the page ----------------------------------------------------------------------------------

PAGE = 30  # entries; a group counts as one. Most of the time is spent on the lines of the page
_READ = 150  # rows; a run can write many similar ones


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """A page of lines, some in groups, and the cursor of the next (None if this is the last)."""

    entries: list[Line | Group]
    next_cursor: str | None

    @property
    def lines(self) -> list[Line]:
        """Return every line of the page, also those in groups."""
        parts = ([one] if isinstance(one, Line) else one.lines for one in self.entries)
        return [line for part in parts for line in part]


def page(user: User, wanted: Wanted, *, zone: tzinfo, cursor: str = "") -> ActivityPage:
    """Return one page; an invalid cursor gives the first."""
    found = happened(user, wanted, zone=zone, after=read_cursor(cursor), most=_READ + 1)
    gatherings = gathered(found[:_READ])[:PAGE]
    shown = sum(len(one) for one in gatherings)
    lines = iter(in_words(user, found[:shown]))
    following = found[shown] if shown < len(found) else None
    entries: list[Line | Group] = []
    for one in gatherings:
        last = following if one is gatherings[-1] else None
        entries += one.entries(list(islice(lines, len(one))), last)
    return ActivityPage(entries, _cursor(found[shown - 1].place) if following else None)


def happened(
    user: User, wanted: Wanted, *, zone: tzinfo, after: Place | None, most: int
) -> list[Happened]:
    """Return at most `most` rows of all streams older than `after`, the newest first."""
    pages = [
        [
            Happened(Place(row.created, stream.rank, row.pk), row)
            for row in stream.page(user, wanted, zone, after, most)
        ]
        for stream in STREAMS
    ]
    merged = heapq.merge(*pages, key=_order)
    return [one for one, _n in zip(merged, range(most), strict=False)]


def _order(one: Happened) -> tuple[float, int, int]:
    # Microseconds as an integer: as float seconds, different times could be equal.
    place = one.place
    moment = int(place.at.timestamp()) * 1_000_000 + place.at.microsecond
    return (-moment, place.rank, -place.key)


def everything(user: User, wanted: Wanted, *, zone: tzinfo, size: int = 500) -> Iterator[Line]:
    """Yield all matching lines, loading a page at a time."""
    after: Place | None = None
    while True:
        found = happened(user, wanted, zone=zone, after=after, most=size)
        yield from in_words(user, found)
        if len(found) < size:
            return
        after = found[-1].place


def _cursor(place: Place) -> str:
    text = json.dumps([place.at.isoformat(), place.rank, place.key])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> Place | None:
    """Return the place of a cursor, or None if it is invalid."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        at, rank, key = json.loads(text)
        moment = in_utc(datetime.fromisoformat(at))
    except (ValueError, TypeError, binascii.Error):
        return None
    fits = type(rank) is int and type(key) is int and abs(key) < 2**63
    return Place(moment, rank, key) if fits and moment.tzinfo is not None else None


# --- lines in words -------------------------------------------------------------------------------


def in_words(user: User, found: Sequence[Happened]) -> list[Line]:
    """Return the rows as lines, with two queries for the runs and records that they name."""
    runs = _runs(user, found)
    versions = _versions(user, (one.row for one in found if one.name == "change"))
    make = {"change": _change, "log": _log, "call": _call, "run": _run}
    lines = []
    for one in found:
        line = make[one.name](one.row, user)
        line.run = runs.get(_run_id(one))
        if one.name == "log" and not line.url and line.run:
            line.url = address_of(line.run)
            line.label = line.label or f"{line.run.topic}, {line.run}"
        if one.name == "change":
            line.may_undo = versions.get(one.row.record_id) == one.row.version
            if one.row.record_id in versions:
                line.url = reverse(
                    "memory:record-open", args=[one.row.record_type, one.row.record_id]
                )
        lines.append(line)
    return lines


def _run_id(one: Happened) -> int | None:
    row = one.row
    if one.name == "run":
        return int(row.pk)
    if one.name == "log":
        number = row.subject_id if row.subject_type == "run" else ""
    else:
        first, _colon, rest = row.source.partition(":")
        number = rest.partition(":")[0] if first == "run" else ""
    return int(number) if number.isdecimal() and len(number) < 19 else None


def _runs(user: User, found: Iterable[Happened]) -> dict[Any, Run]:
    """Return the runs that the lines name and whose pages can be opened."""
    ids = {number for one in found if (number := _run_id(one)) is not None}
    mine = Run.objects.of(user).filter(topic__trashed_at=None).select_related("topic")
    return dict(mine.defer("manifest", "settings").in_bulk(ids))


def _versions(user: User, revisions: Iterable[Any]) -> dict[UUID, int]:
    """Return the current version of each record in the revisions, in one query for all types.

    Permanently deleted records are missing.
    """
    ids: dict[str, set[UUID]] = {}
    for revision in revisions:
        ids.setdefault(revision.record_type, set()).add(revision.record_id)
    known = record_models()
    parts: list[QuerySet[Any, Any]] = [
        known[name].objects.of(user).filter(pk__in=some).order_by().values_list("pk", "version")
        for name, some in ids.items()
        if name in known
    ]
    return dict(parts[0].union(*parts[1:], all=True)) if parts else {}


def _change(row: Any, user: User) -> Line:
    said = words.of_change(row)
    return Line(
        "change", row.pk, row.created, words.who(row.actor, user.username), row.actor,
        said, words.subject(row.record_type), plain(row.label), why=row.reason,
        details=words.fields_in_words(row.record_type, row.names) if said == _("changed") else [],
        change_url=reverse("research:activity-change", args=[row.pk]),
    )  # fmt: skip


def _log(row: Any, user: User) -> Line:
    line = Line(
        "log", row.pk, row.created, words.who(row.actor, user.username), row.actor,
        words.of_log(row), "" if row.kind == "tool-called" else words.subject(row.subject_type),
        row.label,
        details=words.of_detail(row.detail, row.actor), is_warning=row.is_warning,
    )  # fmt: skip
    if row.subject_type in record_models() and row.kind != "purged":
        line.url = reverse("memory:record-open", args=[row.subject_type, row.subject_id])
    if row.subject_type == "proposal" and row.label:
        line.url = reverse("memory:proposal", args=[row.subject_id])
    if row.kind == "forgot-source" and row.label:
        asked = urlencode({"source": row.label, "act": row.detail.get("key", "")})
        line.url = f"{reverse('memory:source-forget')}?{asked}"
    return line


def _call(row: Any, user: User) -> Line:
    actor = "research" if row.source.startswith("run:") else row.source
    return Line(
        "call", row.pk, row.created, words.who(actor, user.username), actor,
        _("asked %(model)s") % {"model": row.model}, _("model call"), row.aim,
        details=[*words.of_call(row), *([row.error[:300]] if row.error else [])],
        is_warning=bool(row.failure),
    )  # fmt: skip


def _run(row: Any, user: User) -> Line:
    return Line(
        "run", row.pk, row.created, words.who(row.actor, user.username), row.actor,
        words.of_run(row), words.subject("run"), f"{row.topic}, {row}", url=address_of(row),
    )  # fmt: skip
