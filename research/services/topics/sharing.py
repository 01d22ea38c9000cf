"""Members of a topic: adding and removing them, and what a member has not read.

Data flow: the owner adds an account -> a `Membership` and a line in the owner's log -> the member's
pages and requests find the topic through `Topic.objects.shared_with`, by its ID -> what they read
moves their own mark.
"""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.cleaning import clean, one_line
from memory.models import Activity, Membership, Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue


def add_member(topic: Topic, username: str, role: str, *, by: Actor) -> Membership:
    """Give the account `username` access to `topic`, and return the new member.

    Raises InvalidValue for an unknown or disabled account, for the owner and existing members, for
    an unknown role, and if the topic has Membership.MOST members.
    """
    _check_role(role)
    name = one_line(clean(username)[0])
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise _wrong_name(_("There’s no account with this username."))
    if user.pk == topic.owner_id:
        raise _wrong_name(_("You own this topic."))
    with transaction.atomic():
        # Two simultaneous requests must not exceed the limit together.
        Topic.objects.select_for_update(of=("self",)).get(pk=topic.pk)
        if topic.members.filter(user=user).exists():
            raise _wrong_name(_("This person is already a member."))
        if topic.members.count() >= Membership.MOST:
            words = ngettext(
                "A topic can have at most %(most)d member.",
                "A topic can have at most %(most)d members.",
                Membership.MOST,
            )
            raise InvalidValue(words % {"most": Membership.MOST})
        member = Membership.objects.create(topic=topic, user=user, role=role)
        _log(member, by, "topic-shared", role=role)
    return member


def remove_member(member: Membership, *, by: Actor) -> bool:
    """End the member's access at once. Return False if it has ended already."""
    with transaction.atomic():
        gone, _rows = Membership.objects.filter(pk=member.pk).delete()
        if not gone:
            return False
        _log(member, by, "topic-left" if by == member.user.actor else "topic-unshared")
    return True


def mark_read(member: Membership, number: int) -> None:
    """Move the member's read mark forward to Run #`number`."""
    behind = Membership.objects.filter(pk=member.pk, read_run__lt=number)
    behind.update(read_run=number)


def _check_role(role: str) -> None:
    if role not in Membership.Role.values:
        problem = _("Select one of the listed roles.")
        raise InvalidValue(problem, errors={"role": [problem]})


def _wrong_name(problem: str) -> InvalidValue:
    return InvalidValue(problem, errors={"username": [problem]})


def _log(member: Membership, by: Actor, kind: str, role: str = "") -> None:
    topic = member.topic
    name = member.user.get_username()
    Activity.log(topic.owner, by, kind, subject=topic, member=name, role=role)
