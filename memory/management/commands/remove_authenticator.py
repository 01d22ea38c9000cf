"""`manage.py remove_authenticator`: for people who lost the phone and the recovery codes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from memory.accounts import methods
from memory.models import User


class Command(BaseCommand):
    """Remove the app and the recovery codes; everything else stays."""

    help = "Remove an account's authenticator app, so that its password is enough to sign in."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the account's username")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(_("There’s no account with this username. Nothing was changed."))
        if methods.reset_second_step(person, by=person):
            self.stdout.write(_("Done. The password is now enough to sign in."))
        else:
            self.stdout.write(_("This account has no authenticator app. Nothing was changed."))
