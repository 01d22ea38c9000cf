"""Undo a change of settings, which have no history of their own.

The values before and after the change are kept in the person's browser session.  Undo restores the old
values, unless the settings have changed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from memory.accounts import agents
from memory.context import identity
from memory.core.actors import Actor
from memory.core.errors import MemoryRefused
from memory.models import Activity, Agent, User
from memory.review import levels as review_levels

State = Mapping[str, Any]
PROFILE = ("display_name", "email", "time_zone", "language", "interests", "shortcuts")
LIMITS = ("monthly_tokens", "monthly_money")


class NewerStands(MemoryRefused):
    """The settings have changed again since, or no longer exist."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One group of settings: how to read it as JSON values, and how to write some of them.

    Both take the owner and an ID (of an agent or topic).  `read` returns None if it no longer exists, and
    `write` raises MemoryRefused for invalid values.
    """

    read: Callable[[User, str], State | None]
    write: Callable[[User, str, State, Actor], object]


def now(owner: User, name: str, target: str = "") -> State:
    """Return the current values as JSON; empty if the settings no longer exist."""
    return _SETTINGS[name].read(owner, target) or {}


def changed(before: State, after: State) -> dict[str, Any]:
    """Return the values of `before` that differ in `after`."""
    return {name: value for name, value in before.items() if after.get(name) != value}


def take_back(owner: User, name: str, target: str, *, done: State, by: Actor) -> dict[str, Any]:
    """Undo a change (`done`: before and after) and return the change that this makes.

    Raises NewerStands if any value has changed since, and what `write` raises.
    """
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        stands = now(owner, name, target)
        if any(stands.get(key) != value for key, value in done["after"].items()):
            raise NewerStands(
                _(
                    "These settings have changed since then, so this can’t be undone. Nothing was changed."
                )
            )
        _SETTINGS[name].write(owner, target, done["before"], by)
    return {"before": done["after"], "after": done["before"]}


def _profile(owner: User, _target: str) -> State | None:
    found: State | None = User.objects.filter(pk=owner.pk).values(*PROFILE).first()
    return found


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


def _levels(owner: User, _target: str) -> State | None:
    own = review_levels.own_levels(owner)
    return {name: own.get(name, "") for name in review_levels.NAMES}


def _put_levels(owner: User, _target: str, values: State, by: Actor) -> None:
    review_levels.set_levels(owner, values, by=by)


def _agent(owner: User, target: str) -> State | None:
    rows = Agent.objects.filter(owner=owner, pk=int(target))
    found: State | None = rows.values(*agents.FIELDS).first()
    return found


def _put_agent(owner: User, target: str, values: State, by: Actor) -> None:
    agent = Agent.objects.get(owner=owner, pk=int(target))
    agents.change(agent, values, by=by)


_SETTINGS: dict[str, Setting] = {
    "profile": Setting(_profile, _put_profile),
    "limits": Setting(_limits, _put_limits),
    "levels": Setting(_levels, _put_levels),
    "agent": Setting(_agent, _put_agent),
}


def register(name: str, setting: Setting) -> None:
    """Add a group of settings; research adds its own."""
    _SETTINGS[name] = setting
