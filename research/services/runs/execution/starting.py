"""Create topics, and start, retry and repeat runs within the hourly limit."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from beacon_site.providers.search import sample
from beacon_site.text.cleaning import shorten, slug_of
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.models import Activity, Revision, Topic, TopicFact, Trust, User
from memory.models.actors import RESEARCH, Actor
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.services.library.documents import SERVICE as LIBRARY
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, check_month
from memory.services.review import proposals as review_services
from memory.services.review.risks import Write
from research.models import Run, RunAlreadyActive, Schedule, TopicSettings
from research.models.runs import RETRIED
from research.models.topics import settings_now
from research.services.budgets.budget import DEFAULTS
from research.services.facts import staleness
from research.services.runs.search import searching
from research.services.schedules.scheduling import SKIPPED
from research.services.topics.settings import editing as topic_editing

HOUR = timedelta(hours=1)
FEW_LEFT = 3  # with this many runs left this hour, pages show the number


class RunNotAllowed(Exception):
    """A run can't be started: the topic is archived or in the trash, or the hourly limit is reached."""

    def __init__(self, message: str, *, retry_after: int = 0) -> None:
        """`retry_after` is in seconds, 0 if waiting doesn't help."""
        super().__init__(message)
        self.retry_after = retry_after


class LibraryNotReadable(RunNotAllowed):
    """The topic searches only the library, which the person or app that starts the run can't read."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many more runs a person can start manually this hour, and when the next one is possible."""

    left: int
    most: int
    next_at: datetime | None = None  # in the person's time zone

    @property
    def words(self) -> str:
        """Return the note next to a button, or "" while many runs are left."""
        if self.left == 0:
            return str(self.refusal())
        if self.left > FEW_LEFT:
            return ""
        return ngettext(
            "You can start %(left)d more run this hour. The limit is %(most)d.",
            "You can start %(left)d more runs this hour. The limit is %(most)d.",
            self.left,
        ) % {"left": self.left, "most": self.most}

    def refusal(self) -> RunNotAllowed:
        """Return why no run can be started, and when the next one can."""
        if self.next_at is None:
            return RunNotAllowed(
                _("You can’t start runs manually because the limit is 0 per hour.")
            )
        wait = max(1, round((self.next_at - timezone.now()).total_seconds()))
        started = ngettext(
            "You’ve reached the limit of %(most)d run per hour.",
            "You’ve reached the limit of %(most)d runs per hour.",
            self.most,
        )
        next_one = _(
            "You can start the next run at %(time)s (in %(minutes)d min). Scheduled runs aren’t affected."
        )
        values = {
            "most": self.most,
            "time": f"{self.next_at:%H:%M}",
            "minutes": -(-wait // 60),
        }
        return RunNotAllowed(f"{started} {next_one}" % values, retry_after=wait)


def allowance_of(user: User) -> Allowance:
    """Return how many runs the person can start manually now, in one query.

    Starts and retries by people, commands and agents count (R233). Scheduled runs don't.
    """
    most, an_hour_ago = settings.BEACON_RUNS_PER_HOUR, timezone.now() - HOUR
    by_hand = Run.objects.for_user(user).exclude(trigger=Run.Trigger.SCHEDULE).order_by()
    by_hand = by_hand.exclude(trigger=Run.Trigger.RECHECK, actor=str(RESEARCH))
    retried = Activity.objects.filter(owner=user, kind=RETRIED).order_by()
    within = [rows.filter(created__gt=an_hour_ago).values("created") for rows in (by_hand, retried)]
    moments = within[0].union(within[1], all=True).order_by("-created")
    counted = [row["created"] for row in moments[:most]]
    if len(counted) < most:
        return Allowance(most - len(counted), most)
    next_at = (counted[-1] + HOUR).astimezone(zone_of(user.time_zone)) if counted else None
    return Allowance(0, most, next_at)


def describe_limits(user: User) -> list[str]:
    """Return the limits a person should know before starting a run."""
    texts = [allowance_of(user).words]
    try:
        check_month(user)
    except BudgetReached as exc:
        texts.append(
            _("%(why)s. Until next month, runs plan and write without the model.")
            % {"why": str(exc)[:1].upper() + str(exc)[1:]}
        )
    return [words for words in texts if words]


def check_may_start(topic: Topic) -> None:
    """Raise RunNotAllowed if no run of `topic` can be started now."""
    if topic.trashed_at is not None:
        raise RunNotAllowed(_("The topic is in Trash. Restore it to run it."))
    if topic.archived_at is not None:
        raise RunNotAllowed(_("The topic is archived. Unarchive it to run it."))
    allowance = allowance_of(topic.owner)
    if not allowance.left:
        raise allowance.refusal()


# --- starting ---

logger = structlog.get_logger(__name__)


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
    """Create a topic with its settings and schedule, or nothing if any of it fails.

    `settings` and `schedule` are fields of TopicSettings and Schedule. Raises InvalidValue for an
    invalid title (see Topic.check_title).
    """
    with transaction.atomic():
        topic = Topic.objects.create_topic(owner=owner, title=title, by=by, source=source, **fields)
        TopicSettings.objects.create(topic=topic, **(settings or {}))
        defaults = {"time_zone": owner.time_zone}
        Schedule.objects.create(topic=topic, **(defaults | (schedule or {})))
    return topic


def create_sample_topic(owner: User, *, by: Actor, title: str = "") -> Topic:
    """Return the owner's sample topic with that title, ready to run.

    It is unarchived, restored or created. Raises InvalidValue if another topic has that title.
    """
    title = title or sample.SAMPLE_TITLE
    try:
        return _sample_topic(owner, title, by)
    except (InvalidValue, StaleWrite):
        # After a double click, the other request has created it. Other errors are raised again.
        return _sample_topic(owner, title, by)


def _sample_topic(owner: User, title: str, by: Actor) -> Topic:
    services = [sample.SERVICE]
    found = Topic.objects.titled(owner, title)
    if found is None:
        trashed = Topic.objects.for_user(owner).in_trash().filter(slug=slug_of(title))
        trashed = trashed.filter(settings__services=services)
        found = trashed.order_by("-trashed_at").first()
    if found is None:
        groups = {
            **sample.SAMPLE_SETTINGS,
            "services": services,
            "always_check": sample.page_addresses(),
        }
        return create_topic(owner=owner, title=title, by=by, settings=groups)
    if TopicSettings.objects.get(topic=found).services != services:
        raise InvalidValue(
            _(
                "You already have a topic named “%(title)s” that isn’t the sample. Rename it, or use another title for the sample."
            )
            % {"title": found.title}
        )
    if found.trashed_at is not None:
        topic_editing.restore_topic(found, by=by)
    if found.archived_at is not None:
        topic_editing.unarchive_topic(found, by=by)
    return found


def loaded_at(form: Mapping[str, str]) -> datetime | None:
    """Return when the form's page was loaded (`research/_loaded.html`), or None if it doesn't say."""
    try:
        return datetime.fromtimestamp(float(form.get("loaded", "")), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def start_run(
    topic: Topic,
    *,
    trigger: str,
    by: Actor,
    depth: str = "",
    loaded: datetime | None = None,
    may_search_library: bool = True,
    **fields: Any,
) -> Run:
    """Queue a run of `topic` and notify a worker after the commit.

    `fields` are additional fields of the run, as for Run.objects.start. `loaded` is when the page
    with the button was loaded: a short run may have ended before a second click arrives. Without
    `may_search_library`, the run doesn't search the library, whatever the topic's services are: it
    is for people and apps that can read the report, but not the library.

    Raises RunAlreadyActive if a run is unfinished or was already started from that page, InvalidValue
    for an unknown depth, and RunNotAllowed if the topic is archived or in the trash, if it searches nothing
    but the library, or if its owner has started BEACON_RUNS_PER_HOUR runs within the hour (R233).
    """
    if depth and depth not in DEFAULTS:
        params = {"depth": shorten(depth, 40), "known": ", ".join(DEFAULTS)}
        problem = _("Unknown depth “%(depth)s”. Choose one of: %(known)s.") % params
        raise InvalidValue(problem, errors={"depth": [problem]})
    with transaction.atomic():
        # Locks the owner's row, so two tabs can't exceed the hourly limit together.
        User.objects.select_for_update().get(pk=topic.owner_id)
        _check_not_pressed_before(topic, by, loaded)
        check_may_start(topic)
        value = depth or TopicSettings.objects.values_list("depth", flat=True).get(topic=topic)
        if not may_search_library:
            fields["settings"] = _without_library(fields.get("settings") or settings_now(topic))
        run = Run.objects.start(topic, trigger=trigger, by=by, depth=value, **fields)
        run.wake_after_commit()
    logger.info("run queued", run=run.pk, topic=topic.slug, trigger=trigger)
    return run


def _without_library(stored: dict[str, Any]) -> dict[str, Any]:
    """Return these settings for a run that doesn't search the library. Raises LibraryNotReadable."""
    services = [
        one for one in connections.search_services(stored.get("services") or []) if one != LIBRARY
    ]
    if not services:
        raise LibraryNotReadable(
            _(
                "This topic searches only the library, which this token can’t use. No run was started. Ask the user to start it."
            )
        )
    return stored | {"services": services}


def _check_not_pressed_before(topic: Topic, by: Actor, loaded: datetime | None) -> None:
    """Raise RunAlreadyActive if `by` started a run after the page was loaded and it has already ended."""
    if loaded is None:
        return
    by_hand = Run.objects.filter(topic=topic, actor=str(by), trigger=Run.Trigger.PERSON)
    run = by_hand.kept().filter(created__gt=loaded).order_by("-id").first()
    if run is not None and not run.is_unfinished:
        raise RunAlreadyActive(run, is_over=True)


def retry_run(run: Run, *, by: Actor, step: str = "", may_search_library: bool = True) -> bool:
    """Queue a failed or cancelled run again, from `step` or after its last finished step.

    Notifies a worker. `may_search_library` is as for start_run. Returns False if the run neither
    failed nor was cancelled. Raises RunNotAllowed as start_run does (a retry counts as a start),
    RunAlreadyActive if another run is unfinished, and StepNotFinished.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=run.topic.owner_id)
        check_may_start(run.topic)
        done = run.retry(by=by, step=step)
        if done and not may_search_library:
            mine = Run.objects.filter(pk=run.pk)
            mine.update(settings=_without_library(mine.values_list("settings", flat=True).get()))
        if done:
            run.wake_after_commit()
    return done


def try_now(run: Run, *, by: Actor) -> bool:
    """Retry a postponed run now. Return False if it isn't waiting for a retry.

    It uses one of the run's remaining attempts, so it doesn't count as a start.
    """
    with transaction.atomic():
        done = run.try_now(by=by)
        if done:
            run.wake_after_commit()
    return done


def rerun(run: Run, *, by: Actor, loaded: datetime | None = None) -> Run:
    """Queue a run with the settings and exact queries of a saved `run`.

    Its findings are compared with current memory. Its plan uses no model and needs no review
    (`planning.plan`). Raises as start_run does, and RunNotAllowed for a run without a report.
    """
    if run.number is None or not searching.queries_of(run):
        raise RunNotAllowed(
            _("This run can’t be repeated exactly because it has no report or no queries.")
        )
    asked = run.manifest.get("services") or run.settings.get("services", [])
    was: dict[str, Any] = {"settings": {**run.settings, "services": asked}, "rerun_of": run}
    person = Run.Trigger.PERSON
    return start_run(run.topic, trigger=person, by=by, depth=run.depth, loaded=loaded, **was)


# --- What agents can do with topics and runs: only with their own, and subject to review ---
#
# A topic's objective enters the prompts of its runs as the owner's words, and its budgets and
# schedule spend the owner's money. Topics have no proposals, so a change that needs review is
# refused.


MAX_PER_HOUR = 10  # topics per hour that one agent can create
PERSONS_FIELDS = frozenset(
    {
        "max_pages", "max_minutes", "max_tokens", "max_money", "month_tokens", "month_money",
        "over_limit", "schedule", "model", "recheck", "plan_review", "intent", "notify_examples", "archived",
    }
)  # fmt: skip


def is_own(topic: Topic, by: Actor) -> bool:
    """Whether the agent created the topic, and no person has changed or scheduled it since."""
    if topic.source != str(by) or topic.trust == Trust.OWNER:
        return False
    rows = Revision.objects.filter(record_type=topic.record_type(), record_id=topic.pk)
    if rows.filter(actor__startswith="human:").exists():
        return False
    return not Schedule.objects.filter(topic=topic).exclude(preset=Schedule.Preset.NONE).exists()


def check_own(topic: Topic, by: Actor) -> None:
    """Raise Locked if the topic isn't the agent's own."""
    if not by.is_person and not is_own(topic, by):
        raise Locked(
            _("This agent doesn’t own “%(topic)s”. Only a person can change or delete it.")
            % {"topic": topic.title}
        )


def check_own_run(run: Run, by: Actor) -> None:
    """Raise Locked if the agent didn't start the run, or a person retried it."""
    if by.is_person:
        return
    rows = Activity.objects.filter(owner=run.topic.owner_id, kind=RETRIED, created__gt=run.created)
    rows = rows.filter(subject_type="run", subject_id=str(run.pk), actor__startswith="human:")
    if run.actor != str(by):
        words = _(
            "This agent didn’t start run %(run)d. Only a person can cancel, stop or retry it. Nothing was changed."
        )
    elif rows.exists():
        words = _(
            "A person retried run %(run)d. Only a person can cancel, stop or retry it now. Nothing was changed."
        )
    else:
        return
    raise Locked(words % {"run": run.pk})


def check_fields(named: Iterable[str], by: Actor) -> None:
    """Raise Locked if an agent sets fields that only people can: budgets, schedules, notifications."""
    fields = sorted(PERSONS_FIELDS.intersection(named))
    if fields and not by.is_person:
        words = _(
            "Only a person can set these topic fields: %(fields)s. Leave them out, or ask the user to set them."
        )
        raise Locked(words % {"fields": ", ".join(fields)})


def check_review(owner: User, texts: Iterable[str], *, by: Actor, trust: str) -> None:
    """Raise Locked if the agent's topic, or its change, would need review."""
    write = Write(owner, "topic", by, trust, leaves_topic=True, texts=list(texts))
    why = review_services.hold_reason(write)
    if why:
        words = _(
            "This topic would need review (%(why)s), and agents can’t submit topics for review. Nothing was saved. Ask the user to create or change the topic."
        )
        raise Locked(words % {"why": why})


def check_hour(owner: User, by: Actor) -> None:
    """Raise RunNotAllowed if the agent reached its limit of topics per hour.

    Call it in the transaction that creates the topic. It locks the owner's row until the end.
    """
    if by.is_person:
        return
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    an_hour_ago = timezone.now() - HOUR
    rows = Topic.objects.for_user(owner).filter(source=str(by), created__gt=an_hour_ago)
    moments = list(rows.order_by("-created").values_list("created", flat=True)[:MAX_PER_HOUR])
    if len(moments) == MAX_PER_HOUR:
        wait = max(1, round((moments[-1] - an_hour_ago).total_seconds()))
        words = _(
            "This agent has reached the limit of %(most)d new topics per hour. Try again in %(minutes)d min, or ask the user to create the topic."
        )
        params = {"most": MAX_PER_HOUR, "minutes": -(-wait // 60)}
        raise RunNotAllowed(words % params, retry_after=wait)


def texts_of(values: Mapping[str, Any]) -> list[str]:
    """Return all texts of a request, for the review."""
    results: list[str] = []
    for value in values.values():
        parts = value if isinstance(value, list) else [value]
        results += [part for part in parts if isinstance(part, str)]
    return results


# --- Start rechecks: of one fact, of all stale facts of a topic, or every month ---


RECHECK_HOUR = 5  # on the first of the month, in the schedule's time zone, before people's own runs
AGAIN = timedelta(hours=1)  # later, if another run is in progress
_AT_ONCE = 200


def start_recheck(
    topic: Topic, *, by: Actor, fact: TopicFact | None = None, may_search_library: bool = True
) -> Run:
    """Queue a recheck of one current fact, or of all that are stale.

    Raises RunNotAllowed if there is nothing to check or no live memory, and as `start_run` does.
    """
    fresh = Topic.objects.select_related("owner", "settings", "schedule").get(pk=topic.pk)
    if not fresh.memory_is_live():
        raise RunNotAllowed(
            _(
                "The topic’s memory has expired. Restore it, or run the topic to create a new baseline."
            )
        )
    if fact is not None:
        found = [str(fact.pk)] if fact.state == TopicFact.State.CURRENT else []
    else:
        found = ids_of_stale(fresh)
    if not found:
        raise RunNotAllowed(_("Nothing to recheck. None of this topic’s facts are stale."))
    return start_run(
        fresh,
        trigger=Run.Trigger.RECHECK,
        by=by,
        depth="quick",
        may_search_library=may_search_library,
        rechecks=found,
    )


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
    this = local.replace(day=1, hour=RECHECK_HOUR, minute=0, second=0, microsecond=0)
    following = (this + timedelta(days=days)).replace(day=1)
    return (this if this > local else following).astimezone(UTC)


def start_due(at: datetime | None = None) -> int:
    """Start the monthly rechecks that are due at `at` (default: now). Return how many.

    Safe to call from two beats at once: one UPDATE on `recheck_at` claims each.
    """
    at = at or timezone.now()
    rows = Schedule.objects.filter(
        Q(recheck_at=None) | Q(recheck_at__lte=at),
        # A paused schedule isn't rechecked either. A topic without a schedule can't be paused.
        Q(paused=False) | Q(preset=Schedule.Preset.NONE),
        topic__settings__recheck=True,
        topic__trashed_at=None,
        topic__archived_at=None,
        topic__owner__is_active=True,
    )
    found = rows.select_related("topic__owner", "topic__settings").order_by("recheck_at")
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
    except RunNotAllowed as exc:
        why = _("Stale facts weren’t rechecked: %(why)s") % {"why": exc}
        Activity.log(topic.owner, RESEARCH, SKIPPED, subject=topic, warning=True, why=why)
        logger.info("monthly recheck skipped", topic=topic.slug, why=str(exc))
        return False
    return True
