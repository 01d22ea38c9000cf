"""`manage.py backup FILE`: all of Beacon in one file, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from beacon_site import backups
from beacon_site.dumps import DumpFailed
from beacon_site.management_base import MigratedCommand
from memory.files import mirror, mirror_left


class Command(MigratedCommand):
    """Write every account's everything to a file, and say what else to keep with it."""

    help = "Write all of Beacon to one file, also while it runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path, help="where to write it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file."""
        file: Path = options["file"]
        mirror.catch_up()  # what was edited on disk just now is part of what is remembered
        left = mirror_left.refused_edits(mirror_left.folder())
        try:
            manifest = backups.write(settings.DATABASES["default"], file, left)
        except DumpFailed as exc:
            raise CommandError(_("No backup was made. %(why)s") % {"why": exc}) from exc
        told = {
            "file": file,
            "size": f"{file.stat().st_size:,}",
            "rows": f"{manifest.rows:,}",
            "tables": len(manifest.tables),
        }
        said = _("Written to %(file)s, %(size)s bytes: %(rows)s rows of %(tables)d tables.")
        self.stdout.write(said % told)
        self.stderr.write(
            _(
                "Keep %(key)s too, elsewhere: without it the keys stored in Settings cannot be "
                "read, nor can it be told whether somebody changed the backup."
            )
            % {"key": _key()}
        )


def _key() -> str:
    """Return where SECRET_KEY stands."""
    made = settings.DATA_DIR / "secret_key"
    if made.is_file() and made.read_text().strip() == settings.SECRET_KEY:
        return str(made)
    return _("the SECRET_KEY of the environment, or of beacon.env,")
