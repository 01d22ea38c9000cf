"""Import from other apps: zips of Markdown files, and JSON lines.

Each file is read into entries (future notes or observations) and problems, then the entries are
stored or only previewed. A file's text and dates are trusted, but nothing else that it claims.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any

from django.db import models, transaction
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.dates import in_utc
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, ngettext
from memory.accounts.archive.exporter import CHUNK, MANIFEST
from memory.accounts.archive.importer import ImportContext
from memory.accounts.archive.kinds import InvalidLine, parsed
from memory.accounts.archive.zips import ImportRejected, check_plain, numbered_lines, open_zip
from memory.models import Activity, Note, Observation, Revision, Trust, User
from memory.models.errors import InvalidValue
from memory.services.notes.saving import NoteChecks, expiry, listed, usual_stability
from memory.services.observations.saving import single
from memory.services.review.quarantine import imported_trust

MAX_FILE_BYTES = 4 * 1024 * 1024  # bytes of one Markdown file
_MARKDOWN = (".md", ".markdown", ".txt")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.+)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_PAIR = re.compile(r"^([A-Za-z_][\w -]{0,40}):\s*(.*)$")
_HIDDEN = ("__MACOSX/",)


class Shape(models.TextChoices):
    """The format of an uploaded file."""

    BEACON = "beacon", gettext_lazy("Beacon archive")
    MARKDOWN = "markdown", gettext_lazy("Markdown")
    LINES = "lines", gettext_lazy("JSON lines")
    APP = "app", gettext_lazy("Export from another app")


@dataclass(frozen=True, slots=True)
class Entry:
    """One future note or observation; `where` names its file and line.

    `fields` has only the fields that the file sets: content, kind or category, tags, created, source …
    """

    where: str
    is_note: bool
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the file that can't be read, and why."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The import options: how a Markdown file is divided, and the default type of an entry."""

    bullets: bool = False
    kind: str = "log"
    category: str = "finding"


def shape_of(path: Path, name: str) -> Shape:
    """Detect a file's format from its content.  Raises ImportRejected for a damaged zip."""
    check_plain(path)
    with path.open("rb") as file:
        begins = file.read(4)
    if begins.startswith(b"PK") or name.lower().endswith(".zip"):
        with open_zip(path) as archive:
            return Shape.BEACON if MANIFEST in archive.namelist() else Shape.MARKDOWN
    is_text = PurePosixPath(name.lower()).suffix in _MARKDOWN
    return Shape.MARKDOWN if is_text else Shape.LINES


def entries(path: Path, name: str, shape: Shape, choice: Choice) -> Iterator[Entry | Problem]:
    """Yield the entries of a file.  Raises ImportRejected if it can't be read completely."""
    if shape == Shape.LINES:
        with path.open("rb") as file:
            yield from _of_lines(numbered_lines(file, name), name, choice)
    elif zipfile.is_zipfile(path):
        yield from _of_zip(path, choice)
    else:
        yield from _of_file(name, path.read_bytes()[: MAX_FILE_BYTES + 1], choice)


# --- Markdown -------------------------------------------------------------------------------------


def _of_zip(path: Path, choice: Choice) -> Iterator[Entry | Problem]:
    others = 0
    with open_zip(path) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            name = info.filename
            if info.is_dir() or name.startswith(_HIDDEN):
                continue
            if PurePosixPath(name.lower()).suffix not in _MARKDOWN:
                others += 1
                continue
            with archive.open(info) as file:
                yield from _of_file(name, file.read(MAX_FILE_BYTES + 1), choice)
    if others:
        yield Problem(
            _("other files"),
            ngettext(
                "%(count)d file isn’t Markdown (.md, .markdown, .txt) and is skipped",
                "%(count)d files aren’t Markdown (.md, .markdown, .txt) and are skipped",
                others,
            )
            % {"count": others},
        )


