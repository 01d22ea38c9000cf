"""Making topics and starting their runs: what pages, commands, schedules and agents all call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings as site
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.providers import sample
from memory.actors import Actor
from memory.errors import InvalidValue, StaleWrite
from memory.models import Topic, User
from memory.slugs import slug_of
from research import outbox, topic_editing
from research.models import Run, Schedule, TopicSettings

logger = structlog.get_logger(__name__)


class NotNow(Exception):
    """A run may not be started: the topic is put away, or too many were started this hour."""

    def __init__(self, message: str, *, retry_after: int = 0) -> None:
        """`retry_after` is in seconds, 0 where waiting does not help."""
        super().__init__(message)
        self.retry_after = retry_after


def create_topic(
    *,
    owner: User,
    title: str,
    by: Actor,
    settings: dict[str, Any] | None = None,
    schedule: dict[str, Any] | None = None,
    source: str = "explicit",
    **fields: Any,
) -> Topic:
    """Make a topic with its settings and schedule, all or nothing.

    `settings` and `schedule` are fields of TopicSettings and Schedule.  Raises InvalidValue for a
    title that cannot be used (see Topic.check_title).
    """
    with transaction.atomic():
        topic = Topic.objects.create_topic(owner=owner, title=title, by=by, source=source, **fields)
        TopicSettings.objects.create(topic=topic, **(settings or {}))
        defaults = {"time_zone": owner.time_zone}
        Schedule.objects.create(topic=topic, **(defaults | (schedule or {})))
    return topic


def create_sample_topic(owner: User, *, by: Actor, title: str = "") -> Topic:
    """Return the owner's sample topic of that title, ready to be run.

    It is taken back from the archive or the trash, or else made now.  Raises InvalidValue where a
    topic has that title which is not of the sample.
    """
    title = title or sample.SAMPLE_TOPIC.title
    try:
        return _sample_topic(owner, title, by)
    except (InvalidValue, StaleWrite):
        # Pressed twice at once, the other press has it by now; what is really wrong stays so.
        return _sample_topic(owner, title, by)


def _sample_topic(owner: User, title: str, by: Actor) -> Topic:
    wanted, services = sample.SAMPLE_TOPIC, [sample.SampleSearch().service]
    found = Topic.objects.titled(owner, title)
    if found is None:
        trashed = Topic.objects.of(owner).in_trash().filter(slug=slug_of(title))
        trashed = trashed.filter(settings__services=services)
        found = trashed.order_by("-trashed_at").first()
    if found is None:
        asked = {"objective": wanted.objective, "focus": wanted.focus, "services": services}
        return create_topic(owner=owner, title=title, by=by, settings=asked)
    if TopicSettings.objects.get(topic=found).services != services:
        raise InvalidValue(
            _(
                "“%(title)s” is a topic already that is not of the sample: rename it, or take "
                "another title for the sample."
            )
            % {"title": found.title}
        )
    if found.trashed_at is not None:
        topic_editing.restore_topic(found, by=by)
    if found.archived_at is not None:
        topic_editing.unarchive_topic(found, by=by)
    return found


def start_run(topic: Topic, *, trigger: str, by: Actor, depth: str = "") -> Run:
    """Queue a run of `topic` and nudge a worker once that is committed.

    Raises RunInTheWay if a run is unfinished, and NotNow if the topic is archived or in the trash
    or its owner started BEACON_RUNS_PER_HOUR runs within the hour (R233).
    """
    with transaction.atomic():
        # Whoever starts holds the owner's row: two tabs must not pass the hourly limit together.
        User.objects.select_for_update().get(pk=topic.owner_id)
        check_may_start(topic)
        wanted = depth or TopicSettings.objects.values_list("depth", flat=True).get(topic=topic)
        run = Run.objects.start(topic, trigger=trigger, by=by, depth=wanted)
        transaction.on_commit(lambda: outbox.nudge(run.pk))
    logger.info("run queued", run=run.pk, topic=topic.slug, trigger=trigger)
    return run


def retry_run(run: Run, *, by: Actor) -> bool:
    """Queue a failed or cancelled run again and nudge a worker; False if it was neither.

    Raises NotNow as start_run does, and RunInTheWay if another run is unfinished.
    """
    check_may_start(run.topic)
    with transaction.atomic():
        done = run.retry(by=by)
        if done:
            transaction.on_commit(lambda: outbox.nudge(run.pk))
    return done


def check_may_start(topic: Topic) -> None:
    """Raise NotNow if no run of `topic` may be started now."""
    if topic.trashed_at is not None:
        raise NotNow(_("The topic is in the trash: restore it to run it."))
    if topic.archived_at is not None:
        raise NotNow(_("The topic is archived: take it back from the archive to run it."))
    an_hour_ago = timezone.now() - timedelta(hours=1)
    by_hand = Run.objects.of(topic.owner).exclude(trigger=Run.Trigger.SCHEDULE)
    started = by_hand.filter(created__gt=an_hour_ago)
    if started.count() < site.BEACON_RUNS_PER_HOUR:
        return
    oldest = started.order_by("-created")[site.BEACON_RUNS_PER_HOUR - 1]
    wait = max(1, round((oldest.created - an_hour_ago).total_seconds()))
    raise NotNow(
        _(
            "You started %(most)d runs within the last hour, which is the limit here. "
            "The next may start in %(minutes)d min; scheduled runs go on."
        )
        % {"most": site.BEACON_RUNS_PER_HOUR, "minutes": -(-wait // 60)},
        retry_after=wait,
    )
