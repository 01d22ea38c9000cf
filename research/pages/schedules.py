"""The page of all schedules: conflicts, the coming weeks of runs, their cost, and missed runs.

The number of queries is fixed.
"""

from __future__ import annotations

import calendar
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import Activity, User
from memory.models.errors import InvalidValue
from memory.pages.shared.undo import act, offer
from memory.services.llm import spending
from research.models import Schedule
from research.pages import topic_list
from research.services.budgets import forecasting
from research.services.budgets.forecasting import Forecast
from research.services.runs.execution.starting import next_first
from research.services.schedules import scheduling
from research.services.schedules.scheduling import CAUGHT_UP, SKIPPED, UNREADABLE

MAX_TOPICS = 500
MAX_PER_DAY = 6  # topics named in a day's cell; the others are counted
FULL = 5  # entries from which a calendar is easier to read than a list
COLUMNS = 3  # days of the week on which they are
MAX_CLASHES = 10
MAX_MISSED = 20
LATELY = timedelta(days=30)


@dataclass(slots=True)
class CostTotal:
    """The total cost of several runs. The cost of `unknown` of them is unknown."""

    runs: int = 0
    least: Decimal = Decimal(0)
    most: Decimal = Decimal(0)
    unknown: int = 0
    has_model: bool = True

    def add(self, forecast: Forecast) -> None:
        self.runs += 1
        self.has_model = forecast.has_model
        if forecast.money is None:
            self.unknown += 1
        else:
            self.least += forecast.money[0]
            self.most += forecast.money[1]

    @property
    def cost(self) -> str:
        """Format the sum. An unknown price is never shown as free."""
        if not self.runs:
            return ""
        if not self.has_model:
            return _("free (no model)")
        if self.unknown == self.runs:
            return _("price unknown")
        least, most = spending.dollars(self.least), spending.dollars(self.most)
        words = least if least == most else f"{least}–{most}"
        if self.unknown:
            params = {"money": words, "count": self.unknown}
            more = ngettext(
                "%(money)s, plus %(count)d run with an unknown cost",
                "%(money)s, plus %(count)d runs with unknown costs",
                self.unknown,
            )
            return more % params
        return words


@dataclass(slots=True)
class Day:
    """One day of the grid. `is_other` marks days that only fill a week."""

    day: date
    is_other: bool = False
    is_today: bool = False
    # Each topic's first run and how many, with rechecks apart.
    entries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """Return the entries that fit into a cell."""
        return self.entries[:MAX_PER_DAY]

    @property
    def more(self) -> int:
        """Return how many entries don't fit."""
        return max(0, len(self.entries) - MAX_PER_DAY)


Week = tuple[list[Day], CostTotal]  # seven days, and the cost of their runs


# --- the month ---


def month_named(key: str) -> date:
    """Return the first day of the month in a URL (`2026-12`), or of the current month.

    Limited to two years ahead.
    """
    present = timezone.localdate().replace(day=1)
    year, _dash, month = key.partition("-")
    if not (year.isascii() and year.isdecimal() and month.isascii() and month.isdecimal()):
        return present
    if len(year) != 4 or not 1 <= int(month[:2]) <= 12:
        return present
    wanted = date(max(1, int(year)), int(month[:2]), 1)
    latest = date(present.year + 2, present.month, 1)
    return min(max(wanted, present), latest)


def following(first: date) -> date:
    """Return the first day of the next month."""
    return (first + timedelta(days=31)).replace(day=1)


def before(first: date) -> date:
    return (first - timedelta(days=1)).replace(day=1)


def context(user: User, key: str) -> dict[str, Any]:
    """Return everything the page shows, in six queries for any number of topics."""
    first, now = month_named(key), timezone.now()
    days, is_present = _days(first), first == month_named("")
    shown = [day.day for day in days if not day.is_other]
    schedules = _schedules(user)
    topics = [schedule.topic for schedule in schedules]
    forecasts = forecasting.forecasts_of(user, topics) if topics else {}
    running = [one for one in schedules if one.recurs]
    since = max(now, _midnight(first))
    month_end = _midnight(following(first))
    until = max(month_end, _midnight(shown[-1] + timedelta(days=1)))
    slots = {one.pk: scheduling.slots_until(one, since, until) for one in running}
    weeks = _weeks(days, schedules, slots, forecasts, since, until)
    every_day = _taken_out(weeks)
    rows = [
        {
            "schedule": one,
            "words": scheduling.describe(one, seen_from=user.time_zone),
            "a_month": (number := scheduling.runs_a_month(one, now)),
            "cost": forecasts[one.pk].times(number),  # over 30 days
        }
        for one in schedules
        if one.preset != Schedule.Preset.NONE
    ]
    this_month = {pk: [slot for slot in some if slot < month_end] for pk, some in slots.items()}
    total = CostTotal()
    for pk, some in this_month.items():
        for _slot in some:
            total.add(forecasts[pk])
    name = date_format(first, "F Y")
    span = f"{date_format(shown[0], 'j F')} – {date_format(shown[-1], 'j F Y')}"
    names = scheduling.weekday_names()[1:] + scheduling.weekday_names()[:1]
    return {
        "first": first,
        "name": name,
        "heading": span if is_present else name,
        "earlier": None if is_present else before(first),
        "later": following(first),
        "weeks": weeks,
        "every_day": every_day,
        "is_sparse": _is_sparse([day for days, _cost in weeks for day in days if day.entries]),
        "days": [day for days, _cost in weeks for day in days if day.entries and not day.is_other],
        "total": total,
        "is_free": not any(one.has_model for one in forecasts.values()),
        "clashes": _clashes(running, slots),
        "zone": user.time_zone if any(one.time_zone != user.time_zone for one in running) else "",
        "rows": [row for row in rows if not row["schedule"].paused],
        "paused": [row for row in rows if row["schedule"].paused],
        "missed": _missed(user),
        "weekdays": names,
    }


