"""`manage.py verify [--fix]`: whether the stored data is consistent, and how to repair it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site import checks
from beacon_site.embedded.places import BY_HAND
from beacon_site.text import secret_scanner
from memory.management.base import MigratedCommand
from memory.models import Remembered
from memory.services.records import invariants

SHOWN = 5  # rows of each invariant


class Command(MigratedCommand):
    help = "Check that the stored data is consistent. Exit code 1 if something is wrong."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fix", action="store_true", help="repair what it can")

    def handle(self, *args: Any, **options: Any) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            todo = _("Migrations are missing. Run “%(manage)s migrate”, then verify again.")
            raise CommandError(todo % BY_HAND)
        for problem in checks.tables(databases=[DEFAULT_DB_ALIAS]):
            raise CommandError(f"{problem.msg} {problem.hint}")
        checked = broken = 0
        for result in invariants.verify(fix=options["fix"]):
            checked += 1
            broken += bool(result.rows)
            self.report(result)
        self.report_secrets()
        if broken:
            text = _("%(n)d of %(all)d checks failed.") % {"n": broken, "all": checked}
            self.stdout.write(self.style.ERROR(text))
            sys.exit(1)
        self.stdout.write(_("All %(all)d checks passed.") % {"all": checked})

    def report_secrets(self) -> None:
        """List records that hold a key or a password. A person may want them, so none is changed."""
        found = list(stored_secrets())
        if not found:
            return
        message = ngettext(
            "%(n)d record seems to contain a secret",
            "%(n)d records seem to contain a secret",
            len(found),
        )
        self.stdout.write(self.style.WARNING(message % {"n": len(found)}))
        for row in found[: 4 * SHOWN]:
            self.stdout.write("    " + " ".join(map(str, row)))
        if len(found) > 4 * SHOWN:
            self.stdout.write("    …")
        todo = _("  What to do: edit the records, then change the secrets wherever they’re used.")
        self.stdout.write(todo)

    def report(self, result: invariants.Result) -> None:
        name, rows = result.invariant.name, result.rows
        if result.fixed:
            self.stdout.write(_("%(name)s: fixed %(n)d") % {"name": name, "n": result.fixed})
        if not rows:
            return
        params = {"name": name, "n": len(rows)}
        text = ngettext("%(name)s: %(n)d problem", "%(name)s: %(n)d problems", len(rows)) % params
        self.stdout.write(self.style.ERROR(text))
        self.stdout.write(_("  Should be: %(sentence)s") % {"sentence": result.invariant.sentence})
        for row in rows[:SHOWN]:
            self.stdout.write("    " + " ".join(map(str, row)))
        if len(rows) > SHOWN:
            self.stdout.write("    …")
        self.stdout.write(_("  What to do: %(todo)s") % {"todo": result.invariant.todo % BY_HAND})


def stored_secrets() -> Iterator[tuple[str, Any, str]]:
    """Yield the type and ID of each record whose text seems to contain a secret, and the kinds."""
    for model in apps.get_models():
        if not issubclass(model, Remembered) or model.IS_PART:
            continue
        texts = [
            field.name
            for field in model._meta.concrete_fields
            if isinstance(field, models.CharField | models.TextField) and not field.choices
        ]
        for pk, *values in model.objects.values_list("pk", *texts).iterator(chunk_size=500):
            kinds = dict.fromkeys(
                one.kind for value in values if value for one in secret_scanner.find(value)
            )
            if kinds:
                yield model.record_type(), pk, ", ".join(kinds)
