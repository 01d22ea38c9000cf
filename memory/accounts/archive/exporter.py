"""Export: write an account's archive, with readable Markdown files, and verify the file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from beacon_site.db.errors import allow_long_transaction
from beacon_site.text.markdown import link
from beacon_site.text.messages import gettext as _
from memory.accounts.archive.kinds import Kind, as_line, encoded, in_order
from memory.accounts.archive.zips import ImportRejected, open_zip
from memory.models import Archive, MemoryFile, Note, Observation, Revision, Topic, TopicFact, User

Files = Iterator[tuple[str, Iterable[str]]]

# Research adds its reports here. Each function yields file names with their text.
MORE: list[Callable[[User], Files]] = []


def files(owner: User) -> Files:
    """Yield the name and text of every readable file of the owner."""
    for kind in Note.Kind:
        yield f"readable/notes/{kind.value}.md", _notes(owner, kind)
    for category in Observation.Category:
        yield f"readable/observations/{category.value}.md", _observations(owner, category)
    for topic in Topic.objects.for_user(owner).live().order_by("slug").iterator(chunk_size=200):
        yield f"readable/topics/{topic.slug}.md", _topic(topic)
    for file in MemoryFile.objects.for_user(owner).live().order_by("path").iterator(chunk_size=20):
        yield f"readable/{file.path}", [file.content]
    for more in MORE:
        yield from more(owner)


def _notes(owner: User, kind: Note.Kind) -> Iterator[str]:
    yield f"# {kind.label.capitalize()}\n"
    notes = Note.objects.for_user(owner).live().filter(kind=kind).order_by("created", "pk")
    for note in notes.iterator(chunk_size=200):
        facts = [f"{note.created:%Y-%m-%d}", note.stability, note.source, *note.tags]
        if note.superseded_by_id:
            facts.append(_("replaced"))
        if note.expires_at:
            facts.append(_("expires %(day)s") % {"day": f"{note.expires_at:%Y-%m-%d}"})
        yield f"\n## {' · '.join(facts)}\n\n{note.content.strip()}\n"


def _observations(owner: User, category: Observation.Category) -> Iterator[str]:
    yield f"# {category.label.capitalize()}\n\n"
    rows = Observation.objects.for_user(owner).live().filter(category=category)
    for one in rows.order_by("created", "pk").iterator(chunk_size=200):
        yield f"- {_indented(one.content)} ({one.created:%Y-%m-%d}, {one.source})\n"


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _topic(topic: Any) -> Iterator[str]:
    yield f"# {topic.title}\n\n{topic.summary.strip()}\n"
    headings = {
        TopicFact.State.CURRENT: _("Known facts"),
        TopicFact.State.STRUCK: _("Marked as wrong"),
        TopicFact.State.RETIRED: _("Earlier facts"),
    }
    facts = TopicFact.objects.filter(topic=topic).live().order_by("position", "created")
    by_state: dict[str, list[Any]] = {}
    for fact in facts:
        by_state.setdefault(fact.state, []).append(fact)
    for state, heading in headings.items():
        if by_state.get(state):
            yield f"\n## {heading}\n\n"
            yield from (f"- {fact.text}{_source(fact)}\n" for fact in by_state[state])


def _source(fact: TopicFact) -> str:
    return f" ({link(fact.source_title or fact.url, fact.url)})" if fact.url else ""


# --- writing ---

FORMAT, VERSION = "beacon-archive", 1
MANIFEST = "manifest.json"
CHUNK = 500  # rows in memory at once


def total(owner: User) -> int:
    """Return the number of rows in an archive of the owner."""
    return sum(kind.rows(owner).count() for kind in in_order())


def write(
    owner: User,
    path: Path,
    *,
    tell: Callable[[int], object] = lambda done: None,
    attempt: int = 0,
    check: Callable[[], object] = lambda: None,
) -> dict[str, int]:
    """Write the owner's archive to `path` and return its number of rows by kind.

    Everything is read from one snapshot.  `tell` is called with the number of rows written so far.
    `attempt` names the unfinished file, so that a worker that lost the job doesn't write into it.
    `check` is called before the file is put in its place, and raises if it mustn't be.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in path.parent.glob(f"{path.stem}.*.part"):
        left.unlink(missing_ok=True)
    part = path.with_suffix(f".{attempt}.part")
    try:
        with _one_moment(), zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            counts = _write_rows(owner, archive, tell)
            for name, text in files(owner):
                with _file(archive, name) as file:
                    for piece in text:
                        file.write(piece.encode("utf-8", "replace"))
            archive.writestr(MANIFEST, json.dumps(manifest(owner, counts), indent=2) + "\n")
        part.chmod(0o600)
        check()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return counts


