"""Imports a Beacon archive: previews it, then stores it in one transaction.

A row's UUID is kept unless another owner has a row with it. Then the new one is derived from the
old one and the owner, so that importing the same archive twice adds nothing. A run keeps its number
if that is free. Otherwise it gets the next one, and texts that name it (`run:12`) are updated.
"""

from __future__ import annotations

import json
import re
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import DataError, IntegrityError, connection, models, transaction

from beacon_site.db.errors import allow_long_transaction
from beacon_site.text.cleaning import shorten, uuids_of
from beacon_site.text.dates import moment_of
from beacon_site.text.messages import gettext as _
from memory.accounts.archive.exporter import CHUNK, FORMAT, MANIFEST, VERSION
from memory.accounts.archive.kinds import (
    InvalidLine,
    InvalidRow,
    Kind,
    decoded,
    encoded,
    in_order,
    parsed,
)
from memory.accounts.archive.zips import ImportRejected, numbered_lines, open_zip
from memory.models import (
    Activity,
    LibraryDocument,
    Note,
    Recalled,
    Remembered,
    Revision,
    Trust,
    User,
    search_index,
)
from memory.models.actors import Actor
from memory.services.records import traces
from memory.services.review.quarantine import imported_trust

MAX_AHEAD = 1_000_000  # an ID is kept if it is at most this far beyond the last run's, so that IDs stay short
_REFERENCE = re.compile(
    r"\b(run):(\d{1,18})\b|\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b"
)
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_RUN = re.compile(r"run:\d{1,18}")
# Columns whose text names a record's origin, its use, or the subject of a log line.
_NAMING = ("source", "scope", "place", "job", "subject_id", "run_step")


