"""Reading everything as it was at a moment: `with at(owner, moment): ...`.

Data flow: each revision holds the values before its change -> a record at `moment` is its row with the
values before the first change since then -> queries inside `at()` get these rows instead of the tables.

This is done with common table expressions that have the names of the tables, which Postgres uses instead
of them. So lists, pages and search need no second version of their queries. Permanently deleted records
have no rows, so they don't exist at any date. Scope, sensitivity, trust and pauses are always today's: what agents
must not see today, they can't see at an earlier date either. An earlier text can have been stricter: see
`Past.for_agent`.
"""

# The SQL below is built from our own names, a number and a time.
# ruff: noqa: S608
from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property
from itertools import count
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from beacon_site.text.dates import day_of, end_of_day, moment_of, zone_of
from beacon_site.text.terms import tsquery_of
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.file_format import telling
from memory.models.files import MemoryFile, Section, generated_line
from memory.models.history import Revision
from memory.models.remembered import OWNER_SCOPE, Remembered, Sensitivity, Trust
from memory.models.search_index import COLUMNS, Recalled, SearchSpace, entry_of

_LATER = "beacon_changed_later"
# Never changed, so conditions on them can use the tables' indexes.
_FIXED = frozenset({"id", "owner_id", "created", "topic_id", "run_id", "file_id"})
_TODAY = frozenset({"scope", "sensitivity", "trust", "paused"})
_NAME = re.compile(r"(?<!public\.)(?<!public\.\")\b(?:memory|research)_[a-z]+\b")
_WRITES = re.compile(r'\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+"?([a-z_]+)', re.I)

# Columns that change without a revision, by table: their SQL expression, with `n` for the row, `{at}`
# for the moment, and `{for_agent}` for whether an agent reads it. Other apps add theirs.
DERIVED: dict[str, dict[str, str]] = {}

# Tables whose rows stay as they are, and the condition on the rows that there were. Likewise.
LISTS = dict.fromkeys(
    ("memory_revision", "memory_activity", "memory_use", "memory_modelcall", "memory_conflict"),
    "created < {at}",
)

# For their columns with another value at an earlier date: its SQL expression. Likewise.
LIST_COLUMNS: dict[str, dict[str, str]] = {
    "memory_use": {"used_at": "CASE WHEN used_at < {at} THEN used_at ELSE created END"},
    "memory_conflict": {
        name: f"CASE WHEN resolved_at < {{at}} THEN {name} ELSE {before} END"
        for name, before in {
            "state": "'open'", "resolution": "''", "resolved_by": "''", "resolved_at": "NULL",
            "results": "'[]'::jsonb",
        }.items()
    },
}  # fmt: skip

AS_OF_WORDS = "Read everything as it was at an earlier time: a date (2026-03-01 means the end of that day, in the person's time zone) or a date and time (2026-03-01T09:30Z). Permanently deleted text isn't included. Leave empty to read the current state."

MAX_LENGTH = 40  # characters of a date-time


class ReadOnlyAtDate(MemoryRefused):
    """Something was about to be changed in `at()`."""


def as_of(text: str, zone: Any, *, now: datetime | None = None) -> datetime | None:
    """Return the end of `2026-03-01` (the end of the day in `zone`) or a date-time. None for "".

    Today is the present, so it is None, too. Raises InvalidValue for anything else, and for the future.
    """
    text = text.strip()
    if not text:
        return None
    now = now or timezone.now()
    day = day_of(text)
    try:
        if day is not None:
            if day == now.astimezone(zone).date():
                return None
            until = end_of_day(day, zone)
        else:
            # In a URL, the plus of a time zone is a space.
            found = moment_of(re.sub(r" (\d\d:?\d\d)$", r"+\1", text))
            if found is None or len(text) > MAX_LENGTH:
                raise ValueError(text)
            if timezone.is_naive(found):
                found = found.replace(tzinfo=zone)
            until = found + timedelta(microseconds=1)
        until.astimezone(zone)
    except (ValueError, OverflowError):
        problem = _("“%(text)s” isn’t a date. Enter one such as 2026-03-01, or 2026-03-01T09:30Z.")
        problem %= {"text": text[:40]}
        raise InvalidValue(problem, errors={"as_of": [problem]}) from None
    if until > now:
        problem = _("%(text)s is in the future. Choose today or an earlier date.")
        problem %= {"text": date_format(day, "j M Y") if day else text[:40]}
        raise InvalidValue(problem, errors={"as_of": [problem]})
    return until


