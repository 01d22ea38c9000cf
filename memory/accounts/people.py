"""User management: disabling and deleting accounts, invitations, and confusable usernames."""

from __future__ import annotations

import ipaddress
import unicodedata
from typing import Any
from urllib.parse import urlsplit

import pgtrigger
import structlog
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session as BrowserSession
from django.db import DatabaseError, models, transaction
from django.db.models import CharField, Count, Value
from django.utils.translation import gettext as _

from beacon_site.db.errors import SLOW, allow_long_transaction, failure_of
from beacon_site.text.cleaning import normal_form, one_line
from memory.accounts import sign_ins
from memory.accounts.archive.kinds import in_order
from memory.models import Activity, ApiToken, Archive, Invitation, Membership, SignIn, User
from memory.models.actors import SYSTEM
from memory.models.errors import InvalidValue
from memory.models.history import APPEND_ONLY


def disable(person: User, *, by: User) -> None:
    """Disable the account and sign the person out everywhere; what they own is kept.

    Unused links that they created are revoked.  Raises InvalidValue for one's own account and for the
    last active admin.
    """
    if person == by:
        raise InvalidValue(_("You can’t disable your own account. Ask another admin."))
    with transaction.atomic():
        # Locked, so that two admins who disable each other can't leave none.
        staff = User.objects.select_for_update().filter(is_staff=True, is_active=True)
        open_staff = {user.pk for user in staff}
        if open_staff == {person.pk} or by.pk not in open_staff:
            raise InvalidValue(_("At least one admin is required, so nothing was changed."))
        User.objects.filter(pk=person.pk).update(is_active=False)
        sign_ins.end_elsewhere(SignIn.objects.for_user(person))
        for invitation in Invitation.objects.filter(invited_by=person, used_at=None):
            revoke(invitation, by=by)
        Activity.log(person, by.actor, "account-disabled", subject=person)
    person.is_active = False


def enable(person: User, *, by: User) -> None:
    with transaction.atomic():
        User.objects.filter(pk=person.pk).update(is_active=True)
        Activity.log(person, by.actor, "account-enabled", subject=person)
    person.is_active = True


def set_admin(person: User, is_admin: bool) -> None:
    """Make the person an admin or not, as their groups at the sign-in provider say.

    Raises InvalidValue for the last active admin.
    """
    with transaction.atomic():
        staff = User.objects.select_for_update().filter(is_staff=True, is_active=True)
        if not is_admin and {user.pk for user in staff} == {person.pk}:
            raise InvalidValue(_("At least one admin is required, so nothing was changed."))
        User.objects.filter(pk=person.pk).update(is_staff=is_admin, is_superuser=is_admin)
        Activity.log(
            person, SYSTEM, "became-admin" if is_admin else "no-longer-admin", subject=person
        )
    person.is_staff = person.is_superuser = is_admin


def only_way_in() -> str:
    """Return why a person's last sign-in method isn't removed."""
    return _(
        "This is the only way to sign in to your account, so it wasn’t removed. Set a password or add a passkey first."
    )


def invite(
    *, by: User, note: str, grants_admin: bool, instead_of: str = ""
) -> tuple[Invitation, str]:
    """Create a one-time link and return it with its token, which isn't stored.

    `instead_of` is the key of a link that an earlier submission of the same form created.  It is revoked,
    since the person only sees the last response.
    """
    with transaction.atomic():
        if instead_of:
            for unseen in Invitation.objects.filter(invited_by=by, pk=instead_of, used_at=None):
                revoke(unseen, by=by)
        invitation, token = Invitation.create_with_token(
            by=by, note=note, grants_admin=grants_admin
        )
        Activity.log(by, by.actor, "invited", subject=invitation)
    return invitation, token


def revoke(invitation: Invitation, *, by: User) -> None:
    """Revoke an unused link."""
    with transaction.atomic():
        deleted, _rows = Invitation.objects.filter(pk=invitation.pk, used_at=None).delete()
        if deleted:
            Activity.log(by, by.actor, "invitation-revoked", label=str(invitation))


