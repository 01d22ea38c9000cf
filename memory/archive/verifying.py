"""Whether the file of an export is whole: each part as it was packed, each kind with all its rows.

Looked at once, and kept with the row: a person who is about to delete everything relies on it.
"""

from __future__ import annotations

import json
import zipfile

from django.utils.translation import gettext as _

from memory.archive.kinds import in_order
from memory.archive.writing import MANIFEST
from memory.archive.zips import ImportRejected, opened
from memory.models import Archive, Revision, User

_CHUNK = 1024 * 1024


def last_export(owner: User) -> Archive | None:
    """Return the owner's latest export, looked through if it is done."""
    exports = Archive.objects.filter(owner=owner, way=Archive.Way.EXPORT)
    row: Archive | None = exports.order_by("-created").first()
    if row is not None and row.state == Archive.State.DONE and "problem" not in row.result:
        row.result["problem"] = problem_of(row)
        Archive.objects.filter(pk=row.pk).update(result=row.result)
    return row


def is_older_than_something(row: Archive) -> bool:
    """Whether a record was changed since the export was asked for."""
    changed = Revision.objects.filter(owner=row.owner_id, created__gt=row.created)
    return changed.exists()


def problem_of(row: Archive) -> str:
    """Return what is wrong with the file of a finished export; empty where it is whole."""
    try:
        with opened(row.file) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                return _("“%(name)s” in it is damaged.") % {"name": damaged[:100]}
            told = json.loads(archive.read(MANIFEST))["counts"]
            return _problem_of_rows(archive, told)
    except FileNotFoundError:
        return _("Its file is not there any more.")
    except (ImportRejected, KeyError, ValueError, OSError) as exc:
        return str(exc)


def _problem_of_rows(archive: zipfile.ZipFile, told: dict[str, int]) -> str:
    for kind in in_order():
        held = _lines(archive, kind.path)
        if held != told.get(kind.name):
            counts = {"kind": kind.label, "held": held, "told": told.get(kind.name)}
            return _("It holds %(held)s of %(told)s: %(kind)s.") % counts
    return ""


def _lines(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(name) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_CHUNK), b""))
