"""Parsing days and times from URLs and API requests, and names of time zones."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from functools import cache

from django.utils.dateparse import parse_date, parse_datetime
from django.utils.dates import MONTHS, MONTHS_3


def day_of(text: str) -> date | None:
    """Return the day of `text` (`2026-11-22`), or None if it isn't one, such as June 31."""
    try:
        return parse_date(text)
    except ValueError:
        return None


_TYPED = re.compile(r"(\d{1,2})(?:\.\s*|\s+)([^\W\d_]+|\d{1,2})\.?\s*(\d{4})")
_ENGLISH = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def day_typed(text: str, today: date) -> date | None:
    """Return the day that a person typed, or None if it isn't one.

    Pages show `23 Nov 2026`. Also accepted: `2026-11-23`, `23.11.2026`, `today`, `yesterday`, and
    the first day of the current `week`, `month` or `year`.
    """
    text = text.strip().casefold()
    starts = {
        "today": today,
        "yesterday": today - timedelta(days=1),
        "week": today - timedelta(days=today.weekday()),
        "month": today.replace(day=1),
        "year": today.replace(month=1, day=1),
    }
    if text in starts:
        return starts[text]
    if found := _TYPED.fullmatch(text):
        day, month, year = int(found[1]), _month(found[2]), int(found[3])
        try:
            return date(year, month, day)
        except ValueError:
            return None
    return day_of(text)


def _month(text: str) -> int:
    """Return the number of a month's English or translated name, or 0."""
    if text.isdecimal():
        return int(text)
    for number, name in enumerate(_ENGLISH, 1):
        names = {str(MONTHS[number]).casefold(), str(MONTHS_3[number]).casefold(), name}
        if text in names or (len(text) > 3 and any(one.startswith(text) for one in names)):
            return number
    return 0


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