def _of_file(name: str, raw: bytes, choice: Choice) -> Iterator[Entry | Problem]:
    if len(raw) > MAX_FILE_BYTES:
        yield Problem(
            name, _("it’s larger than %(most)d MiB") % {"most": MAX_FILE_BYTES // 1024**2}
        )
        return
    try:
        text = clean(raw.decode("utf-8-sig"))[0].replace("\r\n", "\n")
    except UnicodeDecodeError:
        yield Problem(name, _("it isn’t UTF-8 text"))
        return
    head, body, first = _front_matter(text)
    if not body.strip():
        yield Problem(name, _("it has no text"))
    elif choice.bullets:
        yield from _bullets(name, body, first, head, choice)
    else:
        kind = str(head.pop("kind", "") or choice.kind).lower()
        words = body.strip()
        if not words.startswith("#"):  # in a folder of notes the file name is the title
            words = f"# {PurePosixPath(name).stem}\n\n{words}"
        yield Entry(name, True, {**head, "kind": kind, "content": words})


def _bullets(
    name: str, body: str, first: int, head: dict[str, Any], choice: Choice
) -> Iterator[Entry | Problem]:
    """Yield an observation for each bullet with its continuation lines."""
    head = {key: head[key] for key in ("tags", "created", "category") if key in head}
    head.setdefault("category", choice.category)
    results: list[tuple[int, list[str]]] = []
    in_fence = False
    for number, line in enumerate(body.split("\n"), start=first):
        in_fence ^= bool(_FENCE.match(line))
        bullet = None if in_fence else _BULLET.match(line)
        if bullet:
            results.append((number, [bullet[1]]))
        elif results and line.startswith((" ", "\t")) and line.strip():
            results[-1][1].append(line.strip())
    for number, words in results:
        where = _("%(file)s, line %(line)d") % {"file": name, "line": number}
        yield Entry(where, False, {**head, "content": " ".join(words)})
    if not results:
        yield Problem(name, _("it has no bullets, so there’s nothing to import"))


def _front_matter(text: str) -> tuple[dict[str, Any], str, int]:
    """Return the front matter, the text after it, and the line number of that text.

    Values are text or lists of text. Anything more complex is ignored, so that the note can still
    be imported.
    """
    rows = text.split("\n")
    if rows[0].strip() != "---":
        return {}, text, 1
    end = next((n for n, row in enumerate(rows[1:], start=1) if row.strip() in ("---", "...")), 0)
    if not end:
        return {}, text, 1
    found: dict[str, Any] = {}
    key = ""
    for row in rows[1:end]:
        pair = _PAIR.match(row)
        if pair:
            key = pair[1].strip().lower()
            found[key] = _scalar_or_list(pair[2])
        elif key and row.strip().startswith("- "):
            held = found[key] if isinstance(found[key], list) else []
            found[key] = [*held, _bare(row.strip()[2:])]
    return _known_fields(found), "\n".join(rows[end + 1 :]), end + 2


def _scalar_or_list(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_bare(part) for part in text[1:-1].split(",") if part.strip()]
    return _bare(text)


def _bare(text: str) -> str:
    return text.strip().strip("\"'").removeprefix("#")


# --- JSON lines -----------------------------------------------------------------------------------

_NAMES = {
    "content": ("content", "text", "memory"),
    "kind": ("kind",),
    "category": ("category",),
    "tags": ("tags", "labels"),
    "created": ("created", "created_at", "date"),
    "source": ("source",),
    "stability": ("stability",),
    "ttl_days": ("ttl_days",),
    "confidence": ("confidence",),
    "evidence": ("evidence",),
    "step_name": ("step_name",),
    "step_type": ("step_type",),
}


def _known_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Return the known fields under Beacon's names, without empty ones."""
    found = {
        name: next((given[one] for one in names if given.get(one) not in (None, "", [])), None)
        for name, names in _NAMES.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_lines(
    found: Iterator[tuple[int, str]], name: str, choice: Choice
) -> Iterator[Entry | Problem]:
    for number, text in found:
        where = _("%(file)s, line %(line)d") % {"file": name, "line": number}
        try:
            fields = _known_fields(parsed(text))
        except InvalidLine as exc:
            yield Problem(where, str(exc))
            continue
        if not isinstance(fields.get("content"), str):
            yield Problem(where, _("its “content” is missing or empty"))
            continue
        is_note = "kind" in fields
        if not is_note:
            fields.setdefault("category", choice.category)
        for word in ("kind", "category"):
            if word in fields:
                fields[word] = str(fields[word]).lower().removesuffix("s")
        yield Entry(where, is_note, fields)


def moment(value: Any) -> Any:
    """Parse a date and time from a file; None if it isn't one."""
    text = str(value).strip()
    try:
        found = parse_datetime(text)
        return in_utc(found) if found is not None else parse_date(text[:10])
    except ValueError:
        return None


# --- store or preview ---

MAX_ENTRIES = 100_000
MAX_SHOWN = 20  # rows of the preview
MAX_PROBLEMS = 100  # problems that are listed; the others are only counted


@dataclass(slots=True)
class Outcome:
    """The result of an import, or of its preview."""

    notes: int = 0
    observations: int = 0
    memories: int = 0
    documents: int = 0
    updated: int = 0
    here: int = 0
    refused: int = 0
    quarantined: int = 0  # of the notes and observations
    pages: int = 0  # web pages that can be fetched
    documents_of_pages: list[str] = field(default_factory=list)
    first: list[dict[str, str]] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)

    def refuse(self, where: str, why: str) -> None:
        """Count a refused entry, and list the first hundred."""
        self.refused += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append({"where": shorten(where, 200), "why": shorten(why, 400)})

    def show(
        self, kind: str, what: str, content: str, at: datetime | None, source: str, tags: str
    ) -> None:
        """List one of the first items."""
        if len(self.first) < MAX_SHOWN:
            self.first.append(
                {
                    "what": str(what),
                    "type": str(kind),
                    "content": shorten(content, 300),
                    "tags": tags,
                    "created": f"{at:%Y-%m-%d}" if at else str(_("no date")),
                    "source": source,
                }
            )

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for the import's row."""
        return asdict(self)


Store = Callable[[Sequence[Any], ImportContext, Outcome], None]
_COUNTED = ("notes", "observations", "memories", "documents", "updated")


def import_entries(
    found: Iterable[Any],
    import_context: ImportContext,
    *,
    only_look: bool,
    store: Store | None = None,
    size: int = CHUNK,
    source: str = "",
) -> Outcome:
    """Store the entries, or only preview that.  Raises ImportRejected if there are too many.

    `store` gets `size` entries at a time. By default it stores notes and observations.
    """
    outcome, given = Outcome(), iter(found)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=import_context.owner.pk)
        while batch := list(islice(given, size)):
            (store or _batch)(batch, import_context, outcome)
            import_context.done += len(batch)
            if import_context.done > MAX_ENTRIES:
                raise ImportRejected(
                    _("The file has more than %(most)s entries. Import it in parts.")
                    % {"most": grouped(MAX_ENTRIES)}
                )
            import_context.tell(import_context.done)
        if counts := {name: n for name in _COUNTED if (n := getattr(outcome, name))}:
            label = source or import_context.source
            Activity.log(import_context.owner, import_context.by, "imported", label=label, **counts)
        if only_look:
            transaction.set_rollback(True)
    return outcome


