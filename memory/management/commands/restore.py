"""`manage.py restore FILE`: replace what Beacon holds with a backup."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.statistics import analyze_changed
from beacon_site.embedded import places
from beacon_site.embedded.places import BY_HAND
from beacon_site.launcher import backups
from beacon_site.launcher.backups import Backup, BackupError
from memory.services import topic_memory
from memory.services.files import mirror_disk

CONFIRM = "replace"  # what a person types to confirm
DISCONNECT_SECONDS = 2  # Postgres lists connections for a moment after they were closed
OTHER_CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
       AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Command(BaseCommand):
    """Restore a backup completely, or change nothing.  Beacon must be stopped."""

    help = "Replace everything in Beacon with a backup. Stop Beacon first."
    requires_system_checks = ()  # the database may be empty, or of another version

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the backup")
        parser.add_argument(
            "--check", action="store_true", help="check the file without changing anything"
        )
        parser.add_argument(
            "--test",
            action="store_true",
            help="restore into a scratch database, compare every table, and delete that database. Beacon can keep running",
        )
        parser.add_argument("--replace", action="store_true", help="replace the existing data")
        parser.add_argument("--yes", action="store_true", help="don’t ask before replacing data")
        parser.add_argument(
            "--other-key",
            action="store_true",
            help="accept a backup that wasn’t signed with this SECRET_KEY. Use it only if you trust the backup’s origin",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Check the backup and the database, then restore."""
        file: Path = options["file"]
        if not file.is_file():
            raise CommandError(_("There is no file %(file)s.") % {"file": file})
        try:
            backup = backups.read(file)
            self._describe(backup)
            known = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
            _check_version(backup, known)
            if options["check"]:
                self.stdout.write(_("The file is complete. Nothing was changed."))
                return
            _check_origin(backup, other_key=options["other_key"])
            if options["test"]:
                self._test(backup)
                return
            self._check_database(replace=options["replace"], yes=options["yes"])
            with _beacon_stopped():
                backups.restore_database(backup)
        except BackupError as exc:
            raise CommandError(
                _("Nothing was restored or changed. %(why)s") % {"why": exc}
            ) from exc
        self._follow_up(backup, is_older=bool(known - {*backup.manifest.migrations}))
        self.stdout.write(_("Restored from %(file)s. You can start Beacon now.") % {"file": file})

    def _describe(self, backup: Backup) -> None:
        manifest = backup.manifest
        self.stdout.write(
            _("Backup created on %(created)s by Beacon %(version)s (accounts: %(accounts)d).")
            % {
                "created": f"{manifest.created_at:%Y-%m-%d %H:%M} UTC",
                "version": manifest.version,
                "accounts": manifest.accounts,
            }
        )
        if not backup.is_ours:
            self.stderr.write(
                _(
                    "The backup wasn’t signed with this SECRET_KEY, or it was changed afterward. Stored API keys, channel addresses and shared links work only with the SECRET_KEY of the instance that created the backup. That key is in the secret_key file of its data folder."
                )
            )

    def _test(self, backup: Backup) -> None:
        if different := backups.try_restore(backup):
            raise BackupError(
                _("Tables that differed after the test restore: %(names)s.")
                % {"names": ", ".join(different)}
            )
        tables = backup.manifest.tables
        self.stdout.write(
            _(
                "The backup was restored into a scratch database and compared. All %(tables)d tables match (%(rows)s rows). The scratch database was deleted, and nothing else was changed."
            )
            % {"tables": len(tables), "rows": f"{sum(table.rows for table in tables.values()):,}"}
        )

    def _check_database(self, *, replace: bool, yes: bool) -> None:
        """Raise CommandError unless the database is unused, and empty or may be replaced."""
        accounts = _existing_accounts()
        if accounts is not None and is_in_use():
            raise CommandError(
                _(
                    "The database is in use, so nothing was restored. Stop Beacon (%(make)s down, or its services) and anything else that uses the database, then try again."
                )
                % BY_HAND
            )
        if not accounts:
            return
        holds = ngettext(
            "This Beacon instance has %(n)d account with data.",
            "This Beacon instance has %(n)d accounts with data.",
            accounts,
        ) % {"n": accounts}
        if not replace:
            todo = _("Nothing was restored. Back up this data, then add --replace to replace it.")
            raise CommandError(f"{holds} {todo}")
        if yes:
            return
        self.stdout.write(_("%(holds)s All of this data will be deleted.") % {"holds": holds})
        if not sys.stdin.isatty():
            raise CommandError(_("Nothing was restored. Add --yes to confirm in a script."))
        if input(_("Type %(word)s to confirm: ") % {"word": CONFIRM}).strip() != CONFIRM:
            raise CommandError(_("That doesn’t match. Nothing was restored."))

    def _follow_up(self, backup: Backup, *, is_older: bool) -> None:
        """Update what depends on the database: files on disk, migrations, vectors, and Redis."""
        folder = mirror_disk.folder()
        if message := move_aside(folder):
            self.stderr.write(message)
        try:
            backups.unpack_files(backup, folder)
        except OSError as exc:
            self.stderr.write(
                _("The files with rejected edits couldn’t be written to %(folder)s: %(why)s.")
                % {"folder": folder, "why": exc.strerror or exc}
            )
        try:
            if is_older:
                call_command("migrate", interactive=False, verbosity=0)
                self.stdout.write(
                    _(
                        "The backup was created by an older version of Beacon, and its data has been updated to this version."
                    )
                )
            call_command("vectors", stdout=io.StringIO())
            topic_memory.renew_all()
            analyze_changed()
        except DatabaseError as exc:
            raise CommandError(
                _(
                    "The backup was restored, but couldn’t be brought up to date: %(why)s. Start the Beacon version that created it, or fix the cause and run “%(manage)s migrate”."
                )
                % {"why": str(exc).strip(), **BY_HAND}
            ) from exc