def first_day(owner: Any) -> datetime | None:
    """Return when the owner's first stored change was made."""
    rows = Revision.objects.for_user(owner).order_by("created")
    return rows.values_list("created", flat=True).first()


_now: ContextVar[Past | None] = ContextVar("as_of", default=None)


def current() -> Past | None:
    """Return the past that is being read, or None for the present."""
    return _now.get()


@contextmanager
def at(owner: Any, when: datetime | None, *, for_agent: bool = False) -> Iterator[Past | None]:
    """Read the owner's records as they were. None is the present, and changes nothing.

    `for_agent` leaves out what an agent must not read, such as records that are in Trash today.
    Querysets must be evaluated inside, and templates rendered. Records can't be changed inside.
    """
    if when is None:
        yield None
        return
    past = Past(owner, when, for_agent)
    token = _now.set(past)
    features: Any = connection.features
    groups_by_key = features.allows_group_by_selected_pks
    # A table expression has no primary key that the other columns depend on.
    features.allows_group_by_selected_pks = False
    try:
        with connection.execute_wrapper(past.execute):
            yield past
    finally:
        features.allows_group_by_selected_pks = groups_by_key
        _now.reset(token)


def as_it_was(reader: Any, typed: str) -> AbstractContextManager[Past | None]:
    """Read everything inside as of the date that a REST caller or a tool sent.

    Raises InvalidValue for an invalid or future date.
    """
    when = as_of(typed, zone_of(reader.owner.time_zone))
    return at(reader.owner, when, for_agent=not reader.by.is_person)


@contextmanager
def present() -> Iterator[None]:
    """Read the present inside `at()`, as for the navigation around a page."""
    token = _now.set(None)
    try:
        yield
    finally:
        _now.reset(token)


def now() -> datetime:
    """Return the end of the date that is being read, or the current time."""
    past = current()
    return past.until if past else timezone.now()


