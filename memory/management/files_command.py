"""What the two commands that carry memory files have in common."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from django.utils.translation import gettext as _

from beacon_site.management_base import MigratedCommand
from memory.management.accounts import account_named, only_account
from memory.models import User


def _place(text: str) -> Path:
    """Return the folder or file that is named; nothing, as of an unset variable, is not this one."""
    if not text.strip():
        raise ArgumentTypeError(_("no folder or file is named"))
    return Path(text)


class FilesCommand(MigratedCommand):
    """A command about one account's files and a folder, or zip."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the account, which may be left out where there is one, and the place."""
        parser.add_argument("username", nargs="?", help="may be left out if there is one account")
        parser.add_argument("place", type=_place, metavar="DIR|FILE.zip", help="a folder, or a zip")

    def owner_named(self, username: str | None) -> User:
        """Return the account.  Raises CommandError."""
        if username is not None:
            return account_named(username)
        ask = _("Say whose files: name the account before the folder or zip file.")
        return only_account(User.objects.all(), ask)
