"""The account that a command is about, and what is said where there is none of that name."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from beacon_site.installed import BY_HAND
from memory.models import User

NAMED = 20  # usernames that an error lists


def account_named(username: str, among: QuerySet[User] | None = None) -> User:
    """Return the account of that name, among all or those given.  Raises CommandError."""
    people = User.objects.all() if among is None else among
    found = people.filter(username=username).first()
    if found is None:
        said = _("There is no account “%(name)s”.") % {"name": username} if people else ""
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
            _("There is no account yet: make the first by `%(make)s up` or createsuperuser.")
            % BY_HAND
        )
    return _("The accounts are: %(names)s.") % {"names": ", ".join(names)}