def _batch(
    batch: Sequence[Entry | Problem], import_context: ImportContext, outcome: Outcome
) -> None:
    notes: list[Note] = []
    observations: list[Observation] = []
    for one in batch:
        if isinstance(one, Problem):
            outcome.refuse(one.where, one.why)
            continue
        try:
            if one.is_note:
                notes.append(_note(one, import_context))
            else:
                observations.append(_observation(one, import_context))
        except InvalidValue as exc:
            outcome.refuse(one.where, str(exc))
    texts, digests = (
        {note.content for note in notes},
        {observation.digest for observation in observations},
    )
    here: Any = Note.objects.for_user(import_context.owner).live().filter(content__in=texts)
    new_notes = _unknown(notes, here, "kind", "content", "source")
    here = Observation.objects.for_user(import_context.owner).live().filter(digest__in=digests)
    new_observations = _unknown(observations, here, "category", "digest", "source")
    outcome.here += len(notes) + len(observations) - len(new_notes) - len(new_observations)
    outcome.notes += _store(Note, new_notes, import_context)
    outcome.observations += _store(Observation, new_observations, import_context)
    record: Any
    for record in [*new_notes, *new_observations]:
        outcome.quarantined += record.trust == Trust.QUARANTINED
        is_note = isinstance(record, Note)
        what = record.get_kind_display() if is_note else record.get_category_display()
        kind = _("note") if is_note else _("observation")
        tags = ", ".join(record.tags)
        outcome.show(kind, what, record.content, record.created, record.source, tags)


