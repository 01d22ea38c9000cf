"""Exports and imports: requested by a person, stored as rows, run immediately or by a worker.

`ask_export` or `upload` creates a row with a file in the data folder, and `perform` claims and runs
it.  An export ends as a file to download.  An import is previewed first, and stored in one transaction
once its owner confirms.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.core.cache import cache
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from beacon_site.db.leased_jobs import JobLost
from beacon_site.text.cleaning import clean, one_line
from memory.accounts.archive import app_exports, exporter, foreign_formats, importer
from memory.accounts.archive.app_exports import App
from memory.accounts.archive.foreign_formats import Choice, Shape
from memory.accounts.archive.importer import TakingIn, summed
from memory.accounts.archive.kinds import in_order
from memory.accounts.archive.zips import LARGEST_UPLOAD, ImportRejected, opened
from memory.models import Activity, Archive, User
from memory.models.archive import KEPT

logger = structlog.get_logger(__name__)

FEW_ROWS = 2_000  # rows; a smaller export runs while the person waits
SMALL_UPLOAD = 256 * 1024  # bytes; the same for an import


class Busy(ImportRejected):
    """Another export or import of the same person is running."""


# --- requests -------------------------------------------------------------------------------------


def ask_export(owner: User) -> Archive:
    """Create the row of an export; the caller starts it.  Raises Busy."""
    _check_free(owner)
    size = exporter.total(owner)
    name = f"beacon-{owner.get_username()}-{timezone.localtime():%Y-%m-%d}.zip"
    row: Archive = Archive.objects.create(
        owner=owner, way=Archive.Way.EXPORT, name=name[-200:], options={"rows": size}
    )
    Activity.log(owner, owner.actor, "export-asked", subject=row, rows=size)
    return row


def upload(owner: User, file: UploadedFile[bytes]) -> Archive:
    """Store an uploaded file and create its import.  Raises ImportRejected or Busy."""
    _check_free(owner)
    if (file.size or 0) > LARGEST_UPLOAD:
        raise ImportRejected(
            _("The file is %(have)d MiB, but the limit is %(most)d MiB. Import it in parts.")
            % {"have": (file.size or 0) // 1024**2, "most": LARGEST_UPLOAD // 1024**2}
        )
    if not file.size:
        raise ImportRejected(_("The file is empty."))
    name = one_line(clean(str(file.name))[0])[-120:] or "import"
    row: Archive = Archive(owner=owner, way=Archive.Way.IMPORT, name=name, size=file.size)
    row.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with row.file.open("wb") as copy:
            row.file.chmod(0o600)
            copy.writelines(file.chunks())
        row.options = _first_options(row)
        row.save(force_insert=True)
    except BaseException:
        row.file.unlink(missing_ok=True)
        raise
    return row


def _first_options(row: Archive) -> dict[str, Any]:
    """Return an import's default options: its format, and whether it seems to be the person's own."""
    if app := app_exports.app_of(row.file):
        return {
            "shape": Shape.APP.value,
            "app": app.value,
            "memories": True,
            "documents": True,
            "private": True,
        }
    shape = foreign_formats.shape_of(row.file, row.name)
    options: dict[str, Any] = {"shape": shape.value, **asdict(Choice())}
    if shape == Shape.BEACON:
        with opened(row.file) as archive:
            manifest = importer.manifest_of(archive)
        account = manifest.get("account")
        username = str(account.get("username", "")) if isinstance(account, dict) else ""
        options |= {
            "own": username.casefold() == row.owner.get_username().casefold(),
            "account": one_line(clean(username)[0])[:150],
            "made_at": one_line(clean(str(manifest.get("made_at", "")))[0])[:40],
        }
    return options


def _check_free(owner: User) -> None:
    if Archive.objects.of(owner).unfinished().exists():
        raise Busy(_("Another export or import is running. Try again when it’s finished."))


def choose(row: Archive, **options: Any) -> bool:
    """Change the options and preview the import again; False if it is too late."""
    return _put_back(row, options=row.options | options, is_confirmed=False)


def confirm(row: Archive) -> bool:
    """Confirm an import after its preview; False if it isn't waiting for that."""
    return _put_back(row, is_confirmed=True)


def _put_back(row: Archive, **fields: Any) -> bool:
    checked = Archive.objects.filter(pk=row.pk, way=Archive.Way.IMPORT, state=Archive.State.CHECKED)
    fields |= Archive.waiting_again() | {"crashes": 0}
    done = checked.update(started_at=None, problem="", **fields)
    row.refresh_from_db()
    return bool(done)


