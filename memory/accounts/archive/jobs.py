"""Exports and imports: requested by a person, stored as rows, run immediately or by a worker.

`ask_export` or `upload` creates a row with a file in the data folder, and `perform` claims and runs
it.  An export ends as a file to download.  An import is previewed first, and stored in one transaction
once its owner confirms.  If the owner wants that, the web pages of imported bookmarks are then
fetched into their documents, as a job of its own that can be stopped and continued.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.core.cache import cache
from django.core.files.uploadedfile import UploadedFile
from django.db import InterfaceError, OperationalError, transaction
from django.db.models.functions import Now
from django.utils import timezone, translation
from redis.exceptions import RedisError

from beacon_site.db.leased_jobs import JobLost
from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.net.rate_limit import MinInterval
from beacon_site.text.canonical_urls import host_of
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import gettext as _
from memory.accounts.archive import app_exports, exporter, foreign_formats, importer
from memory.accounts.archive.app_exports import App
from memory.accounts.archive.foreign_formats import Choice, Shape
from memory.accounts.archive.importer import ImportContext, summed
from memory.accounts.archive.kinds import in_order
from memory.accounts.archive.zips import MAX_UPLOAD_BYTES, ImportRejected, open_zip
from memory.models import Activity, Archive, LibraryDocument, User
from memory.models.actors import Actor
from memory.models.archive import KEPT
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.library import page_of
from memory.services.library import documents as library
from memory.services.library.reading import DocumentText

logger = structlog.get_logger(__name__)

MAX_BYTES = 100 * 1024**2  # of the text of an import's web pages
SLICE_SECONDS = 120.0  # then other jobs of the queue have their turn
TURN = timedelta(seconds=30)  # until an import's pages are tried again, while another's are fetched
HOST_SECONDS = 2.0  # between two pages of one site
MAX_SILENT = 3  # pages in a row that a site fails to send
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
        owner=owner, kind=Archive.Kind.EXPORT, name=name[-200:], options={"rows": size}
    )
    Activity.log(owner, owner.actor, "export-requested", subject=row, rows=size)
    return row


def upload(owner: User, file: UploadedFile[bytes]) -> Archive:
    """Store an uploaded file and create its import.  Raises ImportRejected or Busy."""
    _check_free(owner)
    if (file.size or 0) > MAX_UPLOAD_BYTES:
        raise ImportRejected(
            _("The file is %(have)d MiB, but the limit is %(most)d MiB. Import it in parts.")
            % {"have": (file.size or 0) // 1024**2, "most": MAX_UPLOAD_BYTES // 1024**2}
        )
    if not file.size:
        raise ImportRejected(_("The file is empty."))
    name = one_line(clean(str(file.name))[0])[-120:] or "import"
    row: Archive = Archive(owner=owner, kind=Archive.Kind.IMPORT, name=name, size=file.size)
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
        fields = {"memories": True, "documents": True, "private": True, "pages": False}
        return {"shape": Shape.APP.value, "app": app.value, **fields}
    shape = foreign_formats.shape_of(row.file, row.name)
    options: dict[str, Any] = {"shape": shape.value, **asdict(Choice())}
    if shape == Shape.BEACON:
        with open_zip(row.file) as archive:
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
    running = Archive.objects.for_user(owner).unfinished().exclude(kind=Archive.Kind.PAGES)
    if running.exists():
        raise Busy(_("Another export or import is running. Try again when it’s finished."))


def choose(row: Archive, **options: Any) -> bool:
    """Change the options and preview the import again; False if it is too late."""
    return _requeue(row, options=row.options | options, is_confirmed=False)


def confirm(row: Archive, **options: Any) -> bool:
    """Confirm an import after its preview; False if it isn't waiting for that."""
    return _requeue(row, options=row.options | options, is_confirmed=True)


def _requeue(row: Archive, **fields: Any) -> bool:
    checked = Archive.objects.filter(
        pk=row.pk, kind=Archive.Kind.IMPORT, state=Archive.State.CHECKED
    )
    fields |= Archive.requeue_fields() | {"crashes": 0}
    done = checked.update(started_at=None, problem="", **fields)
    row.refresh_from_db()
    return bool(done)


def _is_small(row: Archive) -> bool:
    if row.kind == Archive.Kind.EXPORT:
        return int(row.options.get("rows", 0)) <= FEW_ROWS
    return row.size <= SMALL_UPLOAD


# --- running ---------------------------------------------------------------------------------------