def _store(model: Any, records: Sequence[Any], import_context: ImportContext) -> int:
    model.objects.bulk_create(records)
    Revision.record_first(records, by=import_context.by, source=import_context.source)
    model.follow(records)
    return len(records)


# --- one entry ------------------------------------------------------------------------------------


def _note(entry: Entry, import_context: ImportContext) -> Note:
    """Return a note, not stored yet.  Raises InvalidValue."""
    given = entry.fields
    kind = str(given["kind"])
    if kind in Note.IDENTITY:
        raise InvalidValue(
            _("%(kind)s notes can’t be imported, only edited under Agents or Settings")
            % {"kind": kind}
        )
    values = {
        "kind": kind,
        "content": given["content"],
        "tags": _tags(given),
        "confidence": given.get("confidence", 1.0),
        "stability": given.get("stability") or usual_stability(kind),
        "ttl_days": given.get("ttl_days"),
        "evidence": _listed(given.get("evidence", ())),
    }
    checks = NoteChecks()
    fields = {name: checks.one(name, value) for name, value in values.items()}
    # A temporary note without an expiry is imported as it is: maintenance merges it.
    has_days = fields["stability"] != Note.Stability.VOLATILE or fields["ttl_days"] is not None
    if has_days or kind == Note.Kind.RULE:
        checks.together(fields, by_person=True)  # a person imports it
    checks.raise_refused()
    at = _created(given)
    note = Note(
        owner=import_context.owner,
        source=_source(given, import_context),
        created=at,
        updated=at,
        expires_at=expiry(fields["ttl_days"], at),
        **fields,
    )
    note.trust = imported_trust(note)
    return note


def _observation(entry: Entry, import_context: ImportContext) -> Observation:
    """Return an observation, not stored yet.  Raises InvalidValue."""
    given = entry.fields
    checks = NoteChecks()
    category = checks.choice("category", given["category"], Observation.Category.values)
    tags = checks.tags(_tags(given))
    step_type = str(given.get("step_type", "")).upper()
    checks.raise_refused()
    line = single(category, str(given["content"]).strip())
    at = _created(given)
    observation = Observation(
        owner=import_context.owner,
        category=line.category,
        content=line.content,
        digest=line.digest,
        tags=tags,
        step_name=one_line(clean(str(given.get("step_name", "")))[0])[:200],
        step_type=step_type if step_type in Observation.StepType.values else "",
        source=_source(given, import_context),
        created=at,
        updated=at,
    )
    observation.trust = imported_trust(observation)
    return observation


def _listed(value: Any) -> Any:
    """Return a list field such as tags, which can be a list or a comma-separated text."""
    return value if isinstance(value, str) else list(value if isinstance(value, list) else [])


def _tags(given: dict[str, Any]) -> list[str]:
    """Return the tags. One that contains commas becomes several."""
    found = _listed(given.get("tags", ()))
    return (
        listed(found)
        if isinstance(found, str)
        else [part for one in found for part in listed(str(one))]
    )


def _created(given: dict[str, Any]) -> datetime:
    """Return the entry's date from the file, or the present time."""
    now = timezone.now()
    at = moment(given["created"]) if "created" in given else None
    if at is None:
        return now
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day)
    try:
        aware = at if timezone.is_aware(at) else timezone.make_aware(at)
        return min(aware, now)
    except (ValueError, OverflowError):
        return now


def _source(given: dict[str, Any], import_context: ImportContext) -> str:
    """Return `import:<name>`, followed by the source that the file names."""
    named = one_line(clean(str(given.get("source", "")))[0])
    source = f"{import_context.source}:{named}" if named else import_context.source
    return source[:200]


def _unknown(found: Sequence[Any], stored: Iterable[Any], *names: str) -> list[Any]:
    """Return the rows that differ in these fields from those stored, each once."""
    mark, unknown = attrgetter(*names), []
    seen = set(map(mark, stored))
    for one in found:
        if mark(one) not in seen:
            seen.add(mark(one))
            unknown.append(one)
    return unknown
