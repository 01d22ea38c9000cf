"""`manage.py import_files [USERNAME] DIR|FILE.zip [--apply]`: import Markdown as memory files."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, one_line
from memory.accounts.archive import files as carrying
from memory.accounts.archive.files import ImportedFile
from memory.accounts.archive.zips import ImportRejected
from memory.management.base import FilesCommand
from memory.models.actors import Actor


class Command(FilesCommand):
    """Show what files on disk would change in an account's memory files; with --apply store it."""

    help = "Show the changes that a folder or zip would make to an account’s memory files. With --apply, store all of them, or none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--apply", action="store_true", help="store the changes instead of only showing them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the diff of each file, and the result."""
        place: Path = options["place"]
        owner = self.owner_named(options["username"])
        name = one_line(clean(place.resolve().name)[0])[-120:]
        try:
            files, others = carrying.found_in(place)
        except ImportRejected as exc:
            raise CommandError(str(exc)) from exc
        except OSError as exc:
            params = {"place": place, "why": exc.strerror or exc}
            raise CommandError(_("Couldn’t read %(place)s: %(why)s") % params) from exc
        done = carrying.save_all_or_none(
            owner, files, by=Actor("import", name), why=_("imported from %(name)s") % {"name": name},
            only_look=not options["apply"],
        )  # fmt: skip
        for one in done:
            self._show(one)
        if others:
            self.stderr.write(_("Skipped: %(names)s") % {"names": ", ".join(others[:20])})
        self._end(done, is_stored=options["apply"])

    def _show(self, one: ImportedFile) -> None:
        if one.problem:
            params = {"path": one.path, "why": one.problem}
            self.stderr.write(_("%(path)s can’t be imported: %(why)s") % params)
        self.stdout.write(one.diff(), ending="")
        for warning in one.warnings:
            self.stderr.write(f"{one.path}: {warning}")

    def _end(self, done: list[ImportedFile], *, is_stored: bool) -> None:
        refused = sum(bool(one.problem) for one in done)
        if refused:
            params = {"refused": refused, "count": len(done)}
            raise CommandError(
                _("%(refused)d of %(count)d files can’t be imported, so nothing was stored.")
                % params
            )
        params = {"changed": sum(one.is_changed for one in done), "count": len(done)}
        if is_stored:
            self.stderr.write(_("%(changed)d of %(count)d files changed.") % params)
        else:
            self.stderr.write(
                _("%(changed)d of %(count)d files would change. Use --apply to save the changes.")
                % params
            )