@dataclass(eq=False)
class Past:
    """One owner's records before `until`, as table expressions.

    `for_agent`: an agent reads them. Records that are in Trash today stay in it. A record that was
    sensitive or of another scope since then is so for its earlier text, too, and text from before a
    person's edit isn't trusted as the person's own.
    """

    owner: Any
    until: datetime
    for_agent: bool = False
    _parts: dict[str, tuple[str, str]] = field(default_factory=dict)
    _only_changed: str = ""  # the table whose unchanged rows are being left out

    def execute(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        """Run a statement on the earlier rows. Refuses to change a record."""
        if current() is not self:
            return execute(sql, params, many, context)
        sql = sql.lstrip()
        if written := _WRITES.match(sql):
            if written[1] in _records():
                raise ReadOnlyAtDate(
                    _(
                        "You can’t change anything while viewing a past date. Go back to the current view first."
                    )
                )
            return execute(sql, params, many, context)
        head = sql.lstrip("( ")[:6].upper()
        if many or not (head.startswith(("SELECT", "WITH"))):
            return execute(sql, params, many, context)
        parts, values = self._expressions(set(_NAME.findall(sql)))
        if not parts:
            return execute(sql, params, many, context)
        if params is None:
            sql, params = sql.replace("%", "%%"), ()
        if isinstance(params, Mapping):
            numbers = count()
            parts = [
                re.sub("%s", lambda _found: f"%(past_{next(numbers)})s", part) for part in parts
            ]
            params = {**params, **{f"past_{n}": value for n, value in enumerate(values)}}
        else:
            params = (*values, *params)
        if sql.startswith("WITH RECURSIVE "):
            sql = f"WITH RECURSIVE {', '.join(parts)}, {sql.removeprefix('WITH RECURSIVE ')}"
        elif sql.startswith("WITH "):
            sql = f"WITH {', '.join(parts)}, {sql.removeprefix('WITH ')}"
        elif sql.startswith("(WITH "):  # Postgres would see two WITH clauses of one SELECT
            sql = f"WITH {', '.join(parts)} SELECT * FROM ({sql}) rows_then"  # nosec B608
        else:
            sql = f"WITH {', '.join(parts)} {sql}"
        return execute(sql, params, many, context)

    def _expressions(self, names: set[str]) -> tuple[list[str], list[Any]]:
        """Return the table expressions for these tables, and their parameters."""
        parts: list[str] = []
        values: list[Any] = []
        for name in sorted(names):
            if name in _records():
                parts.append(f'"{name}" AS NOT MATERIALIZED ({self._rows(name)})')
            elif name in LISTS:
                columns = _columns_of_list(name).format(at=self._at)
                there = LISTS[name].format(at=self._at)
                parts.append(
                    f'"{name}" AS NOT MATERIALIZED (SELECT {columns} FROM public."{name}" AS {name} WHERE {there})'  # nosec B608
                )
            elif name == "memory_section":
                parts.append(f'"{name}" AS NOT MATERIALIZED ({_SECTIONS.format(later=_LATER)})')
                values += self._columns_of_sections
            elif name == "memory_searchentry":
                # The new entries are parsed once, however often the statement names the table.
                parts.append(f"{_NEW} AS MATERIALIZED (SELECT {_PARSED} FROM {_FROM_JSON})")  # nosec B608
                parts.append(f'"{name}" AS NOT MATERIALIZED ({self._entries})')
                values.append(self._entries_of_changed)
        if parts:
            parts.insert(0, f"{_LATER} AS MATERIALIZED ({self._later})")
        return parts, values

    @property
    def _at(self) -> str:
        return f"'{self.until.isoformat()}'::timestamptz"

    @property
    def _later(self) -> str:
        """Return the SELECT of the records that changed later, and of the sections of such files."""
        changed = (
            f"SELECT record_id FROM public.memory_revision WHERE owner_id = {int(self.owner.pk)} "  # nosec B608
            f"AND created >= {self._at} AND version > 1"
        )
        return (
            f"{changed} UNION SELECT s.id FROM public.memory_section s WHERE s.file_id IN "  # nosec B608
            f"({changed} AND record_type = 'memoryfile')"
        )

    def _rows(self, table: str) -> str:
        """Return the SELECT of a table's rows, both those that haven't changed since and the others."""
        if table not in self._parts:
            model = _records()[table]
            derived = DERIVED.get(table, {})
            fixed = _FIXED | _TODAY | derived.keys()
            names = [column.column for column in model._meta.concrete_fields]
            counted = {"version": "b.version - 1", "updated": "COALESCE(u.updated, n.created)"}
            if self.for_agent:
                counted |= _stricter(names)

            def columns(row: str) -> str:
                special = derived if row == "n" else derived | counted
                return ", ".join(
                    f'{special[name].format(at=self._at, for_agent=self.for_agent)} AS "{name}"'
                    if name in special
                    else f'{"n" if name in fixed else row}."{name}"'
                    for name in names
                )

            there = (
                f'FROM public."{table}" n WHERE n.owner_id = {int(self.owner.pk)} '
                f"AND n.created < {self._at}"
            )
            before = (
                "SELECT min(r.version) AS version, "  # nosec B608
                "bool_or(r.before->>'sensitivity' = 'sensitive') AS was_sensitive, "
                "bool_or(r.before->>'trust' = 'quarantined') AS was_quarantined, "
                "jsonb_object_agg(one.key, one.value ORDER BY r.id DESC) AS fields "
                "FROM public.memory_revision r, jsonb_each(r.before) one "
                f"WHERE r.record_type = '{model.record_type()}' AND r.record_id = n.id "
                f"AND r.created >= {self._at}"
            )
            last = (
                "SELECT max(r.created) AS updated, "  # nosec B608
                "bool_or(left(r.actor, 6) <> 'human:') AS has_others FROM public.memory_revision r "
                f"WHERE r.record_type = '{model.record_type()}' AND r.record_id = n.id "
                f"AND r.created < {self._at}"
            )
            changed = there.replace(
                " n WHERE",
                f" n CROSS JOIN LATERAL ({before}) b CROSS JOIN LATERAL ({last}) u "
                "CROSS JOIN LATERAL jsonb_populate_record(n, b.fields) p WHERE",
            )
            self._parts[table] = (
                (
                    f"SELECT {columns('n')} {there} AND NOT EXISTS "  # nosec B608
                    f"(SELECT 1 FROM {_LATER} l WHERE l.record_id = n.id)"
                ),
                f"SELECT {columns('p')} {changed} AND n.id IN (SELECT record_id FROM {_LATER})",  # nosec B608
            )
        others, changed = self._parts[table]
        return changed if table == self._only_changed else f"{others} UNION ALL {changed}"

    def _changed_rows(self, rows: models.QuerySet[Any]) -> list[Any]:
        """Return those of the rows that changed later, as they were.

        A list of their IDs in the query would be searched again for each row, which takes most of the time.
        """
        self._only_changed = rows.model._meta.db_table
        try:
            return list(rows.order_by())
        finally:
            self._only_changed = ""

    # --- sections of files, which have no history of their own ---

    @cached_property
    def _sections(self) -> list[Section]:
        """Return the sections of the files that changed later."""
        if MemoryFile.record_type() not in self._changed:
            return []
        results = []
        for file in self._changed_rows(MemoryFile.objects.for_user(self.owner).live()):
            told = telling(file.content, without=generated_line(file))
            for place, one in enumerate(told):
                key = uuid.uuid5(file.pk, f"{place} {' > '.join(one.heading)}")
                results.append(
                    Section(
                        id=key, owner_id=file.owner_id, file=file, position=place,
                        heading=list(one.heading), content=one.text, source=file.source,
                        trust=file.trust, sensitivity=file.sensitivity, created=file.created,
                        updated=file.updated,
                    )
                )  # fmt: skip
        return results

    @cached_property
    def _columns_of_sections(self) -> list[list[Any]]:
        rows = [
            (section.pk, section.owner_id, section.file_id, section.position, section.content, section.source, section.trust,
             section.sensitivity, section.created, "\n".join(section.heading))
            for section in self._sections
        ]  # fmt: skip
        return _by_column(rows, 10)

    @cached_property
    def _changed(self) -> set[str]:
        """Return the types of the records that changed later."""
        rows = Revision.objects.filter(owner=self.owner, created__gte=self.until, version__gt=1)
        with present():
            return set(rows.order_by().values_list("record_type", flat=True).distinct())

    # --- the search index ---

    @property
    def _entries(self) -> str:
        owned = f"(SELECT id FROM public.memory_searchspace WHERE owner_id = {int(self.owner.pk)})"  # nosec B608
        names = ", ".join(COLUMNS)
        return (
            f"SELECT e.id, e.space_id, {', '.join(f'e.{name}' for name in COLUMNS)} "  # nosec B608
            f"FROM public.memory_searchentry e WHERE e.space_id IN {owned} "
            f"AND e.created < {self._at} "
            f"AND NOT EXISTS (SELECT 1 FROM {_LATER} l WHERE l.record_id = e.record_id) "
            f"UNION ALL SELECT id, space_id, {names} FROM {_NEW}"
        )

    @cached_property
    def _entries_of_changed(self) -> str:
        """Return the index entries of the records that changed later, as JSON.

        That is one parameter, which takes much less time than arrays of many values.
        """
        spaces = {one.record_type: one for one in SearchSpace.objects.filter(owner=self.owner)}
        rows: list[dict[str, Any]] = []
        for record in self._changed_records():
            space = spaces.get(record.search_type())
            if space is not None:
                row = dict(zip(COLUMNS, entry_of(space, record), strict=True))
                rows.append({"id": -len(rows) - 1, "space_id": space.pk, **row})
        return json.dumps(rows, ensure_ascii=False, default=str)

    def _changed_records(self) -> Iterator[Recalled]:
        yield from self._sections
        for model in _records().values():
            if model.record_type() not in self._changed or not issubclass(model, Recalled):
                continue
            rows = model.objects.for_user(self.owner).live()
            yield from self._changed_rows(
                rows.select_related("topic") if hasattr(model, "topic") else rows
            )

    def corrections(self, lexemes: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return what to add to today's figures of the index, and what to subtract.

        The columns are a space, 1 or -1, the number of entries, their length, whether one of them is
        superseded, and for each lexeme how many of them contain it, and the length of the shortest.
        Only entries that changed later are read, or didn't exist yet.
        """
        queries = [tsquery_of([lexeme]) for lexeme in lexemes]
        # Most entries contain none of the words, so one test for all of them comes first.
        has = "e.has AND e.words @@ %s::tsquery"
        counts = ", ".join([f"count(*) FILTER (WHERE {has})"] * len(queries))
        shortest = ", ".join([f"min(e.length) FILTER (WHERE {has})"] * len(queries))
        columns = "space_id, length, is_current"
        owned = f"(SELECT id FROM public.memory_searchspace WHERE owner_id = {int(self.owner.pk)})"  # nosec B608
        no_longer = (
            f"SELECT id FROM public.memory_searchentry WHERE space_id IN {owned} "  # nosec B608
            f"AND created >= {self._at} UNION "
            f"SELECT id FROM public.memory_searchentry WHERE space_id IN {owned} "
            f"AND record_id IN ({self._later})"
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT e.space_id, e.sign, count(*), sum(e.length), bool_or(NOT e.is_current), "  # nosec B608
                f"ARRAY[{counts}]::bigint[], ARRAY[{shortest}]::int[] FROM ("
                f"SELECT c.*, c.words @@ %s::tsquery AS has FROM ("
                f"SELECT -1 AS sign, {columns}, words FROM public.memory_searchentry "
                f"WHERE id IN ({no_longer}) UNION ALL "
                f"SELECT 1, {columns}, words::tsvector FROM {_FROM_JSON}) c OFFSET 0) e "
                "GROUP BY 1, 2",
                [*queries, *queries, " | ".join(queries), self._entries_of_changed],
            )
            return list(cursor.fetchall())


# The index entries of changed records, from a parameter.
_NEW = "beacon_new_entries"
_PARSED = ", ".join(["id", "space_id", *COLUMNS]).replace("words", "words::tsvector")
_FROM_JSON = "json_to_recordset(%s::json) AS new (id int, space_id int, {})".format(
    ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
)


def _stricter(names: Iterable[str | None]) -> dict[str, str]:
    """Return the SQL of columns of a changed record for an agent: `n` is its row, `p` as it was."""
    was_sensitive = "COALESCE(b.was_sensitive, FALSE)"
    found = {"trashed_at": "COALESCE(n.trashed_at, p.trashed_at)"}
    if "scope" in names:
        found["scope"] = f"CASE WHEN n.scope = '{OWNER_SCOPE}' THEN p.scope ELSE n.scope END"
        was_sensitive += f" OR (n.scope <> p.scope AND '{OWNER_SCOPE}' NOT IN (n.scope, p.scope))"
    return found | {
        "sensitivity": f"CASE WHEN {was_sensitive} THEN '{Sensitivity.SENSITIVE}' ELSE n.sensitivity END",
        "trust": (
            f"CASE WHEN b.was_quarantined THEN '{Trust.QUARANTINED}' "
            f"WHEN n.trust = '{Trust.OWNER}' AND u.has_others THEN '{Trust.EXTERNAL}' ELSE n.trust END"
        ),
    }


_SECTION_ROWS = """
SELECT {columns} FROM public.memory_section n
WHERE NOT EXISTS (SELECT 1 FROM {{later}} l WHERE l.record_id = n.id)
UNION ALL SELECT {values} FROM unnest(%s::uuid[], %s::bigint[], %s::uuid[], %s::int[], %s::text[],
%s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::text[])
AS new (id, owner_id, file_id, position, content, source, trust, sensitivity, created, heading)
"""


def _section_columns() -> str:
    """Return the SELECT of sections, whose columns depend on the model."""
    values = {
        "updated": "created", "version": "1", "pinned": "FALSE", "lock": "'open'",
        "trashed_at": "NULL::timestamptz", "heading": "to_jsonb(string_to_array(heading, E'\\n'))",
    }  # fmt: skip
    names = [column.column for column in Section._meta.concrete_fields]
    return _SECTION_ROWS.format(
        columns=", ".join(f'n."{name}"' for name in names),
        values=", ".join(f'{values.get(str(name), name)} AS "{name}"' for name in names),
    )


_SECTIONS = _section_columns()


@cache
def _columns_of_list(table: str) -> str:
    """Return the SELECT of a list's columns."""
    then = LIST_COLUMNS.get(table)
    if not then:
        return "*"
    models_by_table = {one._meta.db_table: one for one in apps.get_models()}
    columns = [str(field.column) for field in models_by_table[table]._meta.concrete_fields]
    return ", ".join(
        f'{then[name]} AS "{name}"' if name in then else f'"{name}"' for name in columns
    )


def _by_column(rows: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


@cache
def _records() -> dict[str, type[Remembered]]:
    """Return the models with a history, by table."""
    found: Iterable[type[models.Model]] = apps.get_models()
    return {
        model._meta.db_table: model
        for model in found
        if issubclass(model, Remembered) and not model.IS_PART
    }
