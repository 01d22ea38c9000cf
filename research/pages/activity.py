"""Activity: the page of everything that happened, one change in detail, undo, and export."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from itertools import groupby, pairwise
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import DateTimeField, QuerySet
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.timezone import localdate, localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import decoded, encoded
from beacon_site.text.cleaning import csv_lines, in_brief, plain, text_param, uuids_of
from beacon_site.text.dates import in_utc
from beacon_site.text.diff import folded, plain_diff
from beacon_site.text.markdown import by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in
from memory.models import MountedFolder, Proposal, Remembered, Revision, Trust, User, origins
from memory.models.errors import MemoryRefused
from memory.models.proposals import Danger
from memory.models.remembered import record_models
from memory.pages.agents import agents_to_choose
from memory.pages.records import saved_views
from memory.pages.records.listing import day_of
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar, Query
from memory.pages.shared.undo import toast_with_undo
from memory.services.library.folder import SOURCE as FOLDER
from memory.services.records import history as record_history
from memory.services.records.history import record_of
from memory.services.records.kinds import count_label, nouns
from research.models import Run
from research.pages import activity_streams as activity_words
from research.pages.activity_streams import (
    ACTORS,
    KINDS,
    MAX_EXAMINED,
    QUIET,
    STREAMS,
    Line,
    StreamPosition,
    StreamRow,
    address_of,
    field_labels,
    kind_sent,
)

MAX_ROWS = 400  # lines of a diff on the page
MAX_COMPARED = 300_000  # characters; for a longer text, only its length is shown
MAX_FIRST = 8_000  # characters of a value in a new record
_SHORT = 80  # characters of a value that is shown on one line


def first_values(revision: Revision) -> list[tuple[str, str, bool]]:
    """Return the values a record was created with, without the defaults of its type.

    Each has its field's name, its text, and whether that takes more than one line.
    """
    fields = _fields(revision)
    results = []
    for name in _changed_fields(revision):
        value, field = revision.after[name], fields.get(name)
        default = field.get_default() if field is not None else None
        if value in ("", None, [], {}, False) or value == default:
            continue
        shown = _text(field, value)
        cut = f"{shown[:MAX_FIRST]} …" if len(shown) > MAX_FIRST else shown
        if name == "content" and _is_long(cut):
            cut = by_direction(render_markdown(cut))
        results.append((field_labels(revision.record_type, [name])[0], cut, _is_long(cut)))
    return results


def changes_of(revision: Revision) -> list[dict[str, Any]]:
    """Return each changed field: two short values, or the differing lines of a text."""
    fields = _fields(revision)
    return [
        _change(
            field_labels(revision.record_type, [name])[0],
            _text(fields.get(name), revision.before.get(name)),
            _text(fields.get(name), revision.after[name]),
        )
        for name in _changed_fields(revision)
    ]


def _changed_fields(revision: Revision) -> list[str]:
    return sorted(name for name in revision.after if name not in QUIET)


def _fields(revision: Revision) -> dict[str, Any]:
    model = record_models().get(revision.record_type)
    return {field.attname: field for field in model._meta.concrete_fields} if model else {}


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or "\n" in text


def _change(name: str, before: str, after: str) -> dict[str, Any]:
    if not _is_long(before) and not _is_long(after):
        return {"name": name, "old": before, "new": after}
    if max(len(before), len(after)) > MAX_COMPARED:
        message = _("Too long to compare: %(old)s characters before, %(new)s after.")
        params = {"old": grouped(len(before)), "new": grouped(len(after))}
        return {"name": name, "said": message % params}
    rows = folded(plain_diff(before, after))
    return {"name": name, "rows": rows[:MAX_ROWS], "rows_left": max(0, len(rows) - MAX_ROWS)}


def _text(field: Any, value: Any) -> str:
    """Return a stored value in readable form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return "\n".join(_text(None, one) for one in value)
    if isinstance(field, DateTimeField) and (moment := parse_datetime(str(value))):
        return date_format(localtime(moment), "j M Y, H:i")
    if field is not None and field.attname == "ttl_days":
        return ngettext("%(n)d day", "%(n)d days", value) % {"n": value}
    choices = dict(field.flatchoices) if field is not None else {}
    return str(choices.get(value, value))