@dataclass(slots=True)
class Ids:
    """The IDs that change on import, old to new; unchanged ones aren't listed."""

    owner: Any
    uuids: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    # --- choosing ---------------------------------------------------------------------------------

    def decide(self, kind: Kind, lines: Sequence[dict[str, Any]]) -> None:
        """Choose the IDs of these lines of one kind."""
        if not kind.by_id:
            return
        if kind.has_uuid:
            self._decide_uuids(kind, [str(line.get("id", "")) for line in lines])
        else:
            self._decide_numbers(kind, lines)

    def _decide_uuids(self, kind: Kind, written: Sequence[str]) -> None:
        keys = uuids_of(written)
        manager: models.Manager[Any] = kind.model._base_manager
        taken = manager.filter(pk__in=keys).exclude(**{kind.owner: self.owner})
        for key in taken.values_list("pk", flat=True):
            # What is one record in the archive is also one record here.
            own = uuid.uuid5(key, f"beacon:{self.owner.pk}")
            self.uuids[str(key)] = str(own)

    def _decide_numbers(self, kind: Kind, lines: Sequence[dict[str, Any]]) -> None:
        """Keep the numbers of runs that are already here, or whose number is free."""
        moved = self.numbers.setdefault(kind.name, {})
        values = {line["id"]: line for line in lines if type(line.get("id")) is int}
        here = self._here(kind, list(values.values()))
        last = _last_number(kind)
        sane = [key for key in values if 0 < key <= last + MAX_AHEAD]
        if sane and max(sane) > last:
            _reserve(kind, max(sane))
        manager: models.Manager[Any] = kind.model._base_manager
        taken = set(manager.filter(pk__in=sane).values_list("pk", flat=True))
        for key, line in values.items():
            same = here.get(self._marks(line))
            if same is not None:
                moved[key] = same
            elif key not in sane or key in taken:
                moved[key] = _next_number(kind)

    def _here(self, kind: Kind, lines: list[dict[str, Any]]) -> dict[tuple[str, Any], int]:
        """Return the owner's rows that were created for the same topic at the same time."""
        moments = [marks[1] for marks in map(self._marks, lines) if marks[1] is not None]
        rows = kind.all_rows(self.owner).filter(created__in=moments)
        return {
            (str(topic), created): pk
            for pk, topic, created in rows.values_list("pk", "topic_id", "created")
        }

    def _marks(self, line: dict[str, Any]) -> tuple[str, Any]:
        topic = str(line.get("topic_id", ""))
        return self.uuids.get(topic, topic), moment_of(str(line.get("created", "")))

    # --- replacing --------------------------------------------------------------------------------

    def moved(self, kind: Kind, line: dict[str, Any]) -> dict[str, Any]:
        if not self.uuids and not any(self.numbers.values()):
            return line
        line = dict(line)
        for column in kind.columns():
            name = column.attname
            value = line.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                line[name] = self.numbers.get(_numbered(kind, column), {}).get(value, value)
            elif isinstance(value, str) and (name in _NAMING or name in _keys(kind)):
                line[name] = self.text(value)
            elif isinstance(value, dict | list | str) and (
                isinstance(column, models.JSONField) or name in kind.citing
            ):
                line[name] = self.within(value)
        for name in kind.many:
            if isinstance(line.get(name), list):
                line[name] = sorted(self.text(str(key)) for key in line[name])
        return line

    def text(self, text: str) -> str:
        """Return a text with the IDs that it names replaced."""
        return _REFERENCE.sub(self._reference, text)

    def within(self, value: Any) -> Any:
        """Return the value of a JSON or prose column with its IDs replaced.

        A record's ID is replaced anywhere, such as in “[note:0190…]”, since it can't be ordinary text.  A
        run is replaced only as a whole value, since “run:12” could be part of someone's text.
        """
        if isinstance(value, dict):
            return {name: self.within(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if not isinstance(value, str):
            return value
        return self.text(value) if _RUN.fullmatch(value) else _ID.sub(self._by_id, value)

    def _by_id(self, match: re.Match[str]) -> str:
        return self.uuids.get(match[0], match[0])

    def _reference(self, match: re.Match[str]) -> str:
        if match[1]:
            number = int(match[2])
            return f"run:{self.numbers.get('runs', {}).get(number, number)}"
        return self.uuids.get(match[0], match[0])


def _keys(kind: Kind) -> set[str]:
    keys = {field.attname for field in kind.columns() if field.is_relation}
    return keys | {"id", "record_id", "target_id", "result_id", "left_id", "right_id"}


def _numbered(kind: Kind, column: models.Field[Any, Any]) -> str:
    """Return the kind whose numbers a column contains, or "" for other numbers."""
    target = column.related_model if column.is_relation else None
    if column.primary_key and not column.is_relation:
        target = kind.model
    is_run = target is not None and getattr(target, "_meta").model_name == "run"  # noqa: B009
    return "runs" if is_run else ""


def _sequence(kind: Kind) -> str:
    with connection.cursor() as cursor:
        table = kind.model._meta.db_table
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        name: str = cursor.fetchone()[0]
    return name


def _last_number(kind: Kind) -> int:
    """Return the last ID that the database assigned."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT last_value FROM {_sequence(kind)}")  # noqa: S608  the database's own name  # nosec B608
        last: int = cursor.fetchone()[0]
    return last


def _reserve(kind: Kind, number: int) -> None:
    """Make the database assign only IDs above `number`."""
    with connection.cursor() as cursor:
        sequence = _sequence(kind)
        cursor.execute(
            f"SELECT setval(%s::regclass, greatest(%s, last_value)) FROM {sequence}",  # noqa: S608  the database's own name  # nosec B608
            [sequence, number],
        )


def _next_number(kind: Kind) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(%s::regclass)", [_sequence(kind)])
        number: int = cursor.fetchone()[0]
    return number


# --- counts ---

MAX_WHYS = 5  # examples of refused rows of one kind


@dataclass(slots=True)
class KindCounts:
    new: int = 0
    identical: int = 0
    differing: int = 0
    refused: int = 0
    whys: list[str] = field(default_factory=list)

    def refuse(self, number: int, why: str) -> None:
        """Count a refused row, and keep the reasons for the first few."""
        self.refused += 1
        if len(self.whys) < MAX_WHYS:
            self.whys.append(_("line %(line)d: %(why)s") % {"line": number, "why": why})


@dataclass(slots=True)
class ImportContext:
    """One import in progress.

    `is_own` means that the person created the archive: authors and trust are kept.  Records from anyone
    else's archive become `external`, and their source names the archive.
    """

    owner: User
    by: Actor
    name: str
    is_own: bool
    tell: Callable[[int], object] = lambda done: None
    ids: Ids = field(init=False)
    counts: dict[str, KindCounts] = field(default_factory=dict)
    # Imported rows that `finish` works on, and their links.
    fresh: dict[str, list[Any]] = field(default_factory=dict)
    links: dict[tuple[str, str], dict[Any, Any]] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.ids = Ids(self.owner)

    @property
    def source(self) -> str:
        """Return the source of records from another person's archive."""
        return f"import:{self.name}"[:200]


def summed(counts: dict[str, KindCounts]) -> Counter[str]:
    """Return the counts of all kinds, added up."""
    names = ("new", "identical", "differing", "refused")
    return Counter({name: sum(getattr(one, name) for one in counts.values()) for name in names})


# --- links, after all rows are stored ----------------------------------------------------------


def owned(model: Any, owner: User) -> models.QuerySet[Any]:
    """Return the owner's rows of an importable model."""
    kind = next(kind for kind in in_order() if kind.model is model)
    return kind.all_rows(owner)


def links_of(kind: Kind) -> list[Any]:
    """Return the columns that reference rows of other kinds."""
    return [
        column
        for column in kind.columns()
        if column.is_relation
        and column.related_model is not kind.model
        and column.attname not in kind.named
    ]


def own_links_of(kind: Kind) -> list[Any]:
    """Return the columns that reference rows of the same kind, such as the note that supersedes one."""
    return [c for c in kind.columns() if c.is_relation and c.related_model is kind.model]


def remember(
    kind: Kind, rows: list[tuple[int, Any, dict[str, Any]]], import_context: ImportContext
) -> None:
    """Remember what `finish` needs of the rows just stored."""
    if kind.finish is not None:
        import_context.fresh.setdefault(kind.name, []).extend(row for _number, row, _line in rows)
    for column in own_links_of(kind):
        links = import_context.links.setdefault((kind.name, column.attname), {})
        links |= {row.pk: getattr(row, column.attname) for _number, row, _line in rows}
    for name in kind.many:
        links = import_context.links.setdefault((kind.name, name), {})
        links |= {row.pk: line[name] for _number, row, line in rows if line.get(name)}


def finish(kinds: list[Kind], import_context: ImportContext) -> None:
    """Link the imported rows and update derived data.  Raises ImportRejected."""
    for kind in kinds:
        for column in own_links_of(kind):
            _mend(kind, column.attname, import_context)
        for name in kind.many:
            _join(kind, name, import_context)
        if kind.finish is not None and import_context.fresh.get(kind.name):
            kind.finish(import_context, import_context.fresh[kind.name])
    new = {name: counted.new for name, counted in import_context.counts.items() if counted.new}
    Activity.log(
        import_context.owner, import_context.by, "imported", label=import_context.source, new=new
    )


def _mend(kind: Kind, name: str, import_context: ImportContext) -> None:
    """Clear links to rows that were not imported.  Raises ImportRejected for a circular chain."""
    links = import_context.links.get((kind.name, name), {})
    wanted = set(links.values()) - {None}
    there = set(
        owned(kind.model, import_context.owner).filter(pk__in=wanted).values_list("pk", flat=True)
    )
    dangling = [pk for pk, target in links.items() if target is not None and target not in there]
    if dangling:
        owned(kind.model, import_context.owner).filter(pk__in=dangling).update(**{name: None})
    if kind.model is Note and _has_cycle(links):
        raise ImportRejected(
            _("The archive contains notes that replace each other in a loop. Nothing was imported.")
        )


def _has_cycle(links: dict[Any, Any]) -> bool:
    known: set[Any] = set()
    for start in links:
        seen: set[Any] = set()
        at = start
        while at is not None and at not in known:
            if at in seen:
                return True
            seen.add(at)
            at = links.get(at)
        known |= seen
    return False


def _join(kind: Kind, name: str, import_context: ImportContext) -> None:
    for pk, wanted in import_context.links.get((kind.name, name), {}).items():
        related = getattr(owned(kind.model, import_context.owner).get(pk=pk), name)
        related.set(owned(related.model, import_context.owner).filter(pk__in=wanted))


# --- importing ---------------------------------------------------------------------------------

Line = tuple[int, dict[str, Any]]


def manifest_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the archive's manifest.  Raises ImportRejected if this Beacon can't read the archive."""
    try:
        with archive.open(MANIFEST) as file:
            found = json.loads(file.read(1024 * 1024))
    except KeyError as exc:
        raise ImportRejected(
            _("This zip file isn’t a Beacon archive: it has no %(name)s.") % {"name": MANIFEST}
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise ImportRejected(_("%(name)s is damaged.") % {"name": MANIFEST}) from exc
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ImportRejected(
            _("This zip file isn’t a Beacon archive: its manifest isn’t in Beacon’s format.")
        )
    version = found.get("version")
    if type(version) is not int or version < 1:
        raise ImportRejected(_("%(name)s is damaged.") % {"name": MANIFEST})
    if version > VERSION:
        raise ImportRejected(
            _(
                "The archive was created by Beacon %(beacon)s in format %(theirs)d. This version of Beacon supports formats up to %(ours)d. Update Beacon, then import the archive again."
            )
            % {
                "theirs": version,
                "beacon": shorten(str(found.get("beacon", "?")), 20),
                "ours": VERSION,
            }
        )
    return found


def import_archive(
    path: Path,
    import_context: ImportContext,
    *,
    only_look: bool,
) -> dict[str, KindCounts]:
    """Import an archive, or only preview that; return the counts by kind.

    Raises ImportRejected if it is damaged, foreign or newer; nothing is stored then.
    """
    with open_zip(path) as archive:
        manifest_of(archive)
        try:
            with transaction.atomic():
                allow_long_transaction()
                # The account is locked, so that two imports can't run at the same time.
                User.objects.select_for_update().get(pk=import_context.owner.pk)
                _survey(archive, import_context)
                for kind in _kinds(import_context):
                    _take_kind(archive, kind, import_context)
                finish(_kinds(import_context), import_context)
                if only_look:
                    transaction.set_rollback(True)
        except (IntegrityError, DataError) as exc:
            raise ImportRejected(
                _("The archive is inconsistent, so nothing was imported: %(why)s")
                % {"why": _why(exc)}
            ) from exc
    return import_context.counts


def _kinds(import_context: ImportContext) -> list[Kind]:
    return [kind for kind in in_order() if import_context.is_own or not kind.own_alone]


def _survey(archive: zipfile.ZipFile, import_context: ImportContext) -> None:
    """Read every line once, so that a damaged one is reported before anything is stored."""
    for kind in in_order():
        for batch in _batches(archive, kind):
            import_context.ids.decide(kind, [line for _number, line in batch])


def _batches(archive: zipfile.ZipFile, kind: Kind) -> Iterator[list[Line]]:
    try:
        file = archive.open(kind.path)
    except KeyError:
        return  # an older Beacon didn't have this type
    with file:
        found = numbered_lines(file, kind.path)
        while batch := list(islice(found, CHUNK)):
            yield [(number, _parsed(kind, number, text)) for number, text in batch]


def _parsed(kind: Kind, number: int, text: str) -> dict[str, Any]:
    try:
        return parsed(text)
    except InvalidLine as exc:
        raise ImportRejected(
            _("%(file)s, line %(line)d: %(why)s. Nothing was imported.")
            % {"file": kind.path, "line": number, "why": exc}
        ) from exc


# --- one kind -------------------------------------------------------------------------------------


def _take_kind(archive: zipfile.ZipFile, kind: Kind, import_context: ImportContext) -> None:
    counted = import_context.counts[kind.name] = KindCounts()
    for batch in _batches(archive, kind):
        rows = _rows(kind, batch, import_context, counted)
        rows = _with_parents(kind, rows, import_context, counted)
        if kind.of_records:
            rows = _of_own_records(rows, import_context, counted)
        # Searching for copies of what was deleted takes long, so that's done once for each batch.
        with traces.together() if kind.purges else nullcontext():
            rows = _unknown(kind, rows, import_context, counted)
        stored = _stored(kind, rows, counted)
        counted.new += len(stored)
        remember(kind, stored, import_context)
        _make_findable([row for _number, row, _line in stored])
        import_context.done += len(batch)
        import_context.tell(import_context.done)


Row = tuple[int, Any, dict[str, Any]]


def _rows(
    kind: Kind, batch: Sequence[Line], import_context: ImportContext, counted: KindCounts
) -> list[Row]:
    """Return the batch as rows of the owner; invalid ones are counted as refused."""
    rows = []
    for number, line in batch:
        moved = import_context.ids.moved(kind, line)
        try:
            row = decoded(kind, moved)
        except InvalidRow as exc:
            counted.refuse(number, str(exc))
            continue
        if hasattr(row, "owner_id"):
            row.owner = import_context.owner
        if kind.by_id and "id" not in line:
            counted.refuse(number, _("it has no ID"))
            continue
        _name_others(kind, row, moved, import_context)
        if not import_context.is_own:
            _distrust(row, import_context)
        if why := kind.problem(row):
            counted.refuse(number, why)
            continue
        rows.append((number, row, moved))
    return rows


def _name_others(kind: Kind, row: Any, line: dict[str, Any], import_context: ImportContext) -> None:
    """Set the foreign keys that the archive stores as names."""
    for attname, name in kind.named.items():
        related = kind.model._meta.get_field(attname.removesuffix("_id")).related_model
        found = related._base_manager.filter(  # type: ignore[union-attr]
            owner=import_context.owner, **{name: str(line.get(attname))}
        )
        setattr(row, attname, found.values_list("pk", flat=True).first())


def _distrust(row: Any, import_context: ImportContext) -> None:
    """Give a record from another person's archive the trust of external text, or quarantine it."""
    if getattr(row, "trust", Trust.QUARANTINED) != Trust.QUARANTINED:
        row.trust = imported_trust(row)
    if hasattr(row, "trust") or isinstance(row, Revision):
        row.source = import_context.source


def _with_parents(
    kind: Kind, rows: list[Row], import_context: ImportContext, counted: KindCounts
) -> list[Row]:
    """Keep the rows whose parents are the owner's.

    A link to anything else is cleared if it is optional; otherwise the row is refused.
    """
    for column in links_of(kind):
        name, target = column.attname, column.related_model
        wanted = {getattr(row, name) for _number, row, _line in rows} - {None}
        mine = owned(target, import_context.owner).filter(pk__in=wanted)
        there = set(mine.values_list("pk", flat=True))
        kept = []
        for number, row, line in rows:
            if getattr(row, name) is None or getattr(row, name) in there:
                kept.append((number, row, line))
            elif column.null:
                setattr(row, name, None)
                kept.append((number, row, line))
            else:
                counted.refuse(
                    number,
                    _("the item it belongs to (%(what)s) wasn’t imported") % {"what": column.name},
                )
        rows = kept
    return rows


def _of_own_records(
    rows: list[Row], import_context: ImportContext, counted: KindCounts
) -> list[Row]:
    """Leave out rows about other people's records, such as versions that would be in their history."""
    named = {row.record_id for _number, row, _line in rows}
    foreign: set[Any] = set()
    for model in apps.get_models():
        if issubclass(model, Remembered):
            found = model._base_manager.filter(pk__in=named).exclude(owner=import_context.owner)
            foreign.update(found.values_list("pk", flat=True))
    kept = []
    for number, row, line in rows:
        if row.record_id in foreign:
            counted.refuse(number, _("it’s about an item of another account"))
        else:
            kept.append((number, row, line))
    return kept


def _unknown(
    kind: Kind, rows: list[Row], import_context: ImportContext, counted: KindCounts
) -> list[Row]:
    """Return the rows that aren't stored yet; stored ones stay unchanged and are counted."""
    here = _stored_rows(kind, [row for _number, row, _line in rows], import_context.owner)
    unknown: dict[Any, Row] = {}
    for number, row, line in rows:
        key = _key(kind, row)
        old = here.get(key)
        if old is None and key not in unknown:
            kind.prepare(row, import_context)
            unknown[key] = (number, row, line)
        elif old is None:
            counted.refuse(number, _("it’s in the archive twice"))
        elif _without_many(kind, encoded(kind, old)) == _without_many(kind, encoded(kind, row)):
            counted.identical += 1
        else:
            counted.differing += 1
    return list(unknown.values())


def _without_many(kind: Kind, line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in kind.many}


def _stored_rows(kind: Kind, rows: Sequence[Any], owner: User) -> dict[Any, Any]:
    """Return the owner's stored rows with the ids, or the keys, of these."""
    name = "pk" if kind.by_id else kind.key[0]
    values = {getattr(row, name) for row in rows}
    found = kind.all_rows(owner).filter(**{f"{name}__in": values})
    for attname in kind.named:
        found = found.select_related(attname.removesuffix("_id"))
    return {_key(kind, row): row for row in found}


def _key(kind: Kind, row: Any) -> Any:
    return row.pk if kind.by_id else tuple(getattr(row, name) for name in kind.key)


def _stored(kind: Kind, rows: list[Row], counted: KindCounts) -> list[Row]:
    """Store the rows together, or one by one if the database refuses any, and report those."""
    manager: models.Manager[Any] = kind.model._base_manager
    try:
        with transaction.atomic():
            manager.bulk_create([row for _number, row, _line in rows])
        return rows
    except (IntegrityError, DataError, ValueError):
        pass  # the rows are tried one by one below
    stored = []
    for number, row, line in rows:
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except (IntegrityError, DataError, ValueError) as exc:
            counted.refuse(number, _why(exc))
        else:
            stored.append((number, row, line))
    return stored


def _why(exc: Exception) -> str:
    """Return a readable reason why the database refused a row."""
    cause = exc.__cause__
    rule = getattr(getattr(cause, "diag", None), "constraint_name", "") or ""
    values = {
        "topic_name_once": _("you already have a topic with this name"),
        "note_one_active_identity": _(
            "a note of this type already exists, and only one can be current"
        ),
        "observation_once_a_source": _("the same text from the same source already exists"),
        "scratchpad_key_once_a_scope": _("this key already has a value"),
        "run_number_once_a_topic": _("the topic already has a run with this number"),
        "memory_file_once": _("a memory file with this name and different content already exists"),
        "file_draft_once_a_path": _("a draft of this memory file already exists"),
    }
    for name, words in values.items():
        if rule.startswith(name):
            return words
    return shorten(str(cause or exc), 160)


def _make_findable(rows: Sequence[Any]) -> None:
    """Add the new records to the search index."""
    recalled = [row for row in rows if isinstance(row, Recalled)]
    if recalled:
        type(recalled[0]).follow(recalled)
    search_index.index(
        row
        for row in rows
        if isinstance(row, LibraryDocument) and row.trashed_at is None and not row.problem
    )
