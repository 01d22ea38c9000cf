"""`manage.py backup FILE`: write all of Beacon to one file, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from beacon_site.launcher.backups import BackupError
from memory.management.base import MigratedCommand
from memory.services import backups


class Command(MigratedCommand):
    """Write all accounts with all their data to a file."""

    help = "Write all accounts and all data to one file. Beacon can keep running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the backup to write")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file, and say what to keep with it."""
        file: Path = options["file"]
        try:
            backups.write_by_hand(file)
        except BackupError as exc:
            raise CommandError(_("No backup was created. %(why)s") % {"why": exc}) from exc
        self.stdout.write(
            _("Backup written to %(file)s (%(size)s bytes).")
            % {"file": file, "size": f"{file.stat().st_size:,}"}
        )
        self.stderr.write(
            _(
                "Also keep %(key)s in a separate place. Without it, Beacon can’t decrypt the API keys stored in Settings or verify where the backup comes from."
            )
            % {"key": _key()}
        )


def _key() -> str:
    """Return where SECRET_KEY is kept."""
    generated = settings.DATA_DIR / "secret_key"
    if generated.is_file() and generated.read_text().strip() == settings.SECRET_KEY:
        return str(generated)
    return _("the SECRET_KEY in the environment or in beacon.env")