def record_now(revision: Revision) -> Remembered | None:
    """Return the current record, or None if it was permanently deleted."""
    try:
        return record_of(revision)
    except MemoryRefused:
        return None


# --- export ---

FIELDS = (
    "at", "actor", "kind", "record_type", "label", "said", "tool", "why", "details", "run", "warning",
)  # fmt: skip


def _row(line: Line) -> dict[str, Any]:
    return {
        "at": line.at.isoformat(),
        "actor": line.actor,
        "kind": line.name,
        "record_type": line.noun,
        "label": line.label,
        "said": line.said,
        "tool": line.tool,
        "why": line.why,
        "details": "; ".join(line.details),
        "run": line.run.pk if line.run else None,
        "warning": line.is_warning,
    }


def as_csv(lines: Iterable[Line]) -> Iterator[str]:
    return csv_lines(FIELDS, map(_row, lines))


def as_json_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines as JSON, one object per line."""
    for line in lines:
        yield json.dumps(_row(line), ensure_ascii=False) + "\n"


# Media types, and the functions that yield the parts of a file.
EXPORTS: dict[str, tuple[str, Callable[[Iterable[Line]], Iterator[str]]]] = {
    "activity.csv": ("text/csv; charset=utf-8; header=present", as_csv),
    "activity.jsonl": ("application/jsonl", as_json_lines),
}


# --- groups: the work of one run, conversation or agent, and similar changes ---

MIN = 3  # two lines are as quick to read as a group, unless they are model calls
CALL = "call"
APART = timedelta(hours=1)  # lines further apart are separate groups
_LISTS = {"note": "memory:notes", "observation": "memory:observations"}
_Alike = tuple[str, str, str, str]
_Work = tuple[str, str, date]


@dataclass(frozen=True, slots=True)
class Group:
    """Lines with the same actor, source, record type and action; `goes_on` if the next page has more."""

    lines: Sequence[Line]
    record_type: str
    source: str
    goes_on: bool = False
    name: str = "group"

    @property
    def totals(self) -> list[str]:
        """Return the tokens and the cost of model calls."""
        calls = [line.call for line in self.lines if line.call]
        return activity_words.of_calls(calls) if calls else []

    @property
    def first(self) -> Line:
        """Return the newest line, which says who acted and in which run."""
        return self.lines[0]

    @property
    def at(self) -> datetime:
        return self.lines[0].at

    @property
    def since(self) -> datetime | None:
        """Return the time of the oldest line, if it reads differently from the newest."""
        oldest = self.lines[-1].at
        return oldest if (self.at - oldest).total_seconds() >= 60 else None

    @property
    def records(self) -> str:
        """Return the number of records, such as "14 observations"."""
        if self.record_type == CALL:
            n = len(self.lines)
            return ngettext("%(n)d model call", "%(n)d model calls", n) % {"n": n}
        if self.first.is_sentence:  # the only changes that are one
            n = len(self.lines)
            return ngettext("%(n)d question", "%(n)d questions", n) % {"n": n}
        return count_label(self.record_type, len(self.lines))

    @property
    def said(self) -> str:
        """Return what was done to the records."""
        return _("made") if self.record_type == CALL else self.first.said

    @property
    def why(self) -> str:
        """Return the reason, if all lines share one."""
        reasons = {line.why for line in self.lines}
        return reasons.pop() if len(reasons) == 1 else ""

    @property
    def run_url(self) -> str:
        """Return the page of the run, if all lines are of one."""
        urls = {line.run_url for line in self.lines}
        return urls.pop() if len(urls) == 1 else ""

    @property
    def details(self) -> list[str]:
        """Return the fields that any of the changes touched, or what the calls used."""
        if self.record_type == CALL:
            n = len({line.run.pk for line in self.lines if line.run})
            runs = [ngettext("in %(n)d run", "in %(n)d runs", n) % {"n": n}] if n > 1 else []
            return [*runs, *self.totals]
        return list(dict.fromkeys(one for line in self.lines for one in line.details))

    @property
    def list_url(self) -> str:
        """Return the URL of the list of this source's records, if there is one."""
        if self.record_type not in _LISTS or not self.source:
            return ""
        asked = urlencode({"q": f"source:{self.source}"})
        return f"{reverse(_LISTS[self.record_type])}?{asked}"


