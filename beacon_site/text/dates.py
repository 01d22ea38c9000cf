"""Parsing days and times from URLs and API requests, and names of time zones."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache

from django.utils import dates as translated
from django.utils.dateparse import parse_date, parse_datetime

from beacon_site.text.values import MONTHS


def day_of(text: str) -> date | None:
    """Return the day of `text` (`2026-11-22`), or None if it isn't one, such as June 31."""
    try:
        return parse_date(text)
    except ValueError:
        return None


_TYPED = re.compile(r"(\d{1,2})(?:\.\s*|\s+)([^\W\d_]+|\d{1,2})\.?\s*(\d{4})")
_YEAR_FIRST = re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日")


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
    if match := _YEAR_FIRST.fullmatch(text):
        text = "{}.{}.{}".format(*reversed(match.groups()))
    if match := _TYPED.fullmatch(text):
        day, month, year = int(match[1]), _month(match[2]), int(match[3])
        try:
            return date(year, month, day)
        except ValueError:
            return None
    return day_of(text)


def _month(text: str) -> int:
    """Return the number of a month's English or translated name, or 0."""
    if text.isdecimal():
        return int(text)
    if text in MONTHS:
        return MONTHS[text]
    for names in (translated.MONTHS, translated.MONTHS_3):
        for number, name in names.items():
            if text == str(name).casefold():
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


def system_zone_name(text: str) -> str | None:
    """Return the zone's name as the system spells it, or None.

    Case and spaces don't matter: `europe/berlin`, `America/New York`.
    """
    return _by_spelling().get(text.strip().replace(" ", "_").casefold())


@cache
def _by_spelling() -> dict[str, str]:
    return {name.casefold(): name for name in names()}


# --- the end of a statement's validity ---

_UNTIL = re.compile(
    r"\b(?:until|till|through|bis|valid to)\s+(?:the\s+)?(?P<end>end of\s+(?:the\s+)?)?(?:"
    r"(?P<iso>\d{4}-\d{1,2}-\d{1,2})"
    r"|(?P<dm>\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<mon>[^\W\d_]+)(?:,?\s+(?P<y>\d{4}))?"
    r"|(?P<mon2>[^\W\d_]+)\s+(?P<d2>\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y2>\d{4}))?"
    r"|(?P<num>\d{1,2}\.\d{1,2}\.(?:\d{4})?)"
    r"|(?P<next>next\s+|this\s+)?(?P<word>[^\W\d_]+)(?:\s+(?P<y3>\d{4}))?)",
    re.IGNORECASE,
)
_FOR = re.compile(
    r"\bfor (?:the )?next (?P<n>\d{1,3}|[a-z]+)?\s*(?P<unit>day|week|month)s?\b", re.IGNORECASE
)
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_FEW = {"a": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_DAYS = {"day": 1, "week": 7, "month": 30}


def until_of(text: str, today: date) -> date | None:
    """Return the last day on which a statement is valid, if it says so: "until Friday".

    A day without a year is the next one. A day in the past, or words that aren't a day, give None.
    """
    for match in _UNTIL.finditer(text[:2_000]):
        try:
            found = _day_until(match, today)
        except ValueError:  # such as 31 June
            continue
        if found is not None and found >= today:
            return found
    match_for = _FOR.search(text[:2_000])
    if match_for is None:
        return None
    said = (match_for["n"] or "1").casefold()
    number = int(said) if said.isdecimal() else _FEW.get(said, 0)
    return today + timedelta(days=number * _DAYS[match_for["unit"].casefold()]) if number else None


def end_of_day(day: date, zone: tzinfo) -> datetime:
    """Return the moment at which a day ends in this time zone."""
    return datetime.combine(day + timedelta(days=1), time(), zone)


def _day_until(match: re.Match[str], today: date) -> date | None:
    if match["iso"]:
        return day_of(match["iso"])
    if match["num"]:
        day, month, year = (*match["num"].split("."), "")[:3]
        return _next(today, int(day), int(month), year)
    name = (match["mon"] or match["mon2"] or "").casefold()
    if name in MONTHS:
        day, year = match["dm"] or match["d2"], match["y"] or match["y2"] or ""
        return _next(today, int(day), MONTHS[name], year)
    word, is_next = (match["word"] or "").casefold(), match["next"] is not None
    if match["end"]:
        return _end_of(word, today, match["y3"])
    if word in ("today", "tonight"):
        return today
    if word == "tomorrow":
        return today + timedelta(days=1)
    if word in _WEEKDAYS:
        # "Until Friday", said on a Friday, is a week later.
        ahead = (_WEEKDAYS.index(word) - today.weekday()) % 7 or 7
        return today + timedelta(days=ahead)
    if is_next and word in ("week", "month", "year"):
        end = _end_of(word, today, "")
        return end and end + timedelta(days=1)
    if word in MONTHS and (word != "may" or match["word"][0].isupper()):
        return _next(today, 1, MONTHS[word], match["y3"] or "")
    return None


def _end_of(word: str, today: date, year: str | None) -> date | None:
    if word == "week":
        return today + timedelta(days=6 - today.weekday())
    if word == "year":
        return date(today.year, 12, 31)
    month = today.month if word == "month" else MONTHS.get(word)
    if month is None:
        return None
    start = _next(today.replace(day=1), 1, month, year or "")
    return (start + timedelta(days=32)).replace(day=1) - timedelta(days=1)


def _next(today: date, day: int, month: int, year: str) -> date:
    """Return this day in the year that is given, or else the next such day."""
    if year:
        return date(int(year), month, day)
    this_year = date(today.year, month, day)
    return this_year if this_year >= today else date(today.year + 1, month, day)


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the named time zone, or UTC if the system no longer knows it."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return zoneinfo.ZoneInfo("UTC")
