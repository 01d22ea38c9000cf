"""Permanently delete an account with everything it owns.

`deletion_summary` counts for the page, `check_not_last_admin` refuses the last admin, and `delete_account` ends runs
and sign-ins and deletes every row in one transaction.  `users.LAST_ACTS` deletes what is outside the
database: copies on disk, exports and keys in Redis.
"""

from __future__ import annotations

from typing import Any

import pgtrigger
import structlog
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.apps import apps
from django.contrib.sessions.models import Session as BrowserSession
from django.db import DatabaseError, models, transaction
from django.db.models import CharField, Count, Value
from django.utils.translation import gettext as _

from beacon_site.db.errors import SLOW, allow_long_transaction, failure_of
from beacon_site.text.cleaning import one_line
from memory.accounts.archive.kinds import in_order
from memory.models import Activity, ApiToken, Archive, Membership, SignIn, User
from memory.models.actors import SYSTEM
from memory.models.errors import InvalidValue
from memory.models.history import APPEND_ONLY

logger = structlog.get_logger(__name__)

MOST_TRIES = 3  # tries, since a worker can be writing rows of the account at the same time


def deletion_summary(person: User) -> list[tuple[str, int]]:
    """Return how many rows of each kind are deleted with the account, by label; one query."""
    counted: list[tuple[str, str, models.QuerySet[Any]]] = [
        (kind.name, str(kind.label), kind.all_rows(person)) for kind in in_order()
    ]
    counted += [
        ("tokens", _("API tokens"), ApiToken.objects.filter(agent__owner=person)),
        ("sign-ins", _("sign-ins"), SignIn.objects.of(person)),
        ("methods", _("sign-in methods"), Authenticator.objects.filter(user=person)),
        ("archives", _("exports and imports"), Archive.objects.filter(owner=person)),
    ]
    parts = [
        rows.order_by()
        .annotate(kind_name=Value(name, output_field=CharField()))
        .values("kind_name")
        .annotate(number=Count("pk"))
        for name, _label, rows in counted
    ]
    found = {row["kind_name"]: row["number"] for row in parts[0].union(*parts[1:], all=True)}
    return [(label, found[name]) for name, label, _rows in counted if found.get(name)]


def check_not_last_admin(person: User) -> None:
    """Raise InvalidValue for the last active admin; inside a transaction the result stays true."""
    staff = User.objects.filter(is_staff=True, is_active=True)
    if transaction.get_connection().in_atomic_block:
        # Locked, so that two admins who delete themselves at the same time can't leave none.
        staff = staff.select_for_update().order_by("pk")
    if {user.pk for user in staff} == {person.pk}:
        raise InvalidValue(
            _(
                "This is the only active admin account, so it can’t be deleted. Invite another admin under Settings → Users first. To remove Beacon completely, stop it and delete its data folder."
            )
        )


def check_typed(person: User, typed: str) -> None:
    """Raise InvalidValue unless `typed` is the account's username."""
    if one_line(typed) != person.get_username():
        problem = _("That doesn’t match. Type “%(name)s” to confirm.")
        problem %= {"name": person.get_username()}
        raise InvalidValue(problem, errors={"name": [problem]})


def delete_account(person: User, *, typed: str, by: User) -> None:
    """Delete the account and every row that it owns; `by` is the account itself or an admin.

    Raises InvalidValue if the typed name is wrong, for the last admin, and if a copy in Redis can't be
    deleted; nothing is deleted then.
    """
    check_typed(person, typed)
    for left in reversed(range(MOST_TRIES)):
        try:
            with transaction.atomic():
                allow_long_transaction()
                _delete(person, by)
        except DatabaseError as exc:
            # A worker stored a row before the commit, or there was a deadlock with one: the next try
            # deletes that too.
            if not left or failure_of(exc) is SLOW:
                raise
            logger.warning("account not deleted yet", account=person.pk, why=type(exc).__name__)
        else:
            logger.info("account deleted", account=person.pk, by=by.pk)
            return


def _delete(person: User, by: User) -> None:
    check_not_last_admin(person)
    found = User.objects.select_for_update().filter(pk=person.pk).first()
    if found is None:
        raise InvalidValue(_("This account has already been deleted."))
    name = found.get_username()
    keys = list(SignIn.objects.of(found).values_list("session_key", flat=True))
    _log_leaving(found)
    found.delete()
    BrowserSession.objects.filter(session_key__in=keys).delete()
    for failures in (AccessAttempt, AccessFailureLog, AccessLog):
        failures.objects.filter(username=name).delete()
    # Only the logs of the admin who deleted it and of owners of shared topics keep the account's name.
    if by.pk == person.pk:
        Activity.log(None, SYSTEM, "account-deleted")
    else:
        Activity.log(by, by.actor, "account-deleted", label=name)


def _log_leaving(person: User) -> None:
    """Tell the owners of topics shared with the account that it's no longer a member.

    It reads as if the member had left, because sharing doesn't reveal which accounts exist.
    """
    for member in Membership.objects.filter(user=person).select_related("topic__owner"):
        topic, name = member.topic, member.username
        Activity.log(topic.owner, person.actor, "topic-left", subject=topic, member=name, role="")


def sweep(person: User) -> None:
    """Delete the rows of tables that no other table references, with one statement each.

    Those are most of the rows, and Django's cascade would load them first.  One of `users.LAST_ACTS`.
    """
    with pgtrigger.ignore(APPEND_ONLY):
        for model in apps.get_models():
            path = _OWNED_THROUGH.get(model._meta.label) or _owner_of(model)
            if path and not _is_referenced(model):
                rows = model._base_manager.filter(**{path: person.pk})
                rows._raw_delete(rows.db)


# Large tables that belong to an owner through another table.
_OWNED_THROUGH = {
    "memory.SearchEntry": "space__owner",
    "memory.SearchTerm": "space__owner",
}


def _owner_of(model: type[models.Model]) -> str:
    names = {field.name for field in model._meta.concrete_fields if field.related_model is User}
    return "owner" if "owner" in names else ""


def _is_referenced(model: type[models.Model]) -> bool:
    fields = model._meta.get_fields(include_hidden=True)
    return any(field.auto_created and not field.concrete for field in fields) or bool(
        model._meta.many_to_many
    )