@dataclass(frozen=True, slots=True)
class Work(Group):
    """What one run, conversation or agent did, even if other lines were between; newest first."""

    entries: Sequence[Line | Group] = ()
    done: Sequence[tuple[str, str]] = ()  # what was done, and to how many records
    name: str = "work"

    @property
    def first(self) -> Line:
        """Return the newest line of the actor, who didn't have to start the run."""
        return next((line for line in self.lines if line.name != "run"), self.lines[0])

    @property
    def run(self) -> Run | None:
        """Return the run whose work this is, if it was one."""
        return self.first.run if self.first.actor == "research" else None

    @property
    def run_url(self) -> str:
        return address_of(self.run) if self.run else ""

    @property
    def tag(self) -> tuple[str, str] | None:
        """Return the word about a line that needs attention, and the class of its tag."""
        return next((line.tag for line in self.lines if line.tone == "held" and line.tag), None)


Entry = Line | Group


def newest(entry: Entry) -> Line:
    """Return the line that says who acted."""
    return entry if isinstance(entry, Line) else entry.first


@dataclass(frozen=True, slots=True)
class Gathering:
    """Rows for one entry: the work of one actor, consecutive similar rows, or a single row."""

    work: _Work | None
    alike: _Alike | None
    rows: list[StreamRow]
    records: set[Any]

    def takes(self, one: StreamRow, alike: _Alike | None) -> bool:
        """Return True if a similar row fits into the group. Each record counts once."""
        if self.work or alike is None or alike != self.alike or _subject_of(one) in self.records:
            return False
        return self.rows[-1].place.at - one.place.at <= APART

    def entries(
        self, lines: Mapping[StreamPosition, Line], following: Sequence[StreamRow]
    ) -> list[Entry]:
        """Return the rows as `lines` for the page; `following` has the rows after the page."""
        mine = [lines[row.place] for row in self.rows]
        if self.work is not None:
            goes_on = any(
                _work_of(one) == self.work and self.rows[-1].place.at - one.place.at <= APART
                for one in following
            )
            return [self._as_work(lines, mine, goes_on)]
        if self.alike is None or len(mine) < (2 if self.alike[2] == CALL else MIN):
            return list(mine)
        goes_on = bool(following) and self.takes(following[0], _group_key(following[0]))
        return [Group(mine, self.alike[2], self.alike[1], goes_on)]

    def _as_work(
        self, lines: Mapping[StreamPosition, Line], mine: Sequence[Line], goes_on: bool
    ) -> Entry:
        first: dict[Any, int] = {}  # where the newest of similar rows is
        for n, one in enumerate(self.rows):
            first.setdefault(_group_key(one) or one.place, n)
        together = sorted(self.rows, key=lambda one: first[_group_key(one) or one.place])
        inner: list[Any] = []
        for part in gathered(together, fold_work=False):
            inner += part.entries(lines, [])
        if len(inner) == 1 and isinstance(inner[0], Group):
            return replace(inner[0], goes_on=goes_on)
        return Work(mine, "", "", goes_on, entries=inner, done=_done(self.rows))


def gathered(found: Sequence[StreamRow], *, fold_work: bool = True) -> list[Gathering]:
    """Return the rows in the order of each group's newest row.

    With `fold_work`, the rows of one run, conversation or agent form a group.
    """
    works = _works(found) if fold_work else {}
    gatherings: list[Gathering] = []
    for one in found:
        if work := works.get(one.place):
            gatherings += [work] if work.rows[0] is one else []
            continue
        alike = _group_key(one)
        if not (gatherings and gatherings[-1].takes(one, alike)):
            gatherings.append(Gathering(None, alike, [], set()))
        gatherings[-1].rows.append(one)
        if alike is not None:
            gatherings[-1].records.add(_subject_of(one))
    return gatherings


def _works(found: Sequence[StreamRow]) -> dict[StreamPosition, Gathering]:
    """Return the groups of at least `MIN` rows of the same work, by the place of each row."""
    current: dict[_Work, Gathering] = {}
    all_of_them: list[Gathering] = []
    for one in found:
        work = _work_of(one)
        if work is None:
            continue
        gathering = current.get(work)
        if gathering is None or gathering.rows[-1].place.at - one.place.at > APART:
            gathering = current[work] = Gathering(work, None, [], set())
            all_of_them.append(gathering)
        gathering.rows.append(one)
    return {
        one.place: gathering
        for gathering in all_of_them
        if len(gathering.rows) >= MIN
        for one in gathering.rows
    }


