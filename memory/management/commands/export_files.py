"""`manage.py export_files [USERNAME] DIR|FILE.zip`: an account's memory files as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memory.accounts.command_lookup import FilesCommand
from memory.archive import files as carrying
from memory.core.errors import MemoryRefused
from memory.models import Activity


class Command(FilesCommand):
    """Write the memory files, and nothing else, into a folder or a zip."""

    help = "Write an account's memory files as Markdown into a folder or a zip."

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the files; how many goes to stderr."""
        place: Path = options["place"]
        owner = self.owner_named(options["username"])
        try:
            count = carrying.carry_out(owner, place)
        except MemoryRefused as exc:
            raise CommandError(str(exc)) from exc
        except OSError as exc:
            told = {"place": place, "why": exc.strerror or exc}
            raise CommandError(_("%(place)s cannot be written: %(why)s") % told) from exc
        Activity.log(owner, owner.actor, "exported", label=place.name, rows=count)
        said = _("%(count)d files written to %(place)s")
        self.stderr.write(said % {"count": count, "place": place})
