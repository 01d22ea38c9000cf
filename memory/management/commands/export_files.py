"""`manage.py export_files [USERNAME] DIR|FILE.zip`: an account's memory files as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.accounts.archive import files as carrying
from memory.management.base import FilesCommand
from memory.models import Activity
from memory.models.errors import MemoryRefused


class Command(FilesCommand):
    """Write the memory files, and nothing else, to a folder or a zip."""

    help = "Write an account’s memory files as Markdown to a folder or a zip."

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the files; their number goes to stderr."""
        place: Path = options["place"]
        owner = self.owner_named(options["username"])
        try:
            count = carrying.perform(owner, place)
        except MemoryRefused as exc:
            raise CommandError(str(exc)) from exc
        except OSError as exc:
            params = {"place": place, "why": exc.strerror or exc}
            raise CommandError(_("Couldn’t write %(place)s: %(why)s") % params) from exc
        Activity.log(owner, owner.actor, "exported", label=place.name, rows=count)
        message = ngettext(
            "%(count)d file written to %(place)s", "%(count)d files written to %(place)s", count
        )
        self.stderr.write(message % {"count": count, "place": place})
