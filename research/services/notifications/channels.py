"""Create, change, test and remove channels, and choose them for a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.net import apprise_sender, web_push, webhooks
from beacon_site.net.address_guard import ForbiddenAddress
from beacon_site.text.cleaning import one_line, uuid_of
from memory.models import Activity, Membership, Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from research.models import Channel, Delivery, TopicNotices
from research.models.notifications import MAX_NAME_LENGTH
from research.services.notifications import sending

Kind = Channel.Kind
MAX_CHANNELS = 20  # per person
MAX_TESTS = 20  # per person and hour
TOLD = ("reports", "failures", "digest", "comments", "enabled")


def check_address(kind: str, address: str, *, by: User) -> str:
    """Return the address to store. Raises InvalidValue (field `address`) with the reason."""
    problem = ""
    address = address.strip(" ")
    if kind == Kind.EMAIL:
        try:
            EmailValidator()(address)
        except ValidationError:
            problem = _("Enter one valid email address, such as desk@example.org.")
        if any(sign.isspace() or not sign.isprintable() for sign in address):
            problem = _("The address contains a line break, a space or an invisible character.")
    elif kind == Kind.WEBHOOK:
        try:
            allowed = sending.allowed_hosts(by)
            address = webhooks.check_address(address, allow_hosts=allowed)
        except ForbiddenAddress as exc:
            way = _("Admins can add webhooks for the hosts in BEACON_FETCH_ALLOW_HOSTS.")
            problem = f"{exc} {way}"
    elif kind == Kind.BROWSER:
        try:
            web_push.subscription_of(address, allow_hosts=sending.allowed_hosts(by))
        except ValueError as exc:
            problem = str(exc)
    else:
        problem = apprise_sender.problem_of(address, anywhere=by.is_staff)
    if problem:
        raise InvalidValue(problem, errors={"address": [problem]})
    return address


def public_part(kind: str, address: str) -> str:
    """Return the part of an address that can be shown.

    A webhook's path is hidden, because it often contains a token.
    """
    if kind == Kind.EMAIL:
        return address
    if kind == Kind.APPRISE:
        return apprise_sender.public_part(address)
    if kind == Kind.BROWSER:
        address = json.loads(address)["endpoint"]
    parts = urlsplit(address)
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/…"


def add(owner: User, *, kind: str, name: str, address: str, by: Actor, **fields: Any) -> Channel:
    """Create a channel and return it. Raises InvalidValue without storing anything."""
    address = check_address(kind, address, by=owner)
    channel = Channel(
        owner=owner, kind=kind, address=public_part(kind, address), **_logged_values(fields)
    )
    channel.name = one_line(name) or channel.address[:MAX_NAME_LENGTH]
    if kind == Kind.WEBHOOK:
        channel.keep_secret(url=address, key=webhooks.new_key())
    elif kind == Kind.APPRISE:
        channel.keep_secret(url=address)
    elif kind == Kind.BROWSER:
        keys = web_push.subscription_of(address, allow_hosts=sending.allowed_hosts(owner))
        _check_new(owner, keys["url"])
        channel.keep_secret(**keys)
    with transaction.atomic():
        _check_room(owner)
        channel.save(force_insert=True)
        Activity.log(owner, by, "channel-created", subject=channel)
    return channel


def _check_new(owner: User, url: str) -> None:
    """Raise InvalidValue if this browser is already one of the person's channels."""
    for other in Channel.objects.for_user(owner).kept().filter(kind=Kind.BROWSER):
        if other.opened().get("url") == url:
            words = _("This browser already gets notifications through the channel “%(name)s”.")
            raise InvalidValue(words % {"name": other.name})


def _check_room(owner: User) -> None:
    """Raise InvalidValue if the person already has as many channels as allowed.  Needs a transaction."""
    # The lock keeps two tabs from exceeding the limit together.
    User.objects.select_for_update().get(pk=owner.pk)
    if Channel.objects.for_user(owner).kept().count() >= MAX_CHANNELS:
        words = _("You’ve reached the limit of %(most)d channels. Remove one first.")
        raise InvalidValue(words % {"most": MAX_CHANNELS})


def _logged_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in TOLD if name in values}


def change(channel: Channel, *, name: str, address: str = "", by: Actor, **options: Any) -> None:
    """Change a channel. Without a new address it keeps the stored one. Raises InvalidValue."""
    fields: dict[str, Any] = _logged_values(options)
    if channel.kind == Kind.EMAIL:
        address = address or channel.address  # an imported address was never checked
    elif address == channel.address or channel.kind == Kind.BROWSER:
        address = (
            ""  # the masked address that the form shows, or none, since a browser can't change
        )
    if address:
        address = check_address(channel.kind, address, by=channel.owner)
        fields["address"] = public_part(channel.kind, address)
    fields["name"] = one_line(name) or fields.get("address", channel.address)[:MAX_NAME_LENGTH]
    with transaction.atomic():
        # Locked, because another tab may be creating a new key.
        held = Channel.objects.select_for_update().get(pk=channel.pk)
        if address and held.needs_secret:
            held.keep_secret(**{**_new_key(held), **held.opened(), "url": address})
            fields["secret"] = held.secret
        if fields.get("enabled") and not held.enabled:
            fields |= {"consecutive_failures": 0, "disabled_reason": ""}
        Channel.objects.filter(pk=channel.pk).update(**fields)
        Activity.log(channel.owner, by, "channel-changed", subject=channel)
    channel.refresh_from_db()