def _check_version(backup: Backup, known: set[str]) -> None:
    if unknown := sorted({*backup.manifest.migrations} - known):
        raise CommandError(
            _(
                "A newer version of Beacon (%(version)s) created this backup, so nothing was restored. Restore it with that version or a later one. Unknown migrations: %(names)s."
            )
            % {
                "version": backup.manifest.version,
                "names": ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else ""),
            }
        )


def _check_origin(backup: Backup, *, other_key: bool) -> None:
    if not backup.is_ours and not other_key:
        raise CommandError(
            _(
                "Nothing was restored. A backup can contain SQL that your database would run, so add --other-key only if you trust the backup’s source."
            )
        )


def _existing_accounts() -> int | None:
    """Return the number of accounts, or None for an empty database.

    Raises BackupError if all tables belong to another program.
    """
    tables = connection.introspection.table_names()
    if get_user_model()._meta.db_table in tables:
        return get_user_model()._default_manager.count()
    if tables:
        raise BackupError(
            _(
                "The database has tables that aren’t Beacon’s (%(names)s). Set DATABASE_URL to a database that only Beacon uses."
            )
            % {"names": ", ".join(tables[:5])}
        )
    return None


def is_in_use() -> bool:
    """Whether another client, such as a process of Beacon, stays connected to the database."""
    ends = time.monotonic() + DISCONNECT_SECONDS
    while True:
        with connection.cursor() as cursor:
            cursor.execute(OTHER_CONNECTIONS)
            if not cursor.fetchone()[0]:
                return False
        if time.monotonic() > ends:
            return True
        time.sleep(0.1)


@contextmanager
def _beacon_stopped() -> Iterator[None]:
    """Keep `make up` from starting on this data folder.  Raises CommandError if Beacon runs."""
    lock = Path(settings.DATA_DIR) / "up.lock"
    if not lock.parent.is_dir():
        yield
        return
    if not places.take(lock, wait=False):
        raise CommandError(
            _(
                "Beacon is using this data folder, or another restore is in progress. Nothing was restored. Stop Beacon first (%(make)s down)."
            )
            % BY_HAND
        )
    try:
        yield
    finally:
        places.release(lock)


def move_aside(folder: Path) -> str:
    """Move the folder of the memory files away: files newer than the backup would count as edits.

    Returns a message for the person.
    """
    if not (folder / ".beacon").exists():
        return ""
    aside = folder.with_name(f"{folder.name}-before-restore-{datetime.now():%Y%m%d-%H%M%S}")
    try:
        folder.rename(aside)
    except OSError as exc:
        return _(
            "%(folder)s couldn’t be moved (%(why)s). Empty it before you start Beacon. Otherwise, files in it that are newer than the backup will be saved as edits."
        ) % {"folder": folder, "why": exc.strerror}
    return _("The memory files on disk were moved to %(folder)s.") % {"folder": aside}
