"""The data folder against the rows: files of exports and imports, the mirror, who may read secrets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.files import mirror, mirror_folder
from memory.models import Archive

FRESH = 3600.0  # seconds: an upload's file is there before its row
PRIVATE = ("secret_key", "beacon.env", "state.json")


# --- exports and imports --------------------------------------------------------------------------


def _left_behind() -> list[Path]:
    """Return the files of exports and imports that no row knows."""
    found = {}
    for path in Archive(pk=uuid.UUID(int=0)).file.parent.glob("*.file"):
        try:
            if time.time() - path.stat().st_mtime > FRESH:
                found[uuid.UUID(path.stem)] = path
        except (ValueError, FileNotFoundError):  # not ours, or deleted just now
            continue
    known = set(Archive.objects.filter(pk__in=found).values_list("pk", flat=True))
    return [path for key, path in sorted(found.items()) if key not in known]


def look_at_archives() -> Found:
    """Compare the files of exports and imports with their rows."""
    left = _left_behind()
    if not left:
        return Found(_("Each file of an export or import has its row."))
    said = ngettext(
        "%(n)d file of an export or import belongs to nothing.",
        "%(n)d files of exports or imports belong to nothing.",
        len(left),
    )
    return Found(said % {"n": len(left)}, WARN)


def mend_archives() -> str:
    """Delete the files that no row knows."""
    left = _left_behind()
    for path in left:
        path.unlink(missing_ok=True)
    return _("Files deleted: %(n)d.") % {"n": len(left)}


# --- the mirror -----------------------------------------------------------------------------------


def look_at_mirror() -> Found:
    """Compare each memory file with its copy on disk, byte for byte."""
    if not mirror_folder.is_on():
        return Found(_("There is no copy on disk (BEACON_MIRROR_DIR is not set)."))
    differing = mirror.differing()
    if not differing:
        return Found(_("Each copy is what is stored."))
    said = ngettext(
        "%(n)d copy is not what is stored.",
        "%(n)d copies are not what is stored.",
        len(differing),
    )
    return Found(said % {"n": len(differing)}, WARN)


def mend_mirror() -> str:
    """Take in what was edited on disk, then write what is stored."""
    looked = mirror.bring_together()
    return _("Copies brought together with what is stored: %(n)d.") % {"n": looked}


# --- who may read -----------------------------------------------------------------------------------


def _open_to_others() -> Iterator[Path]:
    for name in PRIVATE:
        path = Path(settings.DATA_DIR) / name
        try:
            if path.stat().st_mode & 0o077:
                yield path
        except OSError:  # missing, or in a folder that is closed to us and so to others too
            continue


def look_at_rights() -> Found:
    """See whether secrets of the data folder are their owner's alone."""
    open_ones = ", ".join(path.name for path in _open_to_others())
    if not open_ones:
        return Found(_("Others on this machine cannot read its secrets."))
    said = _("Others on this machine may read: %(names)s.")
    return Found(said % {"names": open_ones}, BAD)


def mend_rights() -> str:
    """Let nobody but their owner read those files."""
    closed = list(_open_to_others())
    for path in closed:
        path.chmod(0o600)
    return _("Closed to others: %(names)s.") % {"names": ", ".join(path.name for path in closed)}


EXAMINATIONS = (
    Examination(
        "archive-files", gettext_lazy("Files of exports and imports"),
        gettext_lazy("They take room, and hold what somebody remembers without anybody knowing."),
        look_at_archives, mend_archives,
    ),
    Examination(
        "mirror", gettext_lazy("Memory files: copies"),
        gettext_lazy("What an editor shows is not what agents read, and an edit there waits."),
        look_at_mirror, mend_mirror,
    ),
    Examination(
        "private-files", gettext_lazy("Data folder: rights"),
        gettext_lazy("Who reads them can sign in as anybody and open the stored keys."),
        look_at_rights, mend_rights,
    ),
)  # fmt: skip
