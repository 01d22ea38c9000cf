"""Where a topic searches, in its order, as the form shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from beacon_site.providers.catalogue import ADDRESS, BY_NAME, KEY
from beacon_site.providers.search import SERVICES, SearchProfile
from memory.llm import connections
from research.search import searching

UP, DOWN = -1, 1


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """One service: what it is, what it lacks before it can be asked, and whether it is ticked."""

    name: str
    label: str
    about: str
    lacks: str
    is_ticked: bool


def offered() -> list[str]:
    """Return the services that a topic may name here, as far as BEACON_SEARCH allows."""
    return [name for name in connections.search_services(SERVICES) if name in SERVICES]


def ready(names: Sequence[str]) -> list[str]:
    """Return those of `names`, in their order, that may be named here and lack nothing."""
    profiles, allowed = connections.search_profiles(), offered()
    return [name for name in names if name in allowed and not _lacks(name, profiles)]


def rows(ticked: Sequence[str]) -> list[ServiceRow]:
    """Return a row for each service: those ticked first, in their order, then the others."""
    profiles, names = connections.search_profiles(), offered()
    first = [name for name in dict.fromkeys(ticked) if name in names]
    return [
        ServiceRow(
            name=name,
            label=searching.label_of(name),
            about=str(BY_NAME[name].about),
            lacks=_lacks(name, profiles),
            is_ticked=name in first,
        )
        for name in [*first, *(name for name in names if name not in first)]
    ]


def _lacks(name: str, profiles: dict[str, SearchProfile]) -> str:
    """Return in words what a service lacks before it can be asked."""
    return {
        KEY: _("needs a key, and none is set"),
        ADDRESS: _("needs an address, and none is set"),
    }.get(connections.lacks(profiles[name]) if name in profiles else "", "")


def moved(ticked: Sequence[str], name: str, by: int) -> list[str]:
    """Return the services with `name` moved by one place; at an end, or not ticked, as it was."""
    order = list(dict.fromkeys(ticked))
    if name in order:
        place = order.index(name)
        order.insert(max(0, place + by), order.pop(place))
    return order