def _work_of(one: StreamRow) -> _Work | None:
    """Return whose work a row is, and on which day; None for rows that should stand out.

    An agent's work is all it did, and Ask's is one conversation.
    """
    row, source = one.row, ""
    if one.name == CALL:
        actor = activity_words.caller(row)
    else:
        actor = "research" if one.name == "run" else row.actor
    stands_out = one.name == "log" and activity_words.tone_of(row) in ("failed", "held")
    if stands_out or (one.name == CALL and row.failure):
        return None
    if actor == "research":
        source = str(_run_id(one) or "")
    elif actor.startswith("session:"):
        actor, source = "agent:ask", actor
    elif actor == "agent:ask":
        source = row.detail.get("source", "") if one.name == "log" else row.source
    if not source and not actor.startswith("agent:"):
        return None
    return actor, source, localdate(one.place.at)


def _done(rows: Sequence[StreamRow]) -> list[tuple[str, str]]:
    """Return what was done, such as ("created", "15 observations, 1 note"), most first."""
    records: dict[str, dict[str, set[Any]]] = {}
    for one in rows:
        if one.name == "change":
            kinds = records.setdefault(activity_words.of_change(one.row), {})
            kinds.setdefault(one.row.record_type, set()).add(one.row.record_id)
    done = []
    for text, kinds in sorted(records.items(), key=lambda item: -sum(map(len, item[1].values()))):
        numbers = sorted(((len(some), kind) for kind, some in kinds.items()), reverse=True)
        done.append((text, ", ".join(count_label(kind, n) for n, kind in numbers)))
    calls = sum(row.name == CALL for row in rows)
    logs = [row for row in rows if row.name == "log"]
    tools = sum(one.row.kind == activity_words.TOOL_CALLED for one in logs)
    parts = [
        *([ngettext("%(n)d tool call", "%(n)d tool calls", tools) % {"n": tools}] if tools else []),
        *(
            [ngettext("%(n)d model call", "%(n)d model calls", calls) % {"n": calls}]
            if calls
            else []
        ),
    ]
    if parts:
        done.append((_("made"), ", ".join(parts)))
    saved = [one for one in logs if one.row.kind == "run-saved"]
    found = [words for one in saved for words in activity_words.of_detail(one.row.detail)]
    if found:
        done.insert(0, ("", ", ".join(found)))
    if others := len(logs) - tools - len(saved):
        text = ngettext("%(n)d other action", "%(n)d other actions", others)
        done.append(("", text % {"n": others}))
    return done


def _subject_of(one: StreamRow) -> Any:
    return one.row.pk if one.name == CALL else one.row.record_id


def _group_key(one: StreamRow) -> _Alike | None:
    """Return the key by which changes and an actor's model calls are grouped; None for other lines."""
    row = one.row
    if one.name == CALL and not row.failure:
        return activity_words.caller(row), "", CALL, ""
    if one.name != "change":
        return None
    return row.actor, row.source, row.record_type, activity_words.of_change(row)


# --- one page ---

PAGE = 30  # entries; a group counts as one; describing the lines takes most of the time
# Rows that are read for it. A run can write many similar ones, so more are read if these make too few entries.
_READ = (100, 300)


def activity_page(
    user: User, query: Query, *, zone: tzinfo, cursor: str
) -> tuple[list[Entry], str | None]:
    """Return a page of lines, some in groups, and the cursor of the next page (None on the last).

    An invalid cursor gives the first page.
    """
    fold_work = not text_param(query) and kind_sent(query) in ("", "changes")
    results: list[StreamRow] = []
    for most in _READ:
        after = results[-1].place if results else read_cursor(cursor)
        results += merged_lines(user, query, zone=zone, after=after, most=most + 1 - len(results))
        gatherings = gathered(results[:most], fold_work=fold_work)
        if len(gatherings) > PAGE or len(results) <= most:
            break
    shown = min(len(results), most)
    if len(gatherings) > PAGE:  # older rows of the groups are on the next page
        shown = results.index(gatherings[PAGE].rows[0])
        gatherings = gathered(results[:shown], fold_work=fold_work)
    lines = {
        one.place: line
        for one, line in zip(results[:shown], activity_lines(user, results[:shown]), strict=True)
    }
    entries: list[Entry] = []
    for one in gatherings:
        is_cut = one.work is not None or one is gatherings[-1]
        entries += one.entries(lines, following=results[shown:] if is_cut else [])
    return entries, _cursor(results[shown - 1].place) if shown < len(results) else None