def start(row: Archive) -> None:
    """Do a small job at once. Leave a large one to a worker, and the page waits for it."""
    if _is_small(row):
        perform(row.pk)
        row.refresh_from_db()
    else:
        row.wake()


def perform(pk: Any) -> Archive | None:
    """Run the export or import unless another process does; return the row."""
    row: Archive | None = Archive.objects.claim(pk)
    if row is None:
        return None
    try:
        with row.heartbeat():
            if row.kind == Archive.Kind.PAGES:
                with translation.override(row.owner.page_language or "en"):
                    _fetch_pages(row)
            else:
                _perform(row)
    except ImportRejected as exc:
        row.fail(str(exc))
    except FileNotFoundError:
        row.fail(_("The file no longer exists. Upload it again."))
    except JobLost:
        logger.warning("archive taken over by another worker", archive=str(row.pk))
    except SoftTimeLimitExceeded:
        row.fail(
            _(
                "The job exceeded the time limit, and nothing was saved. Try again when the server is less busy."
            )
        )
        raise
    except Exception as exc:  # whatever fails, the job must end with a reason
        why = _("The job stopped because of an internal error (%(kind)s). Nothing was saved.")
        if row.kind == Archive.Kind.PAGES:
            why = _(
                "The job stopped because of an internal error (%(kind)s). Fetched pages are kept."
            )
            if isinstance(exc, OperationalError | InterfaceError):
                raise  # the lease expires, and then a worker continues
        row.fail(why % {"kind": type(exc).__name__})
        raise
    row.refresh_from_db()
    logger.info("archive ended", archive=str(row.pk), kind=row.kind, state=row.state)
    return row


def _perform(row: Archive) -> None:
    """Write an export, or preview or store an import. Raises JobLost, and then nothing is stored."""
    with transaction.atomic() if row.is_confirmed else nullcontext():
        if row.is_import:
            result = import_or_preview(row, only_look=not row.is_confirmed)
            keys = result.pop("documents_of_pages", [])
            if row.is_confirmed and row.options.get("pages") and keys:
                result["fetching"] = str(_ask_pages(row, keys).pk)
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


def import_or_preview(row: Archive, *, only_look: bool) -> dict[str, Any]:
    """Import a file, or only preview the import.  Raises ImportRejected."""
    shape, own = Shape(row.options["shape"]), bool(row.options.get("own"))
    taking = ImportContext(row.owner, row.owner.actor, row.name, own, tell=_teller(row))
    if shape == Shape.BEACON:
        counts = importer.import_archive(row.file, taking, only_look=only_look)
        rows = {name: asdict(counted) for name, counted in counts.items()}
        return {"kinds": rows, "sums": dict(summed(counts))}
    if shape == Shape.APP:
        app = App(row.options["app"])
        fields = {name: bool(row.options[name]) for name in ("memories", "documents", "private")}
        items = app_exports.items(row.file, app, row.name)
        return app_exports.import_app_export(
            items, taking, app, **fields, only_look=only_look
        ).as_json()
    given = Choice(**{name: row.options[name] for name in ("bullets", "kind", "category")})
    found = foreign_formats.entries(row.file, row.name, shape, given)
    return foreign_formats.import_entries(found, taking, only_look=only_look).as_json()


# --- pages of bookmarks ---------------------------------------------------------------------------


def _ask_pages(imported: Archive, keys: Sequence[str]) -> Archive:
    """Create the job that fetches the pages of an import's bookmarks."""
    urls = LibraryDocument.objects.filter(pk__in=keys).values_list("pk", "url")
    hosts, turns = {str(pk): host_of(url) for pk, url in urls}, Counter[str]()
    order = []
    for key in keys:  # the sites take turns, so that none is asked often
        turns[hosts[key]] += 1
        order.append((turns[hosts[key]], key))
    row: Archive = Archive.objects.create(
        owner=imported.owner,
        kind=Archive.Kind.PAGES,
        name=imported.name,
        options={
            "app": imported.options["app"],
            "documents": [key for _turn, key in sorted(order, key=itemgetter(0))],
        },
        result={"next": 0, "fetched": 0, "here": 0, "gone": 0, "bytes": 0, "failed": []},
    )
    row.wake_after_commit()
    return row