def _is_sparse(days: Sequence[Any]) -> bool:
    """Return True if most columns of a grid of these days would be empty."""
    return (
        sum(len(day.entries) for day in days) < FULL
        or len({day.day.weekday() for day in days}) < COLUMNS
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), timezone.get_current_timezone())


def _schedules(user: User) -> list[Any]:
    """Return the schedules of the person's active topics that recur or have rechecks."""
    found = Schedule.objects.for_user(user).filter(topic__trashed_at=None, topic__archived_at=None)
    found = found.exclude(preset=Schedule.Preset.NONE, topic__settings__recheck=False)
    found = found.select_related("topic__settings", "topic__owner")
    return list(found.order_by("next_run_at", "topic__title")[:MAX_TOPICS])


def _days(first: date) -> list[Day]:
    """Return the days of the grid, in full weeks from Monday.

    The days of the current month before today are empty. It has at least 14 days after them.
    """
    today = timezone.localdate()
    last = following(first) - timedelta(days=1)
    if first > today:
        grid = calendar.Calendar().itermonthdates(first.year, first.month)
        return [Day(day, day.month != first.month) for day in grid]
    last = max(last, today + timedelta(days=13))
    monday = today - timedelta(days=today.weekday())
    weeks = -(-((last - monday).days + 1) // 7)
    days = [monday + timedelta(days=number) for number in range(7 * weeks)]
    return [Day(day, not today <= day <= last, day == today) for day in days]


def _weeks(
    days: Sequence[Day],
    schedules: Sequence[Any],
    slots: dict[Any, list[datetime]],
    forecasts: dict[Any, Forecast],
    since: datetime,
    until: datetime,
) -> list[Week]:
    """Return the weeks with their entries and the cost of their runs."""
    weeks = [(list(days[at : at + 7]), CostTotal()) for at in range(0, len(days), 7)]
    by_day = {day.day: (cost, day) for some, cost in weeks for day in some if not day.is_other}
    for one in schedules:
        counted: dict[date, list[datetime]] = defaultdict(list)
        for slot in slots.get(one.pk, []):
            counted[timezone.localtime(slot).date()].append(slot)
        for day, moments in counted.items():
            if day not in by_day:
                continue
            cost, cell = by_day[day]
            cell.entries.append({"topic": one.topic, "at": moments[0], "times": len(moments)})
            for _moment in moments:
                cost.add(forecasts[one.pk])
        _add_recheck(one, by_day, since, until)
    for cell in days:
        cell.entries.sort(key=lambda entry: (entry["at"], entry["topic"].title))
    return weeks


def _taken_out(weeks: Sequence[Week]) -> list[dict[str, Any]]:
    """Remove the topics that run at the same time on every day, and return one entry for each.

    On the first day, some of their runs may be over.
    """
    days = [day for some, _cost in weeks for day in some if not day.is_other]
    kept: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for day in days[1:]:
        for entry in day.entries:
            kept[entry["topic"].pk].append(entry)
    found = {}
    for pk, entries in kept.items():
        alike = {(timezone.localtime(entry["at"]).time(), entry["times"]) for entry in entries}
        if len(entries) == len(days) - 1 > 1 and len(alike) == 1:
            found[pk] = entries[0]
    for day in days:
        day.entries = [entry for entry in day.entries if entry["topic"].pk not in found]
    return sorted(found.values(), key=lambda entry: (entry["at"], entry["topic"].title))


def _add_recheck(
    schedule: Any, by_day: dict[date, tuple[CostTotal, Day]], since: datetime, until: datetime
) -> None:
    rests = schedule.paused and schedule.preset != Schedule.Preset.NONE
    if rests or not schedule.topic.settings.recheck:
        return
    at = schedule.recheck_at or next_first(schedule, timezone.now())
    while at < since:
        at = next_first(schedule, at)
    day = timezone.localtime(at).date()
    if at < until and day in by_day:
        entry = {"topic": schedule.topic, "at": at, "times": 1, "is_recheck": True}
        by_day[day][1].entries.append(entry)


# --- conflicts ---


def _clashes(schedules: Sequence[Any], slots: dict[Any, list[datetime]]) -> list[dict[str, Any]]:
    """Return the topics that start in the same minute, most frequent first.

    Each group says how often it happens, and to which free hours its topics can move.
    """
    at_minute: dict[datetime, list[Any]] = defaultdict(list)
    for one in schedules:
        for slot in slots[one.pk]:
            at_minute[slot.replace(second=0, microsecond=0)].append(one)
    groups: dict[tuple[Any, ...], list[datetime]] = defaultdict(list)
    by_key = {one.pk: one for one in schedules}
    for minute, together in sorted(at_minute.items()):
        if len(together) > 1:
            groups[tuple(one.pk for one in together)].append(minute)
    taken = set(at_minute)
    results = []
    suggested: set[Any] = set()  # each topic is moved once, whatever it clashes with
    for keys, minutes in sorted(groups.items(), key=lambda item: -len(item[1]))[:MAX_CLASHES]:
        together = [by_key[key] for key in keys]
        others = [one for one in together[1:] if one.pk not in suggested]
        if not others:
            continue
        suggested.update(one.pk for one in others)
        hours = _spread(others, slots, taken)
        results.append(
            {
                "topics": [
                    (one.topic, *_moved(minutes[0], one, hours.get(one.pk))) for one in together
                ],
                "at": minutes[0],
                "times": len(minutes),
                "is_movable": bool(hours),
            }
        )
    return results


def _moved(at: datetime, schedule: Any, hour: int | None) -> tuple[int | None, datetime | None]:
    """Return the hour of the schedule's time zone to move to, and when its run at `at` starts then."""
    if hour is None:
        return None, None
    return hour, at + timedelta(hours=hour - (scheduling.hour_of(schedule) or 0))


def _spread(
    schedules: Iterable[Any], slots: dict[Any, list[datetime]], taken: set[datetime]
) -> dict[Any, int]:
    """Return an hour for each schedule that is free on all its days, by the schedule's key."""
    moves: dict[Any, int] = {}
    for one in schedules:
        hour = scheduling.hour_of(one)
        if hour is None:
            continue
        for other in [*range(hour + 1, 24), *range(hour - 1, -1, -1)]:
            moved = {minute + timedelta(hours=other - hour) for minute in slots[one.pk]}
            if not moved & taken:
                taken |= moved
                moves[one.pk] = other
                break
    return moves


# --- missed runs ---


def _missed(user: User) -> list[Activity]:
    """Return the latest runs that schedules skipped or caught up with."""
    lines = Activity.objects.filter(
        owner=user,
        kind__in=(CAUGHT_UP, SKIPPED, UNREADABLE),
        created__gt=timezone.now() - LATELY,
        topic__trashed_at=None,
    )
    return list(lines.exclude(topic=None).select_related("topic").order_by("-id")[:MAX_MISSED])


# --- views ---


@signed_in("GET", "HEAD")
def schedules(request: BeaconRequest) -> HttpResponse:
    """Show coming runs of all topics: the rest of this month, or a later month."""
    key = request.GET.get("month", "")
    return render(request, "research/calendar.html", context(request.user, key))


@act("schedule-hour")
def schedule_hour(request: BeaconRequest, slug: str, hour: int, expected: int | None = None) -> str:
    """Move a topic's runs to another hour of the same days (an undo: from the expected hour)."""
    topic = topic_list.bare_topic_or_404(request, slug)
    was = scheduling.move_to_hour(topic, hour, by=request.actor)
    if was is None:
        raise InvalidValue(
            _(
                "This schedule can’t be moved to another hour here. Change it in the topic’s settings."
            )
        )
    _check_unchanged(was, expected)
    undo = offer(request, "schedule-hour", slug=slug, hour=was, expected=hour)
    words = _("“%(topic)s” now runs at %(hour)02d:00.") % {"topic": topic, "hour": hour}
    messages.success(request, words, extra_tags=undo)
    return reverse("research:calendar")


@act("schedule-missed")
def schedule_missed(request: BeaconRequest, slug: str, choice: str, expected: str = "") -> str:
    """Set what happens to a topic's missed runs."""
    topic = topic_list.bare_topic_or_404(request, slug)
    if choice not in Schedule.Missed.values:
        raise Http404
    was = scheduling.set_missed(topic, choice, by=request.actor)
    if was is None:
        messages.info(
            request,
            _(
                "Nothing was changed. This option is already selected, or the topic has no schedule."
            ),
        )
    else:
        _check_unchanged(was, expected or None)
        undo = offer(request, "schedule-missed", slug=slug, choice=was, expected=choice)
        words = _("“%(topic)s”: %(what)s.")
        params = {"topic": topic, "what": Schedule.Missed(choice).label}
        messages.success(request, words % params, extra_tags=undo)
    return reverse("research:calendar")


def _check_unchanged(was: object, expected: object) -> None:
    """Raise InvalidValue, which rolls an undo back, if the value had changed before it."""
    if expected is not None and was != expected:
        raise InvalidValue(
            _("The schedule has changed since then, so your change couldn’t be undone.")
        )
