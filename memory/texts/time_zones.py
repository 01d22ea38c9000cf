"""Which time zones there are, by one rule for every form and command."""

from __future__ import annotations

import zoneinfo
from functools import cache

_NEVER = ("posix", "right", "localtime", "Factory", "posixrules")


@cache
def names() -> tuple[str, ...]:
    """Return the time zones that this system knows and people choose from, in order."""
    return tuple(sorted(n for n in zoneinfo.available_timezones() if not n.startswith(_NEVER)))


def named(text: str) -> str | None:
    """Return the zone's name as the system spells it, or None; forgiving as people write them.

    Case and spaces do not matter: `europe/berlin`, `America/New York`.
    """
    return _by_spelling().get(text.strip().replace(" ", "_").casefold())


@cache
def _by_spelling() -> dict[str, str]:
    return {name.casefold(): name for name in names()}