def _fetch_pages(row: Archive) -> None:
    """Fetch pages into their documents for SLICE_SECONDS, and leave the rest to the next worker.

    Each page is stored together with the progress, so a killed worker loses at most the page that
    it was fetching.  Raises JobLost if the owner has stopped it.
    """
    others = Archive.objects.for_user(row.owner).filter(kind=Archive.Kind.PAGES).unfinished()
    if others.filter(created__lt=row.created).exists():
        row.release(not_before=Now() + TURN, started_at=None)
        return
    until, sites = time.monotonic() + SLICE_SECONDS, _Sites()
    stored = library.stored_pages(row.owner)
    while row.pages_left:
        if row.result["bytes"] >= MAX_BYTES:
            why = _("The pages contain too much text. The limit is %(most)d MiB.")
            row.end(
                Archive.State.STOPPED,
                problem=why % {"most": MAX_BYTES // 1024**2},
                finished_at=Now(),
            )
            return
        if time.monotonic() > until:
            if row.release():
                row.wake()
            return
        _fetch_next(row, stored, sites)
    row.end(Archive.State.DONE, finished_at=Now())


def _fetch_next(row: Archive, stored: set[str], sites: _Sites) -> None:
    key = row.options["documents"][row.result["next"]]
    document = LibraryDocument.objects.for_user(row.owner).live().filter(pk=key, path="").first()
    name = page_of(document.url) if document else ""
    page, why = None, ""
    if document and name not in stored:
        try:
            page = sites.read(document.url)
        except (ProviderError, InvalidValue) as exc:
            why = str(exc)
    with transaction.atomic():
        _check_held(row)  # locked until the page is stored, so Stop comes before or after it
        if document and page:
            app = App(row.options["app"])
            try:
                with transaction.atomic():
                    library.add_page(
                        document, page, by=Actor("import", app.value), source=app.source
                    )
            except MemoryRefused as exc:
                why = str(exc)
        result = row.result | {"next": row.result["next"] + 1}
        if why:
            result["failed"] = [*result["failed"], {"document": key, "why": shorten(why, 400)}]
        elif page:
            result |= {"fetched": result["fetched"] + 1, "bytes": result["bytes"] + page.size}
        else:
            counted = "here" if document else "gone"
            result[counted] += 1
        row.put(result=result, crashes=0)
    if page and not why:
        stored.add(name)


class _Sites:
    """Reads pages politely: with a pause between two of one site, and never more from a silent one."""

    def __init__(self) -> None:
        self._paces: dict[str, MinInterval] = {}
        self._silent: Counter[str] = Counter()

    def read(self, url: str) -> DocumentText:
        """Return a page's text.  Raises ProviderError or InvalidValue."""
        host = host_of(url)
        if self._silent[host] >= MAX_SILENT:
            why = _("Beacon didn’t try, because “%(host)s” failed to respond %(n)d times in a row.")
            raise ProviderUnavailable(why % {"host": host, "n": MAX_SILENT})
        pace = self._paces.setdefault(host, MinInterval(host, host, seconds=HOST_SECONDS))
        try:
            with pace.turn(url):
                page = library.read_page(url)
        except ProviderUnavailable:
            self._silent[host] += 1
            raise
        except ProviderError:
            self._silent[host] = 0
            raise
        self._silent[host] = 0
        return page


def stop_pages(row: Archive) -> bool:
    """Stop fetching at once; False if it has ended. What was fetched is kept."""
    running = Archive.objects.filter(pk=row.pk, kind=Archive.Kind.PAGES).unfinished()
    return bool(
        running.update(state=Archive.State.STOPPED, lease_until=None, finished_at=Now(), problem="")
    )


def retry_pages(row: Archive, only: str) -> bool:
    """Fetch the pages that failed, or `only` one of them, and those left; False if there are none."""
    with transaction.atomic():
        mine = Archive.objects.select_for_update().filter(pk=row.pk, kind=Archive.Kind.PAGES)
        held = mine.first()
        if held is None or held.is_unfinished:
            return False
        keys, done = held.options["documents"], held.result["next"]
        failed = [one["document"] for one in held.result["failed"]]
        again = [key for key in failed if key == only] if only else failed
        left = keys[done:]
        if held.state == Archive.State.FAILED:  # the page at which it failed comes last
            left = left[1:] + left[:1]
        if not again and not left:
            return False
        kept = [key for key in keys[:done] if key not in again]
        others = [one for one in held.result["failed"] if one["document"] not in again]
        result = held.result | {"next": len(kept), "failed": others, "bytes": 0}
        Archive.objects.filter(pk=row.pk).update(
            **Archive.requeue_fields(),
            options=held.options | {"documents": [*kept, *again, *left]},
            result=result,
            problem="",
            crashes=0,
            started_at=None,
            finished_at=None,
        )
        row.wake_after_commit()
    return True


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
    return {kind.name: str(kind.label) for kind in in_order()}
