"""Schedules: set, pause and describe them, start due runs, and handle missed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any

import structlog
from cron_descriptor import Options, get_description
from cronsim import CronSimError
from django.conf import settings
from django.db import transaction
from django.db.models import Subquery
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.translation import get_language

from beacon_site.db.errors import LoggedFailure
from beacon_site.text import messages
from beacon_site.text.cleaning import shorten
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.models import Activity, Topic
from memory.models.actors import RESEARCH, Actor
from memory.models.errors import InvalidValue
from research.models import Delivery, Run, RunAlreadyActive, Schedule
from research.models.notifications import channels_for_failure
from research.services.budgets import forecasting
from research.services.schedules import cron as schedules_cron

MAX_COUNTED = 500  # enough for a cron expression that fires every minute, which has more per day
CAUGHT_UP, SKIPPED, UNREADABLE = "schedule-caught-up", "schedule-skipped", "schedule-unreadable"
LATELY = timedelta(days=7)


def describe_missed(count: int) -> str:
    """Return the number of missed slots as text. Beyond MAX_COUNTED, they aren't counted."""
    if count >= MAX_COUNTED:
        return _("at least %(count)d scheduled runs were missed") % {"count": MAX_COUNTED}
    return ngettext(
        "%(count)d scheduled run was missed", "%(count)d scheduled runs were missed", count
    ) % {"count": count}