def merged_lines(
    user: User, query: Query, *, zone: tzinfo, after: StreamPosition | None, most: int
) -> list[StreamRow]:
    """Return at most `most` rows of all streams older than `after`, newest first."""
    pages = [
        [
            StreamRow(StreamPosition(row.created, stream.rank, row.pk), row)
            for row in stream.page(user, query, zone, after, most)
        ]
        for stream in STREAMS
    ]
    merged = heapq.merge(*pages, key=_order)
    return [one for one, _n in zip(merged, range(most), strict=False)]


def _order(one: StreamRow) -> tuple[float, int, int]:
    # Microseconds as an integer: as float seconds, different times could be equal.
    place = one.place
    moment = int(place.at.timestamp()) * 1_000_000 + place.at.microsecond
    return (-moment, place.rank, -place.key)


def everything(user: User, query: Query, *, zone: tzinfo) -> Iterator[Line]:
    """Yield all matching lines, loading 500 at a time."""
    size = 500
    after: StreamPosition | None = None
    while True:
        found = merged_lines(user, query, zone=zone, after=after, most=size)
        yield from activity_lines(user, found)
        if len(found) < size:
            return
        after = found[-1].place


def _cursor(place: StreamPosition) -> str:
    return encoded([place.at.isoformat(), place.rank, place.key])


def read_cursor(cursor: str) -> StreamPosition | None:
    """Return the place of a cursor, or None if it is invalid."""
    try:
        at, rank, key = decoded(cursor)
        moment = in_utc(datetime.fromisoformat(at))
    except (ValueError, TypeError):
        return None
    fits = type(rank) is int and type(key) is int and abs(key) < 2**63
    return StreamPosition(moment, rank, key) if fits and moment.tzinfo is not None else None


# --- rows as lines ---


def activity_lines(user: User, found: Sequence[StreamRow]) -> list[Line]:
    """Return the rows as lines. The runs, proposals and records they name take three queries."""
    runs, states = _runs(user, found), _proposal_states(user, found)
    versions = _versions(user, (one.row for one in found if one.name == "change"))
    make = {"change": _change_line, "log": _log, "call": _call, "run": _run}
    lines = []
    for one in found:
        line = make[one.name](one.row, user)
        line.run = runs.get(_run_id(one))
        if line.tool:
            line.details = _details_of_call(one.row, line.run)
        if one.name == "log" and one.row.kind == "held":
            _say_state(line, *states.get(one.row.subject_id, ("", 0)))
        if one.name == "log" and not line.url and line.run and not line.tool:
            line.url = address_of(line.run)
            line.label = line.label or f"{line.run.topic}, {line.run}"
        if one.name == "change":
            version, record_trust = versions.get(one.row.record_id, (0, ""))
            line.may_undo = version == one.row.version and one.row.source != FOLDER
            if record_trust == Trust.QUARANTINED:
                line.tone, line.tag = "held", (str(Trust.QUARANTINED.label), "bad")
            if version:
                line.url = reverse(
                    "memory:record-open", args=[one.row.record_type, one.row.record_id]
                )
        lines.append(line)
    return lines


def _run_id(one: StreamRow) -> int | None:
    row = one.row
    if one.name == "run":
        return int(row.pk)
    if one.name == "log" and row.kind != activity_words.TOOL_CALLED:
        number = row.subject_id if row.subject_type == "run" else ""
    else:
        source = str(row.detail.get("source", "")) if one.name == "log" else row.source
        first, _colon, rest = source.partition(":")
        number = rest.partition(":")[0] if first == "run" else ""
    return int(number) if number.isdecimal() and len(number) < 19 else None


