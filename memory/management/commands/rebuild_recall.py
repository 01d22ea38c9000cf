"""Make the search index anew from the rows: `manage.py rebuild_recall [USERNAME]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.accounts.command_lookup import account_named
from memory.models import User
from memory.search.bm25 import rebuild_owner


class Command(BaseCommand):
    """Rebuild one owner's index, or everybody's; safe to run again and while Beacon runs."""

    help = "Make what recall looks in anew from what is remembered."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the account, or none for all."""
        parser.add_argument("username", nargs="?", help="whose index; without it everybody's")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild, and say how many records of each type were read."""
        name = options["username"]
        owners = User.objects.order_by("pk")
        if name:
            owners = owners.filter(pk=account_named(name).pk)
        for owner in owners:
            read = rebuild_owner(owner)
            told = ", ".join(f"{count} of {kind}" for kind, count in read.items() if count)
            self.stdout.write(f"{owner.get_username()}: {told or 'nothing remembered yet'}.")
