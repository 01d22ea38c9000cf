"""A day or a moment as an address, or a program, names it."""

from __future__ import annotations

from datetime import UTC, date, datetime

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
