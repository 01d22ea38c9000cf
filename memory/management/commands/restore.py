"""`manage.py restore FILE`: what `backup` wrote takes the place of what is there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site import backups, dumps
from beacon_site.backups import Manifest
from beacon_site.dumps import DumpFailed
from beacon_site.embedded import locks
from beacon_site.installed import BY_HAND
from memory.files import mirror_left
from memory.topics import publishing

WORD = "replace"  # what is typed to let go of what is there
TRUST = "trust"  # and to let a file of unknown origin be a program for the database


class Command(BaseCommand):
    """Bring a backup back, all of it or nothing; Beacon must not run meanwhile."""

    help = "Put what backup wrote in the place of all that Beacon holds; stop Beacon first."
    requires_system_checks = ()  # the database may be empty, or of another version

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file, and how sure the caller is."""
        parser.add_argument("file", type=Path, help="what backup wrote")
        parser.add_argument("--check", action="store_true", help="read the file, change nothing")
        parser.add_argument("--replace", action="store_true", help="let go of what is there now")
        parser.add_argument("--yes", action="store_true", help="do not ask before that")
        parser.add_argument(
            "--other-key",
            action="store_true",
            help="take a backup made under another SECRET_KEY: you know where it comes from",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Bring the file back."""
        file: Path = options["file"]
        if not file.is_file():
            raise CommandError(_("There is no file %(file)s.") % {"file": file})
        known = [f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations]
        try:
            manifest = backups.read(file)
            self._tell(manifest)
            _check_version(manifest, known)
            if options["check"]:
                self.stdout.write(_("The file is whole. Nothing was changed."))
                return
            self._check_origin(manifest, other_key=options["other_key"])
            self._check_place(replace=options["replace"], yes=options["yes"])
            with _alone():
                connections.close_all()  # so that no table is held while it is replaced
                backups.bring_back(settings.DATABASES["default"], file, manifest)
        except DumpFailed as exc:
            raise CommandError(
                _("Nothing was restored, and what was there stays. %(why)s") % {"why": exc}
            ) from exc
        self._follow_up(file, manifest, known)
        self.stdout.write(_("Restored from %(file)s. Now start Beacon.") % {"file": file})

    def _tell(self, manifest: Manifest) -> None:
        told = {
            "when": manifest.made_at,
            "rows": f"{manifest.rows:,}",
            "tables": len(manifest.tables),
            "people": manifest.tables.get("memory_user", dumps.Counted(0, "")).rows,
        }
        said = _("A backup of %(when)s: %(rows)s rows of %(tables)d tables, accounts: %(people)d.")
        self.stdout.write(said % told)
        if not manifest.is_of_this_key:
            self.stderr.write(
                _(
                    "It was made under another SECRET_KEY: keys of services, addresses of channels "
                    "and shared links in it cannot be read until that key is put back (the file "
                    "secret_key of that data folder, or the variable), nor can it be told whether "
                    "somebody changed it."
                )
            )

    def _check_origin(self, manifest: Manifest, *, other_key: bool) -> None:
        """Raise CommandError unless it is sealed, or somebody stands for it in so many words."""
        if manifest.is_of_this_key or other_key:
            return
        said = _("What somebody else wrote into it would be carried out on your database.")
        if not sys.stdin.isatty():
            todo = _("Nothing was restored. Add --other-key if you know where it comes from.")
            raise CommandError(f"{said} {todo}")
        self.stdout.write(said)
        asked = _("Type %(word)s if you know where it comes from: ") % {"word": TRUST}
        if input(asked).strip() != TRUST:
            raise CommandError(_("Nothing was restored."))

    def _check_place(self, *, replace: bool, yes: bool) -> None:
        """Raise CommandError unless the database is free, and empty or given up in so many words."""
        with dumps.opened(settings.DATABASES["default"]) as raw:
            people = backups.accounts(raw)
        if people is not None and dumps.is_in_use():
            raise CommandError(
                _(
                    "Nothing was restored: the database is in use. Stop Beacon first "
                    "(%(make)s down, or its services), or wait until another restore or another "
                    "program has ended; then restore, then start it again."
                )
                % BY_HAND
            )
        if not people:
            return
        here = ngettext(
            "this Beacon holds %(n)d account with all that it remembers",
            "this Beacon holds %(n)d accounts with all that they remember",
            people,
        ) % {"n": people}
        if not replace:
            raise CommandError(
                _(
                    "Nothing was restored: %(here)s. With --replace the backup takes its place; "
                    "make a backup of what is here first."
                )
                % {"here": here}
            )
        if yes:
            return
        self.stdout.write(_("As of now %(here)s. All of it goes.") % {"here": here})
        if not sys.stdin.isatty():
            raise CommandError(_("Nothing was restored: add --yes where nobody can be asked."))
        if input(_("Type %(word)s to go on: ") % {"word": WORD}).strip() != WORD:
            raise CommandError(_("Nothing was restored."))

    def _follow_up(self, file: Path, manifest: Manifest, known: list[str]) -> None:
        """Bring along what follows the database: the disk, its version, vectors, copies in Redis."""
        copies = mirror_left.folder()
        if told := put_aside(copies):
            self.stderr.write(told)
        try:
            if manifest.files:
                backups.unpack(file, manifest, copies)
        except OSError as exc:
            said = _("Edits on disk that had been refused were not written to %(folder)s: %(why)s.")
            self.stderr.write(said % {"folder": copies, "why": exc.strerror or exc})
        try:
            if backups.older(manifest, known):
                call_command("migrate", interactive=False, verbosity=0)
                self.stdout.write(_("It was made by an older version and was brought up to date."))
            call_command("vectors", stdout=io.StringIO())
            publishing.renew_all()
        except DatabaseError as exc:
            raise CommandError(
                _(
                    "The backup was restored, but could not be brought up to date: %(why)s. Start "
                    "Beacon with the version that made it, or mend that and run “%(manage)s migrate”."
                )
                % {"why": str(exc).strip(), **BY_HAND}
            ) from exc


def _check_version(manifest: Manifest, known: list[str]) -> None:
    if newer := backups.newer(manifest, known):
        told = {"names": ", ".join(newer[:3]) + (" …" if len(newer) > 3 else "")}
        raise CommandError(
            _(
                "Nothing was restored: the backup was made by a newer version of Beacon (this one "
                "does not know %(names)s). Restore it with that version, or a later one."
            )
            % told
        )


@contextmanager
def _alone() -> Iterator[None]:
    """Keep `make up` from starting on this data folder meanwhile.  Raises CommandError if it runs."""
    lock = Path(settings.DATA_DIR) / "up.lock"
    if not lock.parent.is_dir():
        yield
        return
    if not locks.take(lock, wait=False):
        said = _(
            "Nothing was restored: Beacon runs on this data folder, or another restore is under "
            "way. Stop Beacon first (%(make)s down), or wait for the other restore to end."
        )
        raise CommandError(said % BY_HAND)
    try:
        yield
    finally:
        locks.release(lock)


def put_aside(copies: Path) -> str:
    """Move the folder of the memory files away, since what is newer there would count as edits.

    Returns what is to be told of it.
    """
    if not (copies / ".beacon").exists():
        return ""
    aside = copies.with_name(f"{copies.name}-before-restore-{datetime.now():%Y%m%d-%H%M%S}")
    try:
        copies.rename(aside)
    except OSError as exc:
        told = _(
            "%(folder)s could not be moved away (%(why)s). Empty it before you start Beacon: "
            "files there that are newer than the backup would be taken in as edits."
        )
        return told % {"folder": copies, "why": exc.strerror}
    return _("The memory files on disk were moved to %(folder)s.") % {"folder": aside}
