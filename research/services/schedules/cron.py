"""Cron expressions: when they fire in a time zone, and which ones Beacon rejects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from beacon_site.text import dates
from beacon_site.text.messages import gettext as _
from memory.models.errors import InvalidValue

MIN_GAP = timedelta(minutes=15)
_A_DAY = 24 * 60
# More slots than a week has at the shortest interval, enough to see every pair of neighbors.
_ENOUGH = 7 * 96 + 1
_START = datetime(2026, 1, 1)
_MAX_LENGTH = 100


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone. Raises InvalidValue (field `time_zone`) if it doesn't exist."""
    found = dates.system_zone_name(name)
    if found is None:
        problem = _(
            "Unknown time zone “%(name)s”. Enter a region and city, such as “Europe/Berlin”, or “UTC”."
        ) % {"name": name}
        raise InvalidValue(problem, errors={"time_zone": [problem]})
    return ZoneInfo(found)


def zone_names() -> list[str]:
    """Return the names of all time zones that people can choose, in order."""
    return [name for name in dates.names() if "/" in name or name == "UTC"]


def check_cron(line: str, zone: str) -> str:
    """Return the normalized cron expression: 5 fields separated by single spaces.

    Raises InvalidValue (field `cron` or `time_zone`) if it is invalid, never fires, or fires more
    often than every 15 minutes, and for an unknown zone.
    """
    zone_named(zone)
    fields = line.upper().split()
    problem = _not_a_line(fields)
    if not problem and _least_gap(" ".join(fields)) < MIN_GAP:
        problem = _(
            "“%(line)s” would start runs less than %(least)d minutes apart. Space them out, for example “0 * * * *” for every hour."
        ) % {"line": line, "least": MIN_GAP.seconds // 60}
    if problem:
        raise InvalidValue(problem, errors={"cron": [problem]})
    return " ".join(fields)


def _not_a_line(fields: list[str]) -> str:
    """Return why the fields aren't a valid cron expression, or ""."""
    line = " ".join(fields)
    if len(fields) != 5:
        return _(
            "Enter a cron expression with 5 fields (minute, hour, day, month, weekday), such as “0 7 * * MON”. This one has %(have)d."
        ) % {"have": len(fields)}
    if len(line) > _MAX_LENGTH:
        return _("Use at most %(most)d characters for the cron expression.") % {"most": _MAX_LENGTH}
    never = _(
        "“%(line)s” would never run, because that day doesn’t exist in any of its months. Choose another day or month."
    ) % {"line": line}
    try:
        next(CronSim(line, _START))
    except StopIteration:
        return never
    except CronSimError as exc:
        return never if _would_fire_in_another_month(fields) else _bad_field(line, str(exc))
    return ""


def _would_fire_in_another_month(fields: list[str]) -> bool:
    any_month = [*fields[:3], "*", fields[4]]
    any_day = [*fields[:2], "*", *fields[3:]]
    return _is_line(any_month) and _is_line(any_day)


def _is_line(fields: list[str]) -> bool:
    try:
        CronSim(" ".join(fields), _START)
    except CronSimError:
        return False
    return True


def _bad_field(line: str, why: str) -> str:
    name = why.removeprefix("Bad ")
    names = {
        "minute": _("minute (0 to 59)"),
        "hour": _("hour (0 to 23)"),
        "day-of-month": _("day of the month (1 to 31, or L for the last)"),
        "month": _("month (1 to 12, or JAN to DEC)"),
        "day-of-week": _("weekday (0 to 7, or SUN to SAT)"),
    }
    return _("“%(line)s” isn’t a valid cron expression. Check the %(field)s field.") % {
        "line": line,
        "field": names.get(name, name),
    }


def _least_gap(line: str) -> timedelta:
    """Return the shortest time between two slots on a clock without time changes."""
    sim = CronSim(line, _START)
    minutes = sorted(hour * 60 + minute for hour in sim.hours for minute in sim.minutes)
    gaps = [after - before for before, after in pairwise(minutes)]
    if any(gap < MIN_GAP.seconds // 60 for gap in gaps):
        return timedelta(minutes=min(gaps))
    around_midnight = _A_DAY - minutes[-1] + minutes[0]
    if around_midnight >= MIN_GAP.seconds // 60:
        return MIN_GAP
    # This only matters if it fires on two days in a row, which its days decide.
    slots = islice(sim, _ENOUGH)
    return min((after - before for before, after in pairwise(slots)), default=MIN_GAP)


def slots(line: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times (UTC) after `after` at which the expression fires in `zone`.

    When clocks go forward, a time that doesn't exist becomes the moment of the change. When they go
    back, the first of two equal times counts. An hourly expression uses elapsed time instead, so it
    never skips a run.
    """
    last = after
    for moment in _moments(line, zone, after):
        slot = moment.astimezone(UTC)
        if slot > last:
            yield slot
            last = slot


def _moments(line: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    start = after.astimezone(zone)
    walls = CronSim(line, start.replace(tzinfo=None))
    if line.split()[1].startswith("*"):
        yield from CronSim(line, start)
        return
    for wall in walls:
        aware = wall.replace(tzinfo=zone)
        yield aware if _exists(aware) else _after_the_gap(aware)


def _exists(moment: datetime) -> bool:
    return moment.astimezone(UTC).astimezone(moment.tzinfo) == moment


def _after_the_gap(moment: datetime) -> datetime:
    """Return the first local time after `moment` that exists when the clock goes forward."""
    before = moment.replace(fold=1).astimezone(UTC)  # in a gap, fold 1 is the offset after it
    low, high = before - timedelta(hours=3), moment.replace(fold=0).astimezone(UTC)
    offset = low.astimezone(moment.tzinfo).utcoffset()
    while high - low > timedelta(minutes=1):
        middle = low + (high - low) / 2
        if middle.astimezone(moment.tzinfo).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high.replace(second=0, microsecond=0)