def last_notice(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a schedule's last problem, a skipped, late or unreadable run, from the value that `lately` added to its topic, if any."""
    if values is None:
        return None
    detail = messages.loaded_in(values["detail"])
    line = Activity(kind=values["kind"], is_warning=values["is_warning"], detail=detail)
    line.created = datetime.fromisoformat(values["created"])
    words = str(line.detail.get("why", ""))
    if line.kind == SKIPPED and line.is_warning:
        words = _("A scheduled run was skipped: %(why)s") % {"why": words}
    elif line.kind == UNREADABLE:
        words = _("The schedule can’t be read: %(why)s") % {"why": words}
    return {"at": line.created, "words": words, "is_warning": line.is_warning}


def lately(topic: Any) -> Any:
    """Return a subquery for the schedule's last problem within a week, to load with its topic."""
    lines = Activity.objects.filter(
        topic=topic,
        kind__in=(CAUGHT_UP, SKIPPED, UNREADABLE),
        created__gt=timezone.now() - LATELY,
    )
    names = ("created", "kind", "is_warning", "detail")
    fields = JSONObject(**{name: name for name in names})
    return Subquery(lines.order_by("-id").values(told=fields)[:1])


# --- scheduling ---

logger = structlog.get_logger(__name__)

# A slot started within this time is on time. Later it counts as missed, and `missed` decides.
ON_TIME = timedelta(minutes=15)
LAST_DAY = "L"
HOURS = tuple(range(24))
DAYS = (*(str(day) for day in range(1, 29)), LAST_DAY)
DEFAULT_HOUR = 7
_AT_ONCE = 200  # schedules per tick; the next tick, 15 s later, handles the rest

check_cron = schedules_cron.check_cron
Preset = Schedule.Preset


# --- cron expressions and words ---


def cron_of(preset: str, *, hour: int, weekday: int, day: str, line: str) -> str:
    """Return the cron expression of a preset, or "" for manual runs only.

    `weekday` counts from 0 (Sunday). `day` is "1" to "28", or "L" for the last day of a month.
    These and `hour` only apply to presets that have them. If a `line` is given (the preset `cron`
    needs one, a stored schedule has it), it is returned unchanged.
    """
    if line and preset != Preset.NONE:
        return line
    lines = {
        Preset.DAILY: f"0 {hour} * * *",
        Preset.WEEKDAYS: f"0 {hour} * * 1-5",
        Preset.WEEKLY: f"0 {hour} * * {weekday}",
        Preset.MONTHLY: f"0 {hour} {day} * *",
        Preset.CRON: line,
    }
    return lines.get(Preset(preset), "")


def choices_of(schedule: Schedule) -> dict[str, Any]:
    """Return the schedule's hour, weekday and day, or a form's initial values."""
    chosen: dict[str, Any] = {"hour": DEFAULT_HOUR, "weekday": 1, "day": "1"}
    fields = schedule.cron.split()
    if schedule.preset in (Preset.NONE, Preset.CRON) or len(fields) != 5:
        return chosen
    if fields[1].isdigit():
        chosen["hour"] = int(fields[1])
    if fields[4].isdigit():
        chosen["weekday"] = int(fields[4])
    if fields[2] in DAYS:
        chosen["day"] = fields[2]
    return chosen


def schedule_fields(
    *,
    preset: str,
    time_zone: str,
    cron: str = "",
    hour: int = DEFAULT_HOUR,
    weekday: int = 1,
    day: str = "1",
    missed: str = Schedule.Missed.ONCE,
    paused: bool = False,
    at: datetime | None = None,
) -> dict[str, Any]:
    """Return the fields of a Schedule with its next run (see cron_of).

    Raises InvalidValue, with errors by field, for an invalid schedule.
    """
    if preset not in Preset.values:
        problem = _("Unknown schedule “%(name)s”. Choose one of: %(names)s.") % {
            "name": preset,
            "names": ", ".join(Preset.values),
        }
        raise InvalidValue(problem, errors={"preset": [problem]})
    line = cron_of(preset, hour=hour, weekday=weekday, day=day, line=cron)
    time_zone = zone_of_choice(time_zone)
    if preset != Preset.NONE:
        line = check_cron(line, time_zone)
    schedule = Schedule(preset=preset, cron=line, time_zone=time_zone, missed=missed, paused=paused)
    fields = ("preset", "cron", "time_zone", "missed", "paused")
    chosen = {name: getattr(schedule, name) for name in fields}
    return chosen | {"next_run_at": next_run(schedule, at or timezone.now())}


def zone_of_choice(name: str) -> str:
    """Return the time zone's name as stored.

    Raises InvalidValue (field `time_zone`) if it doesn't exist.
    """
    return schedules_cron.zone_named(name).key


def next_slots(schedule: Schedule, after: datetime, count: int = 5) -> list[datetime]:
    """Return the next times (UTC) after `after` at which the topic is due, at most `count`.

    Ignores pausing. An invalid expression (only possible if it bypassed check_cron) raises
    CronSimError.
    """
    return list(islice(slots_of(schedule, after), count))


def slots_of(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after` at which the topic is due (see next_slots), without end."""
    if schedule.preset == Preset.NONE or not schedule.cron:
        return iter(())
    return schedules_cron.slots(schedule.cron, zone_of(schedule.time_zone), after)


def next_run(schedule: Schedule, after: datetime) -> datetime | None:
    """Return when the topic runs next, or None if it only runs manually."""
    return None if schedule.paused else next(iter(next_slots(schedule, after, 1)), None)


def longest_gap(schedule: Schedule, after: datetime) -> timedelta:
    """Return the longest time between two of the next ten slots, or zero if it doesn't recur."""
    try:
        found = next_slots(schedule, after, 10)
    except CronSimError:  # the tick reports it, see _give_up(); it must not make a save fail
        return timedelta(0)
    gaps = (later - earlier for earlier, later in pairwise(found))
    return max(gaps, default=timedelta(0))


def memory_lifetime(topic: Topic) -> timedelta:
    """Return how long the topic's working memory is kept after a save.

    This is BEACON_TOPIC_TTL_SECONDS or twice the schedule's longest gap, whichever is longer, even
    if paused. A topic that runs once per quarter must find its memory alive.
    """
    least = timedelta(seconds=settings.BEACON_TOPIC_TTL_SECONDS)
    schedule = Schedule.objects.filter(topic=topic).first()
    if schedule is None:
        return least
    return max(least, 2 * longest_gap(schedule, timezone.now()))


def describe(schedule: Schedule, *, seen_from: str = "") -> str:
    """Return the schedule as a phrase: “every Monday at 07:00 (Europe/Berlin)”.

    The time zone is left out if it equals `seen_from`, the reader's own.
    """
    if schedule.preset == Preset.NONE or not schedule.cron:
        return _("manually")
    if schedule.time_zone == seen_from:
        return _times(schedule)
    return _("%(times)s (%(zone)s)") % {"times": _times(schedule), "zone": schedule.time_zone}


def _times(schedule: Schedule) -> str:
    if schedule.preset == Preset.CRON:
        return _describe_cron(schedule.cron)
    chosen = choices_of(schedule)
    values = {
        "time": f"{chosen['hour']:02}:00",
        "weekday": weekday_names()[chosen["weekday"] % 7],
        "day": chosen["day"],
    }
    if schedule.preset == Preset.DAILY:
        return _("every day at %(time)s") % values
    if schedule.preset == Preset.WEEKDAYS:
        return _("every weekday at %(time)s") % values
    if schedule.preset == Preset.WEEKLY:
        return _("every %(weekday)s at %(time)s") % values
    if chosen["day"] == LAST_DAY:
        return _("on the last day of every month at %(time)s") % values
    return _("on day %(day)s of every month at %(time)s") % values


def _describe_cron(line: str) -> str:
    options = Options()
    options.use_24hour_time_format = True
    options.throw_exception_on_parse_error = False
    # cron-descriptor has its own translations, with English as the fallback.
    options.locale_code = (get_language() or "en").partition("-")[0]
    words = str(get_description(line, options))
    return words[:1].lower() + words[1:]


def weekday_names() -> list[str]:
    """Return the weekdays' names starting with Sunday, as in cron."""
    return [
        _("Sunday"),
        _("Monday"),
        _("Tuesday"),
        _("Wednesday"),
        _("Thursday"),
        _("Friday"),
        _("Saturday"),
    ]


# --- changes by people ---


def set_schedule(topic: Topic, *, by: Actor, **chosen: Any) -> Schedule:
    """Set the topic's schedule (see schedule_fields) with its next run, and log it.

    Raises InvalidValue. Then nothing is stored.
    """
    fields = schedule_fields(**chosen)
    with transaction.atomic():
        schedule, _made = Schedule.objects.update_or_create(topic=topic, defaults=fields)
        Activity.log(topic.owner, by, "schedule-set", subject=topic, schedule=describe(schedule))
    return schedule


def set_paused(topic: Topic, *, paused: bool, by: Actor) -> bool:
    """Pause or resume the topic's schedule. Return False if nothing changes or it doesn't recur.

    Runs missed while it was paused aren't started later.
    """
    waiting = Schedule.objects.filter(topic=topic, paused=not paused).exclude(preset=Preset.NONE)
    schedule = waiting.first()
    if schedule is None:
        return False
    schedule.paused = paused
    done = bool(waiting.update(paused=paused, next_run_at=next_run(schedule, timezone.now())))
    if done:
        kind = "schedule-paused" if paused else "schedule-resumed"
        Activity.log(topic.owner, by, kind, subject=topic)
    return done


def look_ahead(topic: Topic) -> None:
    """Set a restored topic's next run to the first slot from now on."""
    schedule = Schedule.objects.filter(topic=topic).first()
    if schedule is not None:
        Schedule.objects.filter(pk=topic.pk).update(next_run_at=next_run(schedule, timezone.now()))


# --- the tick ---


def start_due(at: datetime | None = None) -> list[Run]:
    """Start the runs that are due at `at` (default: now), and move each schedule on.

    Safe to call from two beats at once: one UPDATE on `next_run_at` claims a slot, and
    UNIQUE(topic, scheduled_for) backs it up. Several missed slots lead to one run (if `missed` is
    once) or none (skip).
    """
    at = at or timezone.now()
    due = Schedule.objects.due(at).select_related("topic__owner", "topic__settings")
    started: list[Run] = []
    for schedule in due.order_by("next_run_at")[:_AT_ONCE]:
        with LoggedFailure("schedule failed", topic=schedule.topic.slug) as part:
            run = _take(schedule, at)
            started += [run] if run is not None else []
        if part.error:
            _give_up(schedule, f"{type(part.error).__name__}: {part.error}")
    return started


def _take(schedule: Schedule, at: datetime) -> Run | None:
    """Claim the due slot of one schedule and queue its run, or return None if there is none."""
    slot = schedule.next_run_at
    assert slot is not None  # noqa: S101 (due() asks for it)  # nosec B101
    try:
        following = next_run(schedule, at)
        on_time = next(iter(next_slots(schedule, at - ON_TIME, 1)), at + ON_TIME)
        later = takewhile(lambda one: one <= at, slots_of(schedule, slot))
        due = 1 + len(list(islice(later, MAX_COUNTED)))
    except CronSimError as exc:
        _give_up(schedule, str(exc))
        return None
    chosen = on_time if on_time <= at else slot
    is_late = at - chosen > ON_TIME
    missed = min(due if is_late else due - 1, MAX_COUNTED)
    with transaction.atomic():
        claimed = Schedule.objects.filter(pk=schedule.pk, next_run_at=slot, paused=False).update(
            next_run_at=following
        )
        if not claimed:
            return None
        if missed and schedule.missed == Schedule.Missed.SKIP:
            words = _("%(slots)s while Beacon was off, and this schedule skips missed runs")
            _skipped(schedule, slot, words % {"slots": describe_missed(missed)}, slots=missed)
            missed = 0
            if is_late:
                return None
        return _start(schedule, chosen, missed)


def _start(schedule: Schedule, slot: datetime, missed: int) -> Run | None:
    """Queue the run of a slot, which also replaces `missed` earlier slots."""
    topic = schedule.topic
    why, smaller = forecasting.fit_of(topic)
    if why and smaller is None:
        words = _("%(why)s, and the topic is set to skip runs over the limit")
        _skipped(schedule, slot, words % {"why": why}, warning=True)
        return None
    fields: dict[str, Any] = {"depth": topic.settings.depth}
    if smaller is not None:
        message = _("This run was smaller than usual to stay within the remaining budget: %(why)s")
        fields = {**smaller, "warnings": [message % {"why": why}]}
    try:
        run: Run = Run.objects.start(
            topic,
            trigger=Run.Trigger.SCHEDULE,
            by=RESEARCH,
            scheduled_for=slot,
            missed_slots=missed,
            **fields,
        )
    except RunAlreadyActive as exc:
        _skipped(schedule, slot, str(exc), warning=True)
        return None
    if missed:
        words = _("%(slots)s while Beacon was off, so Beacon started one run to catch up")
        words %= {"slots": describe_missed(missed)}
        Activity.log(topic.owner, RESEARCH, CAUGHT_UP, subject=topic, slots=missed, why=words)
    run.wake_after_commit()
    logger.info(
        "scheduled run queued", run=run.pk, topic=topic.slug, slot=slot.isoformat(), missed=missed
    )
    return run


def _skipped(
    schedule: Schedule, slot: datetime, why: str, *, warning: bool = False, slots: int = 1
) -> None:
    topic = schedule.topic
    Activity.log(
        topic.owner,
        RESEARCH,
        SKIPPED,
        subject=topic,
        warning=warning,
        slot=slot.astimezone(UTC),
        slots=slots,
        why=why,
    )
    logger.info("scheduled run skipped", topic=topic.slug, slot=slot.isoformat(), why=why)


def _give_up(schedule: Schedule, why: str) -> None:
    """Disable a schedule that can't be read, so it doesn't block others, and log it."""
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=None)
    Activity.log(
        schedule.topic.owner,
        RESEARCH,
        UNREADABLE,
        subject=schedule.topic,
        warning=True,
        cron=schedule.cron,
        why=why,
    )
    logger.warning("schedule unreadable", topic=schedule.topic.slug, cron=schedule.cron, why=why)


# --- failing schedules ---

KIND = "schedule-failing"
IN_A_ROW = 5  # failed runs of a topic in a row, the last one scheduled
_LATELY = timedelta(hours=1)  # how far back the tick looks for failed runs


def pause_failing() -> int:
    """Pause the schedules whose last IN_A_ROW runs all failed. Return how many.

    Each failed run pauses only once, so a resumed schedule continues until the next failure.
    """
    since = timezone.now() - _LATELY
    failed = Run.objects.filter(
        status=Run.Status.FAILED,
        trigger=Run.Trigger.SCHEDULE,
        finished_at__gt=since,
        topic__schedule__paused=False,
        topic__trashed_at=None,
    )
    return sum(_pause(run) for run in failed.select_related("topic__owner").order_by("-pk")[:200])


def _pause(run: Run) -> bool:
    ended = Run.objects.filter(topic=run.topic_id).exclude(finished_at=None).order_by("-pk")
    last = list(ended.values_list("pk", "status")[:IN_A_ROW])
    all_failed = len(last) == IN_A_ROW and {status for _pk, status in last} == {Run.Status.FAILED}
    topic = run.topic
    if not all_failed or last[0][0] != run.pk:
        return False
    rows = Activity.objects.for_user(topic.owner).filter(kind=KIND, topic=topic)
    if rows.filter(detail__run=run.pk).exists():
        return False
    with transaction.atomic():
        if not set_paused(topic, paused=True, by=RESEARCH):
            return False
        why = shorten(run.error, 300)
        Activity.log(topic.owner, RESEARCH, KIND, subject=topic, warning=True, run=run.pk, why=why)
        names = {"topic": topic.title, "count": IN_A_ROW, "why": why}
        Delivery.objects.create_for_message(
            channels_for_failure(run.topic),
            f"schedule-failing:{run.pk}",
            topic=topic,
            subject=_("Schedule paused: %(topic)s") % names,
            message=_(
                "The last %(count)d runs of “%(topic)s” failed, so its schedule is paused until you resume it in the topic’s settings. Last error: %(why)s"
            )
            % names,
        )
    return True


# --- Upcoming runs: their times, and changes made in the calendar ---


A_MONTH = timedelta(days=30)
MAX_SLOTS = 3_000  # per month; one every 15 minutes is 2,880


def slots_until(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """Return the times within (after, until] at which the schedule is due, paused or not.

    None for an invalid cron expression, which the tick logs.
    """
    try:
        found = takewhile(lambda slot: slot <= until, slots_of(schedule, after))
        return list(islice(found, MAX_SLOTS))
    except CronSimError:
        return []


def runs_a_month(schedule: Schedule, now: datetime) -> int:
    """Return how many runs the schedule starts within 30 days."""
    return len(slots_until(schedule, now, now + A_MONTH))


# --- rescheduling ---


def hour_of(schedule: Schedule) -> int | None:
    """Return the hour of a schedule, or None if it has several or none."""
    fields = schedule.cron.split()
    is_single = len(fields) == 5 and fields[1].isascii() and fields[1].isdigit()
    return int(fields[1]) if is_single and schedule.preset != Schedule.Preset.NONE else None


def move_to_hour(topic: Topic, hour: int, *, by: Actor) -> int | None:
    """Move the topic to another hour of the same days. Return the previous hour.

    Returns None and changes nothing if the schedule has no single hour or the hour is invalid.
    """
    schedule = Schedule.objects.filter(topic=topic).first()
    was = hour_of(schedule) if schedule is not None else None
    if schedule is None or was is None or hour not in HOURS:
        return None
    fields = schedule.cron.split()
    fields[1] = str(hour)
    set_schedule(
        topic,
        by=by,
        preset=schedule.preset,
        cron=" ".join(fields),
        time_zone=schedule.time_zone,
        missed=schedule.missed,
        paused=schedule.paused,
    )
    return was


def set_missed(topic: Topic, choice: str, *, by: Actor) -> str | None:
    """Set what happens to missed runs. Return the previous value, or None if nothing changed."""
    recurring = Schedule.objects.filter(topic=topic).exclude(preset=Schedule.Preset.NONE)
    schedule = recurring.exclude(missed=choice).first()
    if schedule is None or not recurring.filter(missed=schedule.missed).update(missed=choice):
        return None
    schedule_words = str(Schedule.Missed(choice).label)
    Activity.log(topic.owner, by, "schedule-set", subject=topic, schedule=schedule_words)
    return str(schedule.missed)
