"""The account that a command is about, and what is said where there is none of that name."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from django.core.management.base import CommandError
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from beacon_site.embedded.installed import BY_HAND
from beacon_site.management_base import MigratedCommand
from memory.models import User

NAMED = 20  # usernames that an error lists


def account_named(username: str, among: QuerySet[User] | None = None) -> User:
    """Return the account of that name, among all or those given.  Raises CommandError."""
    people = User.objects.all() if among is None else among
    found = people.filter(username=username).first()
    if found is None:
        said = _("No account is named “%(name)s”.") % {"name": username} if people else ""
        raise CommandError(f"{said} {_those_there_are(people)}".strip())
    return found


def only_account(people: QuerySet[User], ask: str) -> User:
    """Return the account where there is just one; `ask` says how to name one of several.

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


# --- What the two commands that carry memory files have in common ---


def _place(text: str) -> Path:
    """Return the folder or file that is named; nothing, as of an unset variable, is not this one."""
    if not text.strip():
        raise ArgumentTypeError(_("no folder or file given"))
    return Path(text)


class FilesCommand(MigratedCommand):
    """A command about one account's files and a folder, or zip."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the account, which may be left out where there is one, and the place."""
        parser.add_argument("username", nargs="?", help="optional if there is only one account")
        parser.add_argument("place", type=_place, metavar="DIR|FILE.zip", help="a folder, or a zip")

    def owner_named(self, username: str | None) -> User:
        """Return the account.  Raises CommandError."""
        if username is not None:
            return account_named(username)
        ask = _("Name the account before the folder or zip file.")
        return only_account(User.objects.all(), ask)