def _new_key(channel: Channel) -> dict[str, str]:
    return {"key": webhooks.new_key()} if channel.kind == Kind.WEBHOOK else {}


def renew_key(channel: Channel, *, by: Actor) -> None:
    """Create a new signing key. The old one stops working."""
    with transaction.atomic():
        held = Channel.objects.select_for_update().get(pk=channel.pk)
        held.keep_secret(**{**held.opened(), **_new_key(held)})
        held.save(update_fields=["secret"])
        Activity.log(channel.owner, by, "channel-key-renewed", subject=channel)


def remove(channel: Channel, *, by: Actor) -> bool:
    """Remove a channel. This can be undone for a month. Return False if it already was removed."""
    with transaction.atomic():
        mine = Channel.objects.filter(pk=channel.pk, removed_at=None)
        if not mine.update(removed_at=timezone.now()):
            return False
        Activity.log(channel.owner, by, "channel-removed", subject=channel)
    return True


def restore_state(channel: Channel, *, by: Actor) -> bool:
    """Undo the removal of a channel. Return False if it isn't removed.

    Raises InvalidValue if the person has the most channels allowed.
    """
    with transaction.atomic():
        mine = Channel.objects.filter(pk=channel.pk).exclude(removed_at=None)
        if not mine.exists():
            return False
        _check_room(channel.owner)
        if not mine.update(removed_at=None):
            return False
        Activity.log(channel.owner, by, "channel-put-back", subject=channel)
    return True


def test(channel: Channel, *, by: Actor) -> Delivery:
    """Send a test and return its result. Raises InvalidValue after too many in an hour."""
    hour = timezone.now() - timedelta(hours=1)
    tests = Delivery.objects.for_user(channel.owner).filter(
        kind=Delivery.Kind.TEST, created__gt=hour
    )
    if tests.count() >= MAX_TESTS:
        words = ngettext(
            "You can send at most %(most)d test per hour.",
            "You can send at most %(most)d tests per hour.",
            MAX_TESTS,
        )
        raise InvalidValue(words % {"most": MAX_TESTS})
    return sending.test(channel)


# --- a topic's settings ---


def choice_of(topic: Topic) -> TopicNotices:
    """Return the notification settings of a topic. An unsaved row means the channels' own."""
    return TopicNotices.objects.filter(topic=topic).first() or TopicNotices(topic=topic)


def choose(topic: Topic, *, by: Actor, left_out: Iterable[Channel], **fields: Any) -> TopicNotices:
    """Store a topic's notification settings, and which channels it leaves out."""
    with transaction.atomic():
        chosen: TopicNotices
        chosen, _made = TopicNotices.objects.update_or_create(topic=topic, defaults=fields)
        chosen.left_out.set(left_out)
        Activity.log(topic.owner, by, "notices-chosen", subject=topic)
    return chosen


def end_for(channel: Channel, topic: Topic | None, field: str = "digest") -> None:
    """Unsubscribe this channel from a topic, or turn off its `field` if `topic` is None.

    Used by the unsubscribe link in each email. The owner sees it in the settings of the topic or
    channel, and in Activity.
    """
    by = Actor("address", channel.address[:150])
    with transaction.atomic():
        if topic is None:
            if Channel.objects.filter(pk=channel.pk, **{field: True}).update(**{field: False}):
                Activity.log(channel.owner, by, "unsubscribed", subject=channel)
            return
        if topic.owner_id != channel.owner_id:  # a member's choice applies to all their channels
            members = Membership.objects.filter(topic=topic, user=channel.owner, notify=True)
            if members.update(notify=False):
                name = channel.name
                Activity.log(channel.owner, by, "unsubscribed", subject=channel, channel=name)
            return
        chosen, _made = TopicNotices.objects.get_or_create(topic=topic)
        if not chosen.left_out.filter(pk=channel.pk).exists():
            chosen.left_out.add(channel)
            Activity.log(channel.owner, by, "unsubscribed", subject=topic, channel=channel.name)


def of_token(key: str) -> Channel | None:
    """Return the channel for an id from a signed URL."""
    rows = Channel.objects.select_related("owner").kept().filter(pk=uuid_of(key))
    return rows.first()
