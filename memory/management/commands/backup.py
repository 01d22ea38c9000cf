"""`manage.py backup FILE`: the whole database in one file, also while Beacon runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from beacon_site.dumps import DumpFailed, dump
from beacon_site.embedded import EmbeddedError
from beacon_site.own_command import OwnCommand


class Command(OwnCommand):
    """Write every account's everything to a file, and say what else to keep with it."""

    help = "Write the whole database to a file, also while Beacon runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file."""
        file: Path = options["file"]
        try:
            dump(settings.DATABASES["default"], file)
        except (DumpFailed, EmbeddedError) as exc:
            raise CommandError(str(exc)) from exc
        self.stdout.write(
            _("Written to %(file)s, %(size)s bytes.")
            % {"file": file, "size": f"{file.stat().st_size:,}"}
        )
        if (key := settings.DATA_DIR / "secret_key").is_file():
            self.stderr.write(
                _("Keep %(key)s with it: without it the keys stored in Settings cannot be read.")
                % {"key": key}
            )
