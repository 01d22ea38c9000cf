"""Find the account, and the folder or zip, that a command names."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from beacon_site.embedded import NOTHING_YET
from beacon_site.embedded.places import BY_HAND
from memory.models import User

# --- Base class of Beacon's management commands ---


class MigratedCommand(BaseCommand):
    """A command that needs a migrated database, and explains what to do without one."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.  Raises CommandError if the database was never migrated."""
        if get_user_model()._meta.db_table not in connection.introspection.table_names():
            raise CommandError(NOTHING_YET.format(place=settings.DATA_DIR))
        return super().execute(*args, **options)


# --- Command lookup ---


NAMED = 20  # usernames that an error lists


def account_named(username: str, among: QuerySet[User] | None = None) -> User:
    """Return the account with this name, from all accounts or those given.  Raises CommandError."""
    people = User.objects.all() if among is None else among
    found = people.filter(username=username).first()
    if found is None:
        text = _("No account is named “%(name)s”.") % {"name": username} if people else ""
        raise CommandError(f"{text} {_those_there_are(people)}".strip())
    return found


def active_account(username: str | None) -> User:
    """Return the active account with this name, or without a name the only one."""
    people = User.objects.filter(is_active=True)
    if username:
        return account_named(username, people)
    return only_account(people, _("Specify the owner with --user USERNAME."))


def only_account(people: QuerySet[User], ask: str) -> User:
    """Return the only account; if there are several, the error includes `ask`, which says how to name one.

    Raises CommandError.
    """
    found = list(people.order_by("pk")[:2])
    if len(found) != 1:
        raise CommandError(
            f"{ask} {_those_there_are(people)}" if found else _those_there_are(people)
        )
    return found[0]


def _those_there_are(people: QuerySet[User]) -> str:
    names = list(people.order_by("username").values_list("username", flat=True)[:NAMED])
    if not names:
        return (
            _("There are no accounts yet. Create the first with `%(make)s up` or createsuperuser.")
            % BY_HAND
        )
    return _("Accounts: %(names)s.") % {"names": ", ".join(names)}


# --- commands for memory files ---


def _checked_path(text: str) -> Path:
    """Return the path; an empty one, as from an unset variable, is refused."""
    if not text.strip():
        raise ArgumentTypeError(_("enter a folder or zip file"))
    return Path(text)


class FilesCommand(MigratedCommand):
    """A command that copies one account's files from or to a folder or zip."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "username", nargs="?", help="the account (optional if there’s only one)"
        )
        parser.add_argument(
            "place", type=_checked_path, metavar="DIR|FILE.zip", help="a folder, or a zip"
        )

    def owner_named(self, username: str | None) -> User:
        """Return the account.  Raises CommandError."""
        if username is not None:
            return account_named(username)
        ask = _("Enter the account’s username before the folder or zip file.")
        return only_account(User.objects.all(), ask)