def manifest(owner: User, counts: dict[str, int]) -> dict[str, Any]:
    """Return the archive's manifest: its format, and what it contains."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "beacon": settings.BEACON_VERSION,
        "made_at": timezone.now().isoformat(timespec="seconds"),
        "account": {
            "username": owner.get_username(),
            "display_name": owner.display_name,
            "time_zone": owner.time_zone,
            "language": owner.language,
            "page_language": owner.page_language,
            "interests": owner.interests,
        },
        "counts": counts,
    }


def _write_rows(
    owner: User, archive: zipfile.ZipFile, tell: Callable[[int], object]
) -> dict[str, int]:
    counts: dict[str, int] = {}
    done = 0
    for kind in in_order():
        counts[kind.name] = 0
        with _file(archive, kind.path) as file:
            for row in _rows(kind, owner):
                file.write(as_line(encoded(kind, row)).encode())
                counts[kind.name] += 1
                done += 1
                if done % CHUNK == 0:
                    tell(done)
    return counts


def _rows(kind: Kind, owner: User) -> Iterator[Any]:
    rows = kind.rows(owner)
    for attname in kind.named:
        rows = rows.select_related(attname.removesuffix("_id"))
    return rows.prefetch_related(*kind.many).iterator(chunk_size=CHUNK)


@contextmanager
def _file(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    with archive.open(name, "w", force_zip64=True) as file:
        yield file


@contextmanager
def _one_moment() -> Iterator[None]:
    """Read from one snapshot of the database."""
    begins = not connection.in_atomic_block
    with transaction.atomic():
        if begins:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        allow_long_transaction()
        yield


# --- verifying ---

_CHUNK = 1024 * 1024


def last_export(owner: User) -> Archive | None:
    """Return the owner's latest export, verified if it is finished."""
    exports = Archive.objects.filter(owner=owner, kind=Archive.Kind.EXPORT)
    row: Archive | None = exports.order_by("-created").first()
    if row is not None and row.state == Archive.State.DONE and "problem" not in row.result:
        row.result["problem"] = problem_of(row)
        Archive.objects.filter(pk=row.pk).update(result=row.result)
    return row


def is_older_than_something(row: Archive) -> bool:
    """Return True if a record has changed since the export was requested."""
    changed = Revision.objects.filter(owner=row.owner_id, created__gt=row.created)
    return changed.exists()


def problem_of(row: Archive) -> str:
    """Return what is wrong with the file of a finished export, or ""."""
    try:
        with open_zip(row.file) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                return _("“%(name)s” in the file is damaged.") % {"name": damaged[:100]}
            told = json.loads(archive.read(MANIFEST))["counts"]
            return _problem_of_rows(archive, told)
    except FileNotFoundError:
        return _("The file no longer exists.")
    except (ImportRejected, KeyError, ValueError, OSError) as exc:
        return str(exc)


def _problem_of_rows(archive: zipfile.ZipFile, told: dict[str, int]) -> str:
    for kind in in_order():
        held = _count_lines(archive, kind.path)
        if held != told.get(kind.name):
            counts = {"kind": kind.label, "held": held, "told": told.get(kind.name)}
            return (
                _("The file is incomplete: it contains %(held)s of %(told)s entries (%(kind)s).")
                % counts
            )
    return ""


def _count_lines(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(name) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_CHUNK), b""))