def is_small(row: Archive) -> bool:
    """Whether it runs while the person waits."""
    if row.way == Archive.Way.EXPORT:
        return int(row.options.get("rows", 0)) <= FEW_ROWS
    return row.size <= SMALL_UPLOAD


# --- running ---------------------------------------------------------------------------------------


def perform(pk: Any) -> Archive | None:
    """Run the export or import unless another process does; return the row."""
    row: Archive | None = Archive.objects.claim(pk)
    if row is None:
        return None
    try:
        with row.heartbeat():
            _perform(row)
    except ImportRejected as exc:
        row.fail(str(exc))
    except FileNotFoundError:
        row.fail(_("The file no longer exists. Upload it again."))
    except JobLost:
        logger.warning("archive taken over by another worker", archive=str(row.pk))
    except (Exception, SoftTimeLimitExceeded) as exc:
        why = _("It stopped because of an internal error (%(kind)s). Nothing was saved.")
        row.fail(why % {"kind": type(exc).__name__})
        raise
    row.refresh_from_db()
    logger.info("archive ended", archive=str(row.pk), way=row.way, state=row.state)
    return row


def _perform(row: Archive) -> None:
    """Write an export, or preview or store an import. Raises JobLost, and then nothing is stored."""
    with transaction.atomic() if row.is_confirmed else nullcontext():
        if row.is_import:
            result = look(row, only_look=not row.is_confirmed)
            state = Archive.State.DONE if row.is_confirmed else Archive.State.CHECKED
        else:
            counts = exporter.write(
                row.owner,
                row.file,
                tell=_teller(row),
                attempt=row.attempt,
                check=partial(_check_held, row),
            )
            result = {"counts": counts}
            state, row.size = Archive.State.DONE, row.file.stat().st_size
        if not row.end(state, result=result, size=row.size, finished_at=Now()):
            raise JobLost(str(row.pk))
    if row.is_confirmed:
        row.file.unlink(missing_ok=True)


def _check_held(row: Archive) -> None:
    if not row.renew():
        raise JobLost(str(row.pk))


def look(row: Archive, *, only_look: bool) -> dict[str, Any]:
    """Import a file, or only preview the import.  Raises ImportRejected."""
    shape, own = Shape(row.options["shape"]), bool(row.options.get("own"))
    taking = TakingIn(row.owner, row.owner.actor, row.name, own, tell=_teller(row))
    if shape == Shape.BEACON:
        counts = importer.take_in(row.file, taking, only_look=only_look)
        rows = {name: asdict(counted) for name, counted in counts.items()}
        return {"kinds": rows, "sums": dict(summed(counts))}
    if shape == Shape.APP:
        app = App(row.options["app"])
        wanted = {name: bool(row.options[name]) for name in ("memories", "documents", "private")}
        items = app_exports.items(row.file, app)
        return app_exports.take_in(items, taking, app, **wanted, only_look=only_look).as_json()
    given = Choice(**{name: row.options[name] for name in ("bullets", "kind", "category")})
    found = foreign_formats.entries(row.file, row.name, shape, given)
    return foreign_formats.take_in(found, taking, only_look=only_look).as_json()


# --- progress and cleanup -------------------------------------------------------------------------


def _teller(row: Archive) -> Any:
    """Return a function that stores the progress outside the database, where the page can read it
    before the transaction ends.
    """

    def tell(done: int) -> None:
        try:
            cache.set(f"archive:{row.pk}", done, 3600)
        except (RedisError, OSError):
            logger.info("progress not recorded", archive=str(row.pk))

    return tell


def progress_count(row: Archive) -> int | None:
    """Return the number of rows done, or None if unknown."""
    try:
        found = cache.get(f"archive:{row.pk}")
    except (RedisError, OSError):
        return None
    return found if isinstance(found, int) else None


def forget_old() -> int:
    """Delete what is older than a week, with its file; return how many."""
    old = Archive.objects.filter(created__lt=timezone.now() - KEPT)
    rows = [row for row in old[:200] if not row.is_unfinished]
    for row in rows:
        row.discard()
    return len(rows)


def forget_owner(owner: User) -> None:
    """Delete the files of an account that is being deleted, once it is."""
    for row in Archive.objects.filter(owner=owner):
        transaction.on_commit(partial(row.file.unlink, missing_ok=True))


def labels() -> dict[str, str]:
    """Return the label of each kind of record."""
    return {kind.name: str(kind.label) for kind in in_order()}