def works_here_alone() -> str:
    """Return BEACON_URL, which every link starts with, if no other machine can reach it."""
    host = urlsplit(settings.BEACON_URL).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return settings.BEACON_URL if host == "localhost" else ""
    return settings.BEACON_URL if address.is_loopback or address.is_unspecified else ""


# --- confusable usernames ---

_LATIN_LIKE = {
    "a": "\u0430\u0410\u03b1\u0391\u0251",  # Cyrillic, Greek, alpha
    "b": "\u0432\u0412\u044c\u042c\u03b2\u0392\u00df\u1e9e",
    "c": "\u0441\u0421\u03f2\u03f9",
    "d": "\u0501\u0500\u0111\u0110",
    "e": "\u0435\u0415\u03b5\u0395\u04bd\u0259",
    "f": "\u0192\u03dd\u03dc",
    "g": "\u0261\u0581",
    "h": "\u043d\u041d\u0397\u04bb\u04ba\u0127\u0570",
    "i": "\u0456\u0406\u03b9\u0399\u0131\u04cf",
    "j": "\u0458\u0408\u03f3",
    "k": "\u043a\u041a\u03ba\u039a",
    "l": "1\u04c0\u0142\u0141\u01c0",
    "m": "\u043c\u041c\u039c",
    "n": "\u03b7\u039d\u0578\u0438",
    "o": "0\u043e\u041e\u03bf\u039f\u03c3\u00f8\u00d8\u0585",
    "p": "\u0440\u0420\u03c1\u03a1",
    "q": "\u051b\u051a",
    "r": "\u0433",
    "s": "\u0455\u0405",
    "t": "\u0442\u0422\u03c4\u03a4",
    "u": "\u03c5\u057d",
    "v": "\u03bd\u0475\u0474",
    "w": "\u051d\u051c\u03c9\u0461\u0448",
    "x": "\u0445\u0425\u03c7\u03a7",
    "y": "\u0443\u0423\u03b3\u03a5\u04af\u04ae",
    "z": "\u0396\u1d22",
}
_LOOKS_LIKE = str.maketrans({sign: to for to, signs in _LATIN_LIKE.items() for sign in signs})
_INVISIBLE = ("Mn", "Me", "Cf")  # accents, enclosing marks, format characters


def skeletons(name: str) -> set[str]:
    """Return the basic letters of a name, in two versions if it has a capital I.

    A capital I looks like a small L, but is also an i.
    """
    parts = unicodedata.normalize("NFKD", normal_form(name))
    bare = "".join(sign for sign in parts if unicodedata.category(sign) not in _INVISIBLE)
    drawn = bare.translate(_LOOKS_LIKE)
    return {drawn.casefold(), drawn.replace("I", "l").casefold()}


def is_confusable(name: str) -> bool:
    """Return True if the username could be mistaken for another account's."""
    own_skeletons = skeletons(name)
    taken = User.objects.values_list("username", flat=True)
    return any(not own_skeletons.isdisjoint(skeletons(other)) for other in taken.iterator())


# --- deleting an account ---
# Every row is deleted in one transaction. `ON_ACCOUNT_DELETE` deletes what is outside the database: copies on
# disk, exports and keys in Redis.


logger = structlog.get_logger(__name__)

MAX_TRIES = 3  # tries, since a worker can be writing rows of the account at the same time


def deletion_summary(person: User) -> list[tuple[str, int]]:
    """Return how many rows of each kind are deleted with the account, by label; one query."""
    counted: list[tuple[str, str, models.QuerySet[Any]]] = [
        (kind.name, str(kind.label), kind.all_rows(person)) for kind in in_order()
    ]
    counted += [
        ("tokens", _("API tokens"), ApiToken.objects.filter(agent__owner=person)),
        ("sign-ins", _("sign-ins"), SignIn.objects.for_user(person)),
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
    for left in reversed(range(MAX_TRIES)):
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
    row = User.objects.select_for_update().filter(pk=person.pk).first()
    if row is None:
        raise InvalidValue(_("This account has already been deleted."))
    name = row.get_username()
    keys = list(SignIn.objects.for_user(row).values_list("session_key", flat=True))
    _log_leaving(row)
    row.delete()
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

    Those are most of the rows, and Django's cascade would load them first.  One of `users.ON_ACCOUNT_DELETE`.
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
