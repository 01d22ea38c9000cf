"""`manage.py export_account USERNAME FILE`: everything an account owns as one zip."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memory.accounts.archive import exporter
from memory.management.base import MigratedCommand, account_named
from memory.models import Activity


class Command(MigratedCommand):
    """Write everything an account owns to one zip."""

    help = "Write everything an account owns to a zip file, as JSON lines (for import) and Markdown (for reading)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the account to export")
        parser.add_argument("file", type=Path, help="the zip file to write")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the archive; the number of rows goes to stderr."""
        path: Path = options["file"]
        try:
            owner = account_named(options["username"])
            counts = exporter.write(owner, path)
        except OSError as exc:
            raise CommandError(
                _("Couldn’t write %(file)s: %(why)s") % {"file": path, "why": exc.strerror}
            ) from exc
        Activity.log(owner, owner.actor, "exported", label=path.name, rows=sum(counts.values()))
        rows = _("%(rows)d rows written to %(file)s")
        self.stderr.write(rows % {"rows": sum(counts.values()), "file": path})
