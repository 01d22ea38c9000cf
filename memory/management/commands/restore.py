"""`manage.py restore FILE`: what `backup` wrote takes the place of what is there."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.utils.translation import gettext as _

from beacon_site.dumps import DumpFailed, load, others
from beacon_site.embedded import EmbeddedError


class Command(BaseCommand):
    """Bring a backup back, all of it or nothing; Beacon must not run meanwhile."""

    help = "Put a file that backup wrote in the place of the whole database; stop Beacon first."
    requires_system_checks = ()  # the database may be empty, or of another version

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Bring the file back."""
        file: Path = options["file"]
        if not file.is_file():
            raise CommandError(_("There is no file %(file)s.") % {"file": file})
        if others():
            raise CommandError(
                _(
                    "Nothing was restored: the database is in use. Stop Beacon first "
                    "(make down, or its services), then restore, then start it again."
                )
            )
        connections.close_all()  # so that no table is held while it is replaced
        try:
            load(settings.DATABASES["default"], file)
        except (DumpFailed, EmbeddedError) as exc:
            raise CommandError(
                _("Nothing was restored, and what was there stays. %(why)s") % {"why": exc}
            ) from exc
        told = put_aside(Path(settings.BEACON_MIRROR_DIR or settings.DATA_DIR / "memory"))
        if told:
            self.stderr.write(told)
        self.stdout.write(_("Restored from %(file)s. Now start Beacon.") % {"file": file})


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
