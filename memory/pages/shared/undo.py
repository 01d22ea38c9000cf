"""Undo: a row for each act that can be undone, a function that undoes it, and one URL.

A view that changed something stores an `Undo` with `offer` and passes its key to the toast as
`extra_tags`. The function decorated with `@undoes(act)` undoes it, and can offer the next undo the
same way. `undo` runs it once, in a transaction. If a record has changed since, the function raises
MemoryRefused, and the person sees why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.dates import moment_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import in_notice, next_of, redirect_back, signed_in
from memory.accounts import agents
from memory.models import Activity, Agent, Remembered, Revision, Undo, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.services.context import identity
from memory.services.records.acts import BulkResult
from memory.services.review import proposals as review_services

Reversal = Callable[..., str | HttpResponse]
View = Callable[..., HttpResponse]
_REVERSALS: dict[str, Reversal] = {}
_KEYS: dict[str, Callable[[str], Any]] = {}


def undoes(act: str, *, key: Callable[[str], Any] | None = None) -> Callable[[Reversal], Reversal]:
    """Register the function that undoes `act`: `function(request, **arguments)`.

    It returns the page to show if the form names none (or a response), and raises MemoryRefused if
    it can't undo the act. With `key`, the act is stored in a row of its own (a revision, a decision),
    so pages can offer its undo without an `Undo`: `key` reads that row's key from a URL.
    """

    def register(function: Reversal) -> Reversal:
        _REVERSALS[act] = function
        if key is not None:
            _KEYS[act] = key
        return function

    return register


def act(name: str) -> Callable[[Reversal], View]:
    """Make a POST view of a function that also undoes another act, as resume undoes pause."""

    def register(function: Reversal) -> View:
        _REVERSALS[name] = function

        @signed_in("POST")
        @wraps(function)
        def view(request: BeaconRequest, **arguments: Any) -> HttpResponse:
            page = function(request, **arguments)
            return redirect_back(request, page) if isinstance(page, str) else page

        return view

    return register


def exact_moment(text: str) -> datetime:
    """Parse the time that is the key of changes made together.  Raises ValueError."""
    at = moment_of(text)
    if at is None or at.tzinfo is None:
        raise ValueError(text)
    return at


def offer(request: BeaconRequest, act: str, /, **arguments: Any) -> str:
    """Store how to undo an act, and return the key for the toast's `extra_tags`."""
    expires_at = timezone.now() + Undo.LIFETIME
    made = Undo.objects.create(
        owner=request.user, act=act, arguments=arguments, expires_at=expires_at
    )
    return str(made.pk)


def offer_revision(request: BeaconRequest, record: Remembered) -> str:
    """Offer to undo the record's last change."""
    rows = Revision.objects.filter(record_type=record.record_type(), record_id=record.pk)
    last = rows.order_by("-id").values_list("pk", flat=True).first()
    return offer(request, "revision", key=last) if last else ""


def toast_with_undo(
    request: BeaconRequest, record: Remembered, words: str, *, seen: int | None = None
) -> None:
    """Report a change of the record, with an Undo in the toast.

    `seen` is the version that was edited. If it's still the newest, nothing changed.
    """
    if record.version == seen:
        messages.info(request, _("Nothing changed."))
    else:
        messages.success(request, words, extra_tags=offer_revision(request, record))


def say_undone(request: BeaconRequest, done: BulkResult, words: str, nothing: str) -> None:
    """Show `words` and why some rows couldn't be undone; raise MemoryRefused if none could."""
    if not done.done:
        raise MemoryRefused(done.why or nothing)
    messages.success(request, words % {"n": done.done})
    if done.problems:
        rest = _("Some changes couldn’t be undone: %(why)s")
        messages.warning(request, rest % {"why": done.why})


@signed_in("POST")
def undo(
    request: BeaconRequest, pk: UUID | None = None, act: str = "", key: str = ""
) -> HttpResponse:
    """Undo what an `Undo` stores, or an act that is stored in a row of its own."""
    if pk is None and act not in _KEYS:
        raise Http404
    try:
        with transaction.atomic():
            page = _once(request, pk) if pk else _run(request, act, {"key": key})
    except MemoryRefused as exc:
        told = {"why": str(exc), "heading": _("This can’t be undone"), "back": next_of(request)}
        return in_notice(request, render(request, "409.html", told, status=409))
    return redirect_back(request, page) if isinstance(page, str) else page


