"""Writing everything of an owner into one zip: JSON lines to take in again, Markdown to read.

Data flow: each kind's rows, a few hundred at a time -> one file of JSON lines -> readable Markdown
beside -> the manifest with the counts, last.  The whole is never in memory.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from beacon_site.database_errors import allow_long_transaction
from memory.archive import readable
from memory.archive.kinds import Kind, in_order
from memory.archive.rows import as_line, encoded
from memory.models import User

FORMAT, VERSION = "beacon-archive", 1
MANIFEST = "manifest.json"
CHUNK = 500  # rows in memory at once


def total(owner: User) -> int:
    """Return how many rows an archive of the owner holds."""
    return sum(kind.rows(owner).count() for kind in in_order())


def write(
    owner: User, path: Path, *, tell: Callable[[int], object] = lambda done: None
) -> dict[str, int]:
    """Write the owner's archive to `path`; return how many rows of each kind it holds.

    All is read at one moment.  `tell` is called with the number of rows written so far.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        with _one_moment(), zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            counts = _write_rows(owner, archive, tell)
            for name, text in readable.files(owner):
                with _file(archive, name) as file:
                    for piece in text:
                        file.write(piece.encode("utf-8", "replace"))
            archive.writestr(MANIFEST, json.dumps(manifest(owner, counts), indent=2) + "\n")
        part.chmod(0o600)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return counts


def manifest(owner: User, counts: dict[str, int]) -> dict[str, Any]:
    """Return what the archive says of itself."""
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
    """Read as the database is at one moment, whatever is written meanwhile."""
    begins = not connection.in_atomic_block
    with transaction.atomic():
        if begins:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        allow_long_transaction()
        yield