def _proposal_states(user: User, found: Iterable[StreamRow]) -> dict[str, tuple[str, int]]:
    """Return how the held proposals were decided since then, and their dangers."""
    ids = [one.row.subject_id for one in found if one.name == "log" and one.row.kind == "held"]
    rows = (
        Proposal.objects.for_user(user).filter(pk__in=uuids_of(ids))
        if ids
        else Proposal.objects.none()
    )
    return {str(pk): told for pk, *told in rows.values_list("pk", "state", "danger")}


def _say_state(line: Line, state: str, danger: int) -> None:
    """Tell a proposal that's still pending from one that has been decided."""
    line.brief = str(Danger(danger).label) if danger in Danger.values else ""
    waits = state == Proposal.State.WAITING
    line.tone = "held" if waits else ""
    words = _("pending") if waits else dict(Proposal.State.choices).get(state, "")
    line.tag = (str(words), "warn" if waits else "quiet-tag") if words else None


def _runs(user: User, found: Iterable[StreamRow]) -> dict[Any, Run]:
    """Return the runs that the lines name and that can be opened."""
    ids = {number for one in found if (number := _run_id(one)) is not None}
    mine = Run.objects.for_user(user).filter(topic__trashed_at=None).select_related("topic")
    return dict(mine.only("number", "status", "topic__title", "topic__slug").in_bulk(ids))


def _versions(user: User, revisions: Iterable[Any]) -> dict[UUID, tuple[int, str]]:
    """Return the current version and trust of each record in the revisions, in one query.

    Permanently deleted records are missing.
    """
    ids: dict[str, set[UUID]] = {}
    for revision in revisions:
        ids.setdefault(revision.record_type, set()).add(revision.record_id)
    known = record_models()
    parts: list[QuerySet[Any, Any]] = [
        known[name]
        .objects.for_user(user)
        .filter(pk__in=some)
        .order_by()
        .values_list("pk", "version", "trust")
        for name, some in ids.items()
        if name in known
    ]
    rows = parts[0].union(*parts[1:], all=True) if parts else []
    return {pk: (version, record_trust) for pk, version, record_trust in rows}


def _change_line(row: Any, user: User) -> Line:
    text = activity_words.of_change(row)
    is_question = (
        text == _("created") and row.record_type == "session" and row.actor.startswith("human")
    )
    if is_question:
        text = _("asked")
    label = origins.describe_label(plain(row.label))
    if row.record_type == "note":  # a heading says enough
        label = label.partition(" · ")[0]
    return Line(
        "change", row.pk, row.created, activity_words.who(row.actor, user.username), row.actor,
        text, activity_words.subject(row.record_type), label, why=row.reason,
        details=activity_words.field_labels(row.record_type, row.names) if text == _("changed") else [],
        change_url=reverse("research:activity-change", args=[row.pk]), is_sentence=is_question,
        mark=_mark_of_change(row), sentence=activity_words.sentence_of_change(row),
    )  # fmt: skip


def _mark_of_change(row: Any) -> str:
    if not row.had:
        return "plus"
    return "trash" if row.trashed else "edit"


def _log(row: Any, user: User) -> Line:
    line = Line(
        "log", row.pk, row.created, activity_words.who(row.actor, user.username), row.actor,
        activity_words.of_log(row), "" if row.kind == "tool-called" else activity_words.subject(row.subject_type),
        str(row.label),
        details=activity_words.of_detail(row.detail, row.actor), is_warning=row.is_warning,
        is_sentence=row.subject_type == "conflict",
    )  # fmt: skip
    line.tone, line.mark = activity_words.tone_of(row), activity_words.mark_of(row.kind)
    if row.detail.get("value") == "not-useful":
        line.mark = "not-useful"
    line.sentence = activity_words.sentence_of(row)
    if line.sentence:
        values = {name: value for name, value in row.detail.items() if name not in _SAID}
        line.details = activity_words.of_detail(values, row.actor)
        line.label = line.label.removeprefix("import:")
    if row.kind == "agent-folder-failed":
        problems = dict(MountedFolder.Problem.choices)
        line.details = [str(problems.get(one, one)) for one in line.details]
    if row.kind == activity_words.TOOL_CALLED:
        line.label, line.tool = "", row.label
    if row.subject_type in record_models() and row.kind != "purged":
        line.url = reverse("memory:record-open", args=[row.subject_type, row.subject_id])
    if row.subject_type == "proposal" and row.label:
        line.url = reverse("memory:proposal", args=[row.subject_id])
    if row.kind == "export-requested":
        line.label = date_format(timezone.localtime(row.created), "j M Y, H:i")
    if row.kind == "forgot-source" and row.label:
        asked = urlencode({"source": row.label, "act": row.detail.get("key", "")})
        line.url = f"{reverse('memory:source-forget')}?{asked}"
    return line


