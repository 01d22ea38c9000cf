"""Start rechecks: of one fact, of all stale facts of a topic, or every month."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.http import zone_of
from memory.core.actors import RESEARCH, Actor
from memory.models import Activity, Topic, TopicFact
from research.execution import starting
from research.execution.starting import NotNow
from research.facts import staleness
from research.models import Run, RunAlreadyActive, Schedule
from research.schedules.scheduling import SKIPPED

logger = structlog.get_logger(__name__)

HOUR = 5  # on the first of the month, in the schedule's time zone, before people's own runs
AGAIN = timedelta(hours=1)  # later, if another run is in progress
_AT_ONCE = 200


def start_recheck(topic: Topic, *, by: Actor, fact: TopicFact | None = None) -> Run:
    """Queue a recheck of one current fact, or of all that are stale.

    Raises NotNow if there is nothing to check or no live memory, and as `start_run` does.
    """
    fresh = Topic.objects.select_related("owner", "settings", "schedule").get(pk=topic.pk)
    if not fresh.memory_is_live():
        raise NotNow(
            _(
                "The topic’s memory has expired. Restore it, or run the topic to create a new baseline."
            )
        )
    if fact is not None:
        found = [str(fact.pk)] if fact.state == TopicFact.State.CURRENT else []
    else:
        found = ids_of_stale(fresh)
    if not found:
        raise NotNow(_("Nothing to recheck. None of this topic’s facts are stale."))
    trigger = Run.Trigger.RECHECK
    return starting.start_run(fresh, trigger=trigger, by=by, depth="quick", rechecks=found)


def ids_of_stale(topic: Any) -> list[str]:
    """Return the ids of the topic's stale facts. Its settings and schedule must be loaded."""
    schedule = Schedule.objects.filter(topic=topic).first()
    days = staleness.days_of(topic.settings, schedule)
    return [str(key) for key in staleness.stale_facts(topic, days).values_list("pk", flat=True)]


# --- monthly rechecks ---


def next_first(schedule: Schedule, after: datetime) -> datetime:
    """Return the next first of a month after `after`, at 05:00 in the schedule's time zone."""
    local = after.astimezone(zone_of(schedule.time_zone))
    days = calendar.monthrange(local.year, local.month)[1]
    this = local.replace(day=1, hour=HOUR, minute=0, second=0, microsecond=0)
    following = (this + timedelta(days=days)).replace(day=1)
    return (this if this > local else following).astimezone(UTC)


def start_due(at: datetime | None = None) -> int:
    """Start the monthly rechecks that are due at `at` (default: now). Return how many.

    Safe to call from two beats at once: one UPDATE on `recheck_at` claims each.
    """
    at = at or timezone.now()
    wanted = Schedule.objects.filter(
        Q(recheck_at=None) | Q(recheck_at__lte=at),
        # A paused schedule isn't rechecked either. A topic without a schedule can't be paused.
        Q(paused=False) | Q(preset=Schedule.Preset.NONE),
        topic__settings__recheck=True,
        topic__trashed_at=None,
        topic__archived_at=None,
        topic__owner__is_active=True,
    )
    found = wanted.select_related("topic__owner", "topic__settings").order_by("recheck_at")
    return sum(_take(schedule, at) for schedule in found[:_AT_ONCE])


def _take(schedule: Schedule, at: datetime) -> bool:
    """Claim one topic's monthly recheck and start it. Return whether one was started."""
    due = schedule.recheck_at
    mine = Schedule.objects.filter(pk=schedule.pk, recheck_at=due)
    if not mine.update(recheck_at=next_first(schedule, at)) or due is None:
        return False  # another beat has it, or rechecks were just turned on
    topic = schedule.topic
    if not topic.memory_is_live(at) or not ids_of_stale(topic):
        return False
    try:
        start_recheck(topic, by=RESEARCH)
    except RunAlreadyActive:
        Schedule.objects.filter(pk=schedule.pk).update(recheck_at=at + AGAIN)
        return False
    except NotNow as exc:
        why = _("Stale facts weren’t rechecked: %(why)s") % {"why": exc}
        Activity.log(topic.owner, RESEARCH, SKIPPED, subject=topic, warning=True, why=why)
        logger.info("monthly recheck skipped", topic=topic.slug, why=str(exc))
        return False
    return True
