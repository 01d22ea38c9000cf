"""Automatic backups: write, test, copy to the storage, and delete old ones.

Data flow: the tick or a person stores a waiting `BackupFile` -> a worker claims it, writes the file
beside the others, reads it back, restores it into a scratch database, and copies it to the bucket if
there is one -> the row gets its size and result -> automatic backups beyond the number to keep are
deleted.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import structlog
from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, storages
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.launcher import backups
from beacon_site.launcher.backups import BackupError
from memory.models import Activity, BackupFile, BackupPlan, User
from memory.models.actors import SYSTEM
from memory.models.archive import STORAGE
from memory.services.files import mirror, mirror_disk

logger = structlog.get_logger(__name__)

KEPT_FAILURES = timedelta(days=30)


def write(file: Path) -> backups.Manifest:
    """Write all accounts and all data to a file.  Raises BackupError."""
    mirror.catch_up()  # include edits on disk of the last seconds
    return backups.write(file, mirror_disk.refused_edits(mirror_disk.folder()))


def write_by_hand(file: Path) -> None:
    """Write a backup to a file anywhere, and remember when.  Raises BackupError."""
    write(file)
    BackupPlan.objects.update_or_create(id=1, defaults={"written_at": timezone.now()})


def folder() -> Path:
    """Return where backups are written, also those that are then copied to a bucket."""
    return Path(settings.BEACON_BACKUP_DIR or Path(settings.DATA_DIR) / "backups")


def is_in_bucket() -> bool:
    return not isinstance(storages[STORAGE], FileSystemStorage)


# --- asking ---


def ask(by: User | None = None) -> tuple[BackupFile, bool]:
    """Start a backup, or return the unfinished one; also whether it is new."""
    with transaction.atomic():
        lock_until_commit(LockId.BACKUP)
        if waiting := BackupFile.objects.unfinished().first():
            return waiting, False
        now = timezone.now().astimezone(UTC)
        name = f"beacon-{now:%Y-%m-%d-%H%M%S}-{token_hex(2)}.backup"
        row = BackupFile(name=name, requested_by=by, created=now)
        row.save()
        row.wake_after_commit()
    return row, True


def ask_if_due() -> BackupFile | None:
    """Start the backup that the plan asks for, if it hasn't been made since."""
    plan = BackupPlan.current()
    due = plan.last_due(timezone.now().astimezone(UTC))
    if due is None or due < plan.changed_at:
        return None
    if BackupFile.objects.filter(requested_by=None, created__gte=due).exists():
        return None
    row, _is_new = ask()
    return row


# --- a worker ---


def perform(pk: int) -> None:
    """Make one backup; safe to deliver twice."""
    row: BackupFile | None = BackupFile.objects.claim(pk)
    if row is None:
        return
    plan = BackupPlan.current()
    file = folder() / row.name
    with row.heartbeat():
        if (problem := _make(row, file, tests_restore=plan.tests_restore)) is None:
            row.end(BackupFile.State.DONE, finished_at=Now())
            _delete_old(plan.keep)
            return
    code, detail = problem
    logger.warning("backup failed", name=row.name, problem=code, detail=detail)
    if row.may_retry and code != BackupFile.Problem.DIFFERS:
        row.retry_later(problem=code, detail=detail)
    elif row.fail(code, detail):
        Activity.log(None, SYSTEM, "backup-failed", warning=True, why=code, said=detail[:500])


def _make(row: BackupFile, file: Path, *, tests_restore: bool) -> tuple[str, str] | None:
    """Write, check and store a backup.  Return the problem and its detail, or None."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        manifest = write(file)
        checked = backups.read(file)
    except (BackupError, OSError) as exc:
        return BackupFile.Problem.NOT_WRITTEN, str(exc)
    row.put(
        size=file.stat().st_size,
        rows=sum(table.rows for table in manifest.tables.values()),
        problem="",
        detail="",
    )
    if tests_restore:
        try:
            different = backups.try_restore(checked)
        except BackupError as exc:  # such as a database user who can't create databases
            row.put(problem=BackupFile.Problem.NOT_RESTORED, detail=str(exc)[:2_000])
        else:
            if different:
                return BackupFile.Problem.DIFFERS, ", ".join(different)
            row.put(is_tested=True)
    if is_in_bucket():
        try:
            with file.open("rb") as content:
                storages[STORAGE].save(row.name, File(content))
        except OSError as exc:
            return BackupFile.Problem.NOT_COPIED, str(exc)
        file.unlink()
    return None


def _delete_old(keep: int) -> None:
    rows = BackupFile.objects.filter(requested_by=None)
    for row in rows.filter(state=BackupFile.State.DONE)[keep:]:
        try:
            row.discard()
        except OSError as exc:  # the next backup tries again
            logger.warning("old backup not deleted", name=row.name, error=str(exc))
    forgotten = datetime.now(UTC) - KEPT_FAILURES
    for row in rows.filter(state=BackupFile.State.FAILED, created__lt=forgotten):
        with contextlib.suppress(OSError):
            row.discard()


# --- pages ---


def total_size() -> int:
    done = BackupFile.objects.filter(state=BackupFile.State.DONE)
    return int(done.aggregate(size=Sum("size"))["size"] or 0)