# Details that a line's sentence has already said.
_SAID = ("member", "role", "value")


def _details_of_call(row: Any, run: Run | None) -> list[str]:
    """Return the details of a tool call that its line doesn't say already."""
    texts = {"source"} if run else set()
    if row.detail.get("outcome", "") in ("", "held"):
        texts |= {"path", "query", "outcome"}  # what was done says them
    elif row.detail["outcome"] == "invalid":
        texts |= {"path", "outcome"}  # it says only that the call failed
    elif "read" in row.label:
        texts.add("path")
    values = {name: value for name, value in row.detail.items() if name not in texts}
    return activity_words.of_detail(values, row.actor)


def _call(row: Any, user: User) -> Line:
    actor = activity_words.caller(row)
    return Line(
        "call", row.pk, row.created, activity_words.who(actor, user.username), actor,
        _("called %(model)s") % {"model": row.model}, _("model call"), row.aim,
        details=[*activity_words.of_call(row), *([row.error[:300]] if row.error else [])],
        is_warning=bool(row.failure), call=row, tone="failed" if row.failure else "routine", mark="ask",
    )  # fmt: skip


def _run(row: Any, user: User) -> Line:
    return Line(
        "run", row.pk, row.created, activity_words.who(row.actor, user.username), row.actor,
        _("started"), activity_words.subject("run"), _("%(run)s of %(topic)s") % {"run": row, "topic": row.topic},
        url=address_of(row), details=activity_words.of_run(row), is_sentence=True,
        mark="play",
    )  # fmt: skip


# --- views ---


@signed_in("GET")
@vary_on_headers("HX-Request")
@at_a_date
def activity(request: BeaconRequest) -> HttpResponse:
    """Show what happened, newest first. Over htmx only the list."""
    facets = _facets(request, request.GET.get("actor", ""))
    return _activity_page(request, reverse("research:activity"), facets)


@signed_in("GET")
@vary_on_headers("HX-Request")
@at_a_date
def agents_activity(request: BeaconRequest) -> HttpResponse:
    """Show what agents did: the same list, of one agent or of all."""
    agents = [Choice(f"agent:{name}", name) for name, _words in agents_to_choose(request.user)]
    facets = [Facet("actor", _("By"), agents, any_label=_("All agents")), *_other_facets()]
    return _activity_page(request, reverse("research:agents-activity"), facets, is_agents=True)


def _activity_page(
    request: BeaconRequest, list_url: str, facets: list[Facet], *, is_agents: bool = False
) -> HttpResponse:
    query = filter_bar.read(request.GET, facets)
    if is_agents and query.get("actor", "").partition(":")[0] != "agent":
        query["actor"] = "agent"
    zone = timezone.get_current_timezone()
    entries, next_cursor = activity_page(
        request.user,
        query,
        zone=zone,
        cursor=request.GET.get("cursor", ""),
    )
    is_cut = bool(text_param(query)) and any(
        one.is_cut(request.user, query, zone) for one in STREAMS
    )
    hint = _(
        "Only the newest %(n)s entries of each type are searched. To search further back, set an earlier “until” date."
    )
    bar = FilterBar(
        list_url, "activity", query,
        label=_("Search activity"), placeholder=_("Search names and reasons"),
        facets=facets,
        hint=hint % {"n": grouped(MAX_EXAMINED)} if is_cut else "",
        views_page="" if is_agents else "activity",
    )  # fmt: skip
    if not is_agents:
        bar = saved_views.with_views(request.user, bar)
    parts = ([one] if isinstance(one, Line) else one.lines for one in entries)
    lines = [line for part in parts for line in part]
    _link_actors(lines, query)
    for above, below in pairwise(newest(entry) for entry in entries):
        below.is_by_same = above.actor == below.actor and day_of(above.at) == day_of(below.at)
    context: dict[str, Any] = {
        "bar": bar,
        "entries": entries,
        "days": [(day, list(some)) for day, some in groupby(entries, lambda one: day_of(one.at))],
        "lines": lines,
        "next_cursor": next_cursor,
        "filters": bar.state,
        "list_url": list_url,
        "is_agents": is_agents,
    }
    is_list = request.htmx and request.htmx.target == "activity"
    return render(request, f"research/{'_' if is_list else ''}activity.html", context)


