"""Who may come in: accounts that staff disable and enable, and invitations they take back."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from memory.accounts import sign_ins
from memory.errors import InvalidValue
from memory.models import Activity, Invitation, SignIn, User


def disable(person: User, *, by: User) -> None:
    """Close the account and sign the person out everywhere at once; what they own stays.

    The links that they gave out and nobody has used are taken back.  Raises InvalidValue for one's
    own account and for the last staff account that is open.
    """
    if person == by:
        raise InvalidValue(_("You cannot disable your own account: ask another staff member."))
    with transaction.atomic():
        # Two staff members who disable each other must not leave none.
        staff = User.objects.select_for_update().filter(is_staff=True, is_active=True)
        open_staff = {user.pk for user in staff}
        if open_staff == {person.pk} or by.pk not in open_staff:
            raise InvalidValue(
                _("Somebody must remain who can manage people: nothing was changed.")
            )
        User.objects.filter(pk=person.pk).update(is_active=False)
        sign_ins.end_elsewhere(SignIn.objects.of(person))
        for invitation in Invitation.objects.filter(invited_by=person, used_at=None):
            revoke(invitation, by=by)
        Activity.log(person, by.actor, "account-disabled", subject=person)
    person.is_active = False


def enable(person: User, *, by: User) -> None:
    """Open a disabled account again."""
    with transaction.atomic():
        User.objects.filter(pk=person.pk).update(is_active=True)
        Activity.log(person, by.actor, "account-enabled", subject=person)
    person.is_active = True


def invite(
    *, by: User, note: str, makes_staff: bool, instead_of: str = ""
) -> tuple[Invitation, str]:
    """Give out a one-time link and return it with its token, which is not stored.

    `instead_of` is the key of a link that the same form made when it was pressed just before: only
    the last answer is seen, so that one, which nobody has read, is taken back.
    """
    with transaction.atomic():
        if instead_of:
            for unseen in Invitation.objects.filter(invited_by=by, pk=instead_of, used_at=None):
                revoke(unseen, by=by)
        invitation, token = Invitation.give_out(by=by, note=note, makes_staff=makes_staff)
        Activity.log(by, by.actor, "invited", subject=invitation)
    return invitation, token


def revoke(invitation: Invitation, *, by: User) -> None:
    """Take back a link that nobody has used."""
    with transaction.atomic():
        deleted, _rows = Invitation.objects.filter(pk=invitation.pk, used_at=None).delete()
        if deleted:
            Activity.log(by, by.actor, "invitation-revoked", label=str(invitation))


def works_here_alone() -> str:
    """Return BEACON_URL if no other machine reaches it; every link begins with it."""
    host = urlsplit(settings.BEACON_URL).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return settings.BEACON_URL if host == "localhost" else ""
    return settings.BEACON_URL if address.is_loopback or address.is_unspecified else ""
