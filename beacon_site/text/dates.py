"""Parsing days and times from URLs and API requests, and names of time zones."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from functools import cache

from django.utils.dateparse import parse_date, parse_datetime


def day_of(text: str) -> date | None:
    """Return the day of `text` (`2026-11-22`), or None if it isn't one, such as June 31."""
    try:
        return parse_date(text)
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """Return the time in `text`, in UTC if it has a time zone; None if it isn't valid."""
    try:
        found = parse_datetime(text)
        return found and in_utc(found)
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """Return the time in UTC; a time without a time zone stays unchanged.

    Raises ValueError for a time zone offset above sixteen hours, which Postgres doesn't support,
    and for a time outside the supported years.
    """
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("this time doesn't exist") from exc


# --- time zones ---

_NEVER = ("posix", "right", "localtime", "Factory", "posixrules")


@cache
def names() -> tuple[str, ...]:
    """Return the time zones of this system that people can select, in order."""
    return tuple(sorted(n for n in zoneinfo.available_timezones() if not n.startswith(_NEVER)))


def named(text: str) -> str | None:
    """Return the zone's name as the system spells it, or None.

    Case and spaces don't matter: `europe/berlin`, `America/New York`.
    """
    return _by_spelling().get(text.strip().replace(" ", "_").casefold())


@cache
def _by_spelling() -> dict[str, str]:
    return {name.casefold(): name for name in names()}
