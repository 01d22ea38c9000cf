"""A day or a moment as an address, or a program, names it."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from functools import cache

from django.utils.dateparse import parse_date, parse_datetime


def day_of(text: str) -> date | None:
    """Return the day that `text` (`2026-11-22`) names; None for what is none, such as the 31st of June."""
    try:
        return parse_date(text)
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """Return the moment that `text` names, in UTC if it has a time zone; None for what is none."""
    try:
        found = parse_datetime(text)
        return found and in_utc(found)
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """Return the moment in UTC, one without a time zone as it is.

    Postgres takes no time zone beyond sixteen hours, and no moment before the first year or behind
    the last has a name: ValueError says that there is no such moment.
    """
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("there is no such moment") from exc


# --- Which time zones there are, by one rule for every form and command ---

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
