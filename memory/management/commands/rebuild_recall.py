"""`manage.py rebuild_recall [USERNAME]`: rebuild the search index from the records."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from beacon_site.db.statistics import analyze_changed
from memory.management.base import account_named
from memory.models import User
from memory.services.search.bm25 import rebuild_owner


class Command(BaseCommand):
    """Rebuild one owner's index, or all; safe to run again and while Beacon runs."""

    help = "Rebuild the search index from the stored records."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "username", nargs="?", help="the account whose index to rebuild (default: all)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild, and print how many records of each type were read."""
        name = options["username"]
        owners = User.objects.order_by("pk")
        if name:
            owners = owners.filter(pk=account_named(name).pk)
        for owner in owners:
            read = rebuild_owner(owner)
            text = ", ".join(f"{kind} {count}" for kind, count in read.items() if count)
            self.stdout.write(f"{owner.get_username()}: {text or 'nothing stored yet'}")
        analyze_changed()
