"""The mirror's folder: that it is there, that it is ours, and whose files lie where in it."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.files.mirror_disk import Disk
from memory.models import Activity, MirroredFile, MirrorFolder, User
from memory.models.mirror_folder import ONLY

logger = structlog.get_logger(__name__)

DISK = Actor("disk")  # whoever edits the files there: somebody with this machine in their hands
MARK = ".beacon"


class NotUsable(Exception):
    """Nothing may be written to the folder or read from it; the message says why."""


def is_on() -> bool:
    """Whether there is a mirror at all."""
    return bool(settings.BEACON_MIRROR_DIR)


def problems() -> tuple[str, str]:
    """Return why nothing is mirrored, and why git has no commits; empty while all is well."""
    found = MirrorFolder.objects.filter(pk=ONLY).first() if is_on() else None
    return (found.problem, found.git_problem) if found else ("", "")


def opened() -> MirrorFolder | None:
    """Return the folder, made if it was missing; None if it cannot be used, which is told once."""
    folder = _row()
    if folder is None:
        return None
    try:
        _check(folder)
    except NotUsable as exc:
        tell(folder, str(exc))
        return None
    except OSError as exc:
        told = {"folder": settings.BEACON_MIRROR_DIR, "why": exc.strerror or exc}
        tell(folder, _("%(folder)s cannot be used: %(why)s.") % told)
        return None
    if folder.problem:
        tell(folder, "")
    return folder


def disk_of(folder: MirrorFolder, owner: User) -> Disk:
    """Return where an account's files lie: the first one's at the root, others by their names."""
    root = Path(settings.BEACON_MIRROR_DIR)
    return Disk(root) if owner.pk == folder.root_id else Disk(root, ("users", name_of(owner)))


def name_of(owner: User) -> str:
    """Return the name of an account's folder.

    Where case makes no difference Alice and alice must not share one, and a name may be `..`.
    """
    name = owner.get_username()
    plain = name.isascii() and name == name.lower() and not name.startswith(".")
    return name if plain else f"{name.lstrip('.')[:40]}~{owner.pk}"


def tell(folder: MirrorFolder, said: str) -> None:
    """Store the folder's problem, "" for none; Activity tells when one begins and when it ends."""
    was, folder.problem = folder.problem, said
    told = MirrorFolder.objects.filter(pk=folder.pk).exclude(problem=said).update(problem=said)
    if told and said:
        logger.warning("mirror stopped", why=said)
        Activity.log(folder.root, DISK, "mirror-stopped", warning=True, why=said)
    elif told and was:
        Activity.log(folder.root, DISK, "mirror-resumed", label=was)


def _row() -> MirrorFolder | None:
    """Return the folder's row; None before there is an account."""
    folder = MirrorFolder.objects.select_related("root").filter(pk=ONLY).first()
    if folder is None and (first := User.objects.order_by("pk").first()):
        folder, _made = MirrorFolder.objects.get_or_create(pk=ONLY, defaults={"root": first})
    return folder


def _check(folder: MirrorFolder) -> None:
    """Raise NotUsable if the folder belongs to another Beacon; make it ours if it is nobody's."""
    root = Path(settings.BEACON_MIRROR_DIR)
    mark = root / MARK
    try:
        told = mark.read_text()[:1_000]
    except FileNotFoundError:
        _make(folder, root)
        told = mark.read_text()[:1_000]
    except UnicodeDecodeError:
        told = ""
    if _identity(told) == str(folder.identity):
        if folder.place != str(root):
            MirrorFolder.objects.filter(pk=folder.pk).update(place=root)
        return
    raise NotUsable(
        _(
            "The folder %(folder)s belongs to another Beacon, so nothing is written to it or taken "
            "from it. Name another one in BEACON_MIRROR_DIR; or, if that Beacon is gone, delete "
            "the file %(mark)s in it: what lies there is taken in then."
        )
        % {"folder": root, "mark": MARK}
    )


def _identity(told: str) -> str:
    try:
        found = json.loads(told)
    except ValueError:
        return ""
    return str(found.get("beacon", "")) if isinstance(found, dict) else ""


def _holds_last_copies(folder: MirrorFolder) -> bool:
    """Whether a file is there just as it was last mirrored, so that this is the folder of before."""
    rows = MirroredFile.objects.exclude(stamp="").select_related("owner")
    return any(
        disk_of(folder, row.owner).stamps().get(row.path) == row.stamp for row in rows.iterator()
    )


def _put_unless_there(temp: Path, mark: Path) -> None:
    """Put the mark in its place, unless another Beacon put its own there at the same moment."""
    try:
        os.link(temp, mark)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        temp.rename(mark)


def _make(folder: MirrorFolder, root: Path) -> None:
    """Make the folder, or mark one that is there as ours; what was in it before is taken in."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_bare = not any((root / name).exists() for name in ("facts", "episodes", "users"))
    is_other = folder.place != str(root) or not (is_bare or _holds_last_copies(folder))
    rows = MirroredFile.objects.exclude(digest="")
    # Nothing that lies here is what was mirrored last, so no edit can be based on that.
    if (is_bare or is_other) and rows.update(digest="", stamp="", version=0) and not is_other:
        why = _("The folder %(folder)s was gone or empty: all files are written there again.")
        why %= {"folder": root}
        Activity.log(folder.root, DISK, "mirror-renewed", warning=True, why=why)
    temp = root / f"{MARK}.{secrets.token_hex(6)}.tmp"
    told = {"beacon": str(folder.identity), "about": "The memory files of one Beacon; keep this."}
    try:
        with temp.open("x") as file:
            file.write(json.dumps(told) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _put_unless_there(temp, root / MARK)
    finally:
        temp.unlink(missing_ok=True)
