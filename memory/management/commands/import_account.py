"""`manage.py import_account USERNAME FILE`: import an archive, or the export of another app."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memory.accounts.archive import app_exports, foreign_formats, importer
from memory.accounts.archive.app_exports import App
from memory.accounts.archive.foreign_formats import Choice, Shape
from memory.accounts.archive.importer import ImportContext
from memory.accounts.archive.zips import ImportRejected
from memory.management.base import MigratedCommand, account_named
from memory.models import Note, Observation


class Command(MigratedCommand):
    """Import a file into an account: everything valid in it, or nothing if the file is damaged."""

    help = "Import a Beacon archive, an export from another app, a zip of Markdown files, or JSON lines."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the account to import into")
        parser.add_argument("file", type=Path, help="the file to import")
        parser.add_argument(
            "--dry-run", action="store_true", help="only show what would be imported"
        )
        parser.add_argument(
            "--foreign",
            action="store_true",
            help="don’t trust the archive’s contents, because someone else created it",
        )
        parser.add_argument(
            "--bullets", action="store_true", help="import each bullet as an observation"
        )
        parser.add_argument(
            "--kind", choices=Note.Kind.values[:3], default="log", help="kind of the imported notes"
        )
        parser.add_argument(
            "--category",
            choices=Observation.Category.values,
            default="finding",
            help="category of the imported observations",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            owner = account_named(options["username"])
            taking = ImportContext(owner, owner.actor, path.name[-120:], not options["foreign"])
            if app := app_exports.app_of(path):
                self._app(path, app, taking, options)
                return
            shape = foreign_formats.shape_of(path, path.name)
            if shape == Shape.BEACON:
                self._archive(path, taking, options)
            else:
                self._elsewhere(path, shape, taking, options)
        except OSError as exc:
            raise CommandError(
                _("Couldn’t read %(file)s: %(why)s") % {"file": path, "why": exc.strerror}
            ) from exc
        except ImportRejected as exc:
            raise CommandError(str(exc)) from exc

    def _archive(self, path: Path, taking: ImportContext, options: dict[str, Any]) -> None:
        counts = importer.import_archive(path, taking, only_look=options["dry_run"])
        for name, one in counts.items():
            if one.new or one.identical or one.differing or one.refused:
                self.stdout.write(
                    f"{name}: {one.new} new, {one.identical} identical, "
                    f"{one.differing} differing, {one.refused} refused"
                )
            for why in one.whys:
                self.stderr.write(f"  {name}, {why}")

    def _app(self, path: Path, app: App, taking: ImportContext, options: dict[str, Any]) -> None:
        found = app_exports.items(path, app)
        outcome = app_exports.import_app_export(
            found,
            taking,
            app,
            memories=True,
            documents=True,
            private=True,
            only_look=options["dry_run"],
        )
        self.stdout.write(
            f"{app.label}: {outcome.memories} memories for review, {outcome.documents} documents new, "
            f"{outcome.updated} updated, {outcome.here} already stored, {outcome.refused} skipped"
        )
        for problem in outcome.problems:
            self.stderr.write(f"  {problem['where']}: {problem['why']}")

    def _elsewhere(
        self, path: Path, shape: Shape, taking: ImportContext, options: dict[str, Any]
    ) -> None:
        choice = Choice(options["bullets"], options["kind"], options["category"])
        found = foreign_formats.entries(path, path.name, shape, choice)
        outcome = foreign_formats.import_entries(found, taking, only_look=options["dry_run"])
        self.stdout.write(
            f"notes: {outcome.notes} new, observations: {outcome.observations} new, "
            f"{outcome.here} already stored, {outcome.refused} rejected"
            + (f", {outcome.quarantined} quarantined" if outcome.quarantined else "")
        )
        for problem in outcome.problems:
            self.stderr.write(f"  {problem['where']}: {problem['why']}")
