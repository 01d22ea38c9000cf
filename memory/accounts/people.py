"""User management by admins: disabling and enabling accounts, invitations, and confusable usernames."""

from __future__ import annotations

import ipaddress
import unicodedata
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import normal_form
from memory.accounts import sign_ins
from memory.models import Activity, Invitation, SignIn, User
from memory.models.actors import SYSTEM
from memory.models.errors import InvalidValue


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
        sign_ins.end_elsewhere(SignIn.objects.of(person))
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
            person, SYSTEM, "made-admin" if is_admin else "no-longer-admin", subject=person
        )
    person.is_staff = person.is_superuser = is_admin


def only_way_in() -> str:
    """Return why a person's last sign-in method isn't removed."""
    return _(
        "This is the only way to sign in to your account, so it wasn’t removed. Set a password or add a passkey first."
    )


def invite(
    *, by: User, note: str, makes_staff: bool, instead_of: str = ""
) -> tuple[Invitation, str]:
    """Create a one-time link and return it with its token, which isn't stored.

    `instead_of` is the key of a link that an earlier submission of the same form created.  It is revoked,
    since the person only sees the last response.
    """
    with transaction.atomic():
        if instead_of:
            for unseen in Invitation.objects.filter(invited_by=by, pk=instead_of, used_at=None):
                revoke(unseen, by=by)
        invitation, token = Invitation.create_with_token(by=by, note=note, makes_staff=makes_staff)
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
    """Whether the username could be mistaken for another account's."""
    wanted = skeletons(name)
    taken = User.objects.values_list("username", flat=True)
    return any(not wanted.isdisjoint(skeletons(other)) for other in taken.iterator())