def _once(request: BeaconRequest, pk: UUID) -> str | HttpResponse:
    held = Undo.objects.for_user(request.user).select_for_update()
    found: Undo = get_object_or_404(held, pk=pk)
    if found.used_at or found.expires_at < timezone.now():
        messages.info(request, _("There’s nothing left to undo."))
        return reverse("memory:notes")
    try:
        page = _run(request, found.act, found.arguments)
    except Http404 as exc:
        raise MemoryRefused(_("The item no longer exists, so there’s nothing to undo.")) from exc
    Undo.objects.filter(pk=pk).update(used_at=timezone.now(), arguments={})
    return page


def _run(request: BeaconRequest, act: str, arguments: dict[str, Any]) -> str | HttpResponse:
    if act in _KEYS:
        try:
            arguments = {"key": _KEYS[act](str(arguments["key"]))}
        except ValueError as exc:
            raise Http404 from exc
    return _REVERSALS[act](request, **arguments)


# --- settings, which have no history of their own ---

State = Mapping[str, Any]  # values as JSON
# How to read a group of settings of an owner and an ID (of an agent or topic), and how to write some
# of them. `read` returns None if they no longer exist, and `write` raises MemoryRefused.
Read = Callable[[User, str], State | None]
Write = Callable[[User, str, State, Actor], object]
PROFILE = (
    "display_name", "email", "time_zone", "page_language", "language", "interests", "shortcuts",
)  # fmt: skip
LIMITS = ("monthly_tokens", "monthly_money")


def _profile(owner: User, _target: str) -> State | None:
    row: State | None = User.objects.filter(pk=owner.pk).values(*PROFILE).first()
    return row


def _put_profile(owner: User, _target: str, values: State, by: Actor) -> None:
    person = User.objects.get(pk=owner.pk)
    for name, value in values.items():
        setattr(person, name, value)
    person.save(update_fields=list(values))
    identity.write_profile(person, by=by)
    Activity.log(person, by, "profile-changed", subject=person)


def _limits(owner: User, _target: str) -> State | None:
    found = User.objects.filter(pk=owner.pk).values(*LIMITS).first() or {}
    return {name: None if value is None else str(value) for name, value in found.items()}


def _put_limits(owner: User, _target: str, values: State, by: Actor) -> None:
    stored = {name: None if value is None else Decimal(value) for name, value in values.items()}
    User.objects.filter(pk=owner.pk).update(**stored)
    Activity.log(owner, by, "limits-changed", subject=owner)


def _levels(owner: User, target: str) -> State | None:
    own = review_services.own_levels(owner, target)
    return {name: own.get(name, "") for name in review_services.LEVEL_NAMES}


def _put_levels(owner: User, target: str, values: State, by: Actor) -> None:
    review_services.set_levels(owner, values, by=by, writer=target)


def _agent(owner: User, target: str) -> State | None:
    rows = Agent.objects.filter(owner=owner, pk=int(target))
    found: State | None = rows.values(*agents.FIELDS).first()
    return found


def _put_agent(owner: User, target: str, values: State, by: Actor) -> None:
    agent = Agent.objects.get(owner=owner, pk=int(target))
    agents.change(agent, values, by=by)


_SETTINGS: dict[str, tuple[Read, Write]] = {
    "profile": (_profile, _put_profile),
    "limits": (_limits, _put_limits),
    "levels": (_levels, _put_levels),
    "agent": (_agent, _put_agent),
}


def register_settings(name: str, read: Read, write: Write) -> None:
    """Add a group of settings; research adds its own."""
    _SETTINGS[name] = (read, write)


def settings_now(owner: User, name: str, target: str = "") -> State:
    """Return the current values; {} if the settings no longer exist."""
    return _SETTINGS[name][0](owner, target) or {}


def offer_settings(request: BeaconRequest, name: str, before: State, target: str = "") -> str:
    """Offer to restore settings to their values in `before`; "" if nothing changed."""
    after = settings_now(request.user, name, target)
    was = {key: value for key, value in before.items() if after.get(key) != value}
    change = {"before": was, "after": {key: after.get(key) for key in was}}
    return offer(request, "settings", name=name, target=target, **change) if was else ""


@undoes("settings")
def _restore_settings(
    request: BeaconRequest, name: str, target: str, before: State, after: State
) -> str:
    User.objects.select_for_update(no_key=True).get(pk=request.user.pk)
    now = settings_now(request.user, name, target)
    if any(now.get(key) != value for key, value in after.items()):
        raise MemoryRefused(
            _("These settings have changed since then, so your change couldn’t be undone.")
        )
    _SETTINGS[name][1](request.user, target, before, request.actor)
    redo = offer(request, "settings", name=name, target=target, before=after, after=before)
    messages.success(request, _("Change undone."), extra_tags=redo)
    return reverse("memory:settings")