def _facets(request: BeaconRequest, actor: str) -> list[Facet]:
    """Return what activity can be filtered by. Counting would take longer than showing the page."""
    who = [Choice(name, words) for name, (words, _stored) in ACTORS.items()]
    if actor and actor not in ACTORS:
        who.insert(0, Choice(actor, activity_words.who(actor, request.user.get_username())))
    return [Facet("actor", _("By"), who, any_label=_("Anyone")), *_other_facets()]


def _other_facets() -> list[Facet]:
    return [
        Facet("kind", _("Event"), [Choice(*one) for one in KINDS.items()]),
        Facet("type", _("Record"), [Choice(*one) for one in nouns().items()]),
        filter_bar.day_facet(),
        Facet("warnings", _("Level"), [Choice("1", _("warnings"))]),
    ]


def _link_actors(lines: Iterable[Line], query: QueryDict) -> None:
    """Link the actor of each line to all of their changes, within the current filter."""
    asked, queries = query.copy(), {}
    for line in lines:
        if line.actor not in queries:
            asked["actor"] = line.actor
            queries[line.actor] = f"?{asked.urlencode()}"
        line.by_them = queries[line.actor]


@signed_in("GET")
@vary_on_headers("HX-Request")
def activity_change_page(request: BeaconRequest, pk: int) -> HttpResponse:
    """Show one change in full: next to its line over htmx, otherwise on its own page."""
    revision = get_object_or_404(Revision.objects.for_user(request.user), pk=pk)
    record = record_now(revision)
    who = activity_words.who(revision.actor, request.user.get_username())
    context = {
        "revision": revision,
        "changes": changes_of(revision) if revision.before else [],
        "made": [] if revision.before else first_values(revision),
        "who": who
        if revision.actor == f"human:{who}"
        else capfirst(who),  # a username stays as it is
        "noun": activity_words.subject(revision.record_type),
        "record": record,
        "title": in_brief(revision.after.get("content") or revision.label, 90) or _("Untitled"),
        "around": _neighboring_changes(revision),
        "is_latest": record is not None and record.version == revision.version,
    }
    template = "research/_activity_change.html" if request.htmx else "research/activity_change.html"
    return render(request, template, context)


def _neighboring_changes(revision: Revision) -> dict[str, int]:
    """Return the changes before and after this one, by the versions they made."""
    same = Revision.objects.filter(
        owner=revision.owner_id, record_type=revision.record_type, record_id=revision.record_id
    )
    near = same.filter(version__in=(revision.version - 1, revision.version + 1))
    names = {revision.version - 1: "before", revision.version + 1: "after"}
    return {names[version]: pk for version, pk in near.values_list("version", "pk")}


@signed_in("POST")
def activity_restore(request: BeaconRequest, pk: int) -> HttpResponse:
    """Restore a record to its state after one of its changes."""
    revision = get_object_or_404(Revision.objects.for_user(request.user), pk=pk)
    record = record_history.restore_to(revision, by=request.actor)
    message = _("“%(label)s” restored to the selected version.") % {"label": record}
    toast_with_undo(request, record, message)
    return redirect_back(request, reverse("research:activity"))


@signed_in("GET")
def activity_file(request: BeaconRequest, kind: str) -> HttpResponse | StreamingHttpResponse:
    """Download everything that matches the filters."""
    if kind not in EXPORTS:
        why = _("Unknown export format. Available formats: %(kinds)s.")
        message = why % {"kinds": ", ".join(EXPORTS)}
        return render(request, "404.html", {"why": message}, status=404)
    media_type, write = EXPORTS[kind]
    zone = timezone.get_current_timezone()
    lines = everything(request.user, request.GET, zone=zone)
    answer = StreamingHttpResponse(write(lines), content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="beacon-{kind}"'
    return answer
