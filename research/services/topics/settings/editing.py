"""Edit a topic: normalize domains, change fields together, and archive, trash or restore it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import idna
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.models import Activity, Revision, Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from research.models import Run, Schedule, TopicSettings
from research.services.schedules import scheduling

_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")


class NotADomain(InvalidValue):
    """A line isn't a domain. `suggestion` is the domain it probably means, if any."""

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        super().__init__(message)
        self.suggestion = suggestion


def domain_from(text: str) -> str:
    """Return the normalized domain: lower case, IDNA, without `www.` and wildcard.

    `example.org` includes its subdomains, `*.gov` is a whole top-level domain. Raises
    NotADomain, which for a URL (or a host with a port) suggests its domain.
    """
    text = text.strip()
    host = _ascii(text)
    if host:
        return host
    inside = _host_of(text)
    if inside:
        raise NotADomain(
            _("Enter only the domain: “%(domain)s”, not “%(text)s”.")
            % {"text": text, "domain": readable_domain(inside)},
            suggestion=inside,
        )
    raise NotADomain(
        _("“%(text)s” isn’t a domain. Enter one such as example.org. Subdomains are included.")
        % {"text": text}
    )


def _ascii(text: str) -> str:
    """Return `text` as a normalized domain, or "" if it isn't one."""
    whole_top_level = text.startswith(("*.", "."))
    name = text.lower().removeprefix("*").strip(".").removeprefix("www.")
    try:
        encoded = idna.encode(name, uts46=True).decode() if not name.isascii() else name
    except idna.IDNAError:
        return ""
    labels = encoded.split(".")
    enough = len(labels) > 1 or whole_top_level
    return encoded if enough and len(encoded) < 254 and all(map(_LABEL.match, labels)) else ""


def _host_of(text: str) -> str:
    """Return the domain inside a URL, or ""."""
    try:
        parts = urlsplit(text if "://" in text or text.startswith("//") else f"//{text}")
        host = parts.hostname or ""
    except ValueError:
        return ""
    return _ascii(host)


def readable_domain(domain: str) -> str:
    """Return a normalized domain for display (`xn--bcher-kva.example` as `bücher.example`)."""
    try:
        return idna.decode(domain) if "xn--" in domain else domain
    except idna.IDNAError:
        return domain


# --- editing ---

TOPIC_FIELDS = ("title", "labels", "private")
SETTINGS_FIELDS = (
    *TopicSettings.ASKED,
    "plan_review",
    *TopicSettings.LIMITS,
    "month_tokens",
    "month_money",
    "over_limit",
    "stale_days",
    "recheck",
    "intent",
    "notify_examples",
    "boost_places",
    "mute_places",
)
# What the editors of a shared topic can change: no services, models, budgets or notifications.
EDITABLE_BY_EDITORS = ("objective", "focus", "always_check")
SCHEDULE_FIELDS = ("preset", "cron", "time_zone", "missed")

State = dict[str, Any]


class EditConflict(MemoryRefused):
    """Others changed the same fields in the meantime. `theirs` has their values, `now` the state."""

    def __init__(self, theirs: State, now: State) -> None:
        super().__init__(
            ngettext(
                "Someone else has changed this topic since you opened it, including %(count)d field you also changed. Nothing was saved. Compare both versions, then save again to keep yours.",
                "Someone else has changed this topic since you opened it, including %(count)d fields you also changed. Nothing was saved. Compare both versions, then save again to keep yours.",
                len(theirs),
            )
            % {"count": len(theirs)}
        )
        self.theirs = theirs
        self.now = now


def state_of(topic: Topic) -> State:
    """Return everything that can be edited in a topic as JSON values. `schedule` is one value."""
    settings, schedule = settings_of(topic), schedule_of(topic)
    state: State = {name: getattr(topic, name) for name in TOPIC_FIELDS}
    state |= {name: plain(getattr(settings, name)) for name in SETTINGS_FIELDS}
    state["schedule"] = {name: getattr(schedule, name) for name in SCHEDULE_FIELDS}
    return state


def plain(value: Any) -> Any:
    """Return a field's value as JSON. Money becomes text with two decimal places."""
    return f"{value:.2f}" if isinstance(value, Decimal) else value


def settings_of(topic: Topic) -> TopicSettings:
    """Return the topic's settings, or the defaults of a new topic."""
    return TopicSettings.objects.filter(topic=topic).first() or TopicSettings(topic=topic)


def model_of(topic: Topic) -> str:
    """Return the model that the topic's settings name, or ""."""
    return TopicSettings.objects.filter(topic=topic).values_list("model", flat=True).first() or ""


def schedule_of(topic: Topic) -> Schedule:
    """Return the topic's schedule, or the default of a new topic."""
    return Schedule.objects.filter(topic=topic).first() or Schedule(topic=topic)


def edit_topic(
    topic: Topic,
    *,
    by: Actor,
    wanted: State,
    base: State | None = None,
    expected_version: int | None = None,
) -> Topic:
    """Change the fields in `wanted` (keys of state_of) and return the topic.

    With a `base` (the state that the writer saw), fields are merged, see EditConflict. With an
    `expected_version`, any change in between raises StaleWrite. Raises InvalidValue for an invalid
    title or schedule. Nothing is stored in any of these cases. Applies from the next run.
    """
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=topic.pk)
        if expected_version is not None and topic.version != expected_version:
            raise StaleWrite(str(topic), current=topic.version)
        now = state_of(topic)
        if base is not None:
            wanted = merged(base=base, theirs=now, mine=wanted)
        changed = {name: value for name, value in wanted.items() if now[name] != value}
        _change_topic(topic, changed, by)
        _change_settings(topic, changed, now, by)
        if "schedule" in changed:
            paused = schedule_of(topic).paused
            scheduling.set_schedule(topic, by=by, **changed["schedule"], paused=paused)
    return topic


def merged(*, base: State, theirs: State, mine: State) -> State:
    """Return `mine` with the fields that only others changed.

    Raises EditConflict if both changed a field.
    """
    conflicts, result = {}, {}
    for name, value in mine.items():
        untouched_by_them = name in base and base[name] == theirs[name]
        if untouched_by_them or value == theirs[name]:
            result[name] = value
        elif name in base and value == base[name]:
            result[name] = theirs[name]
        else:
            conflicts[name] = theirs[name]
    if conflicts:
        raise EditConflict(conflicts, theirs)
    return result


def _change_topic(topic: Topic, changed: State, by: Actor) -> None:
    if "title" in changed:
        topic.rename(changed["title"], by=by)
    fields = {name: changed[name] for name in ("labels", "private") if name in changed}
    if fields:
        topic.change(by=by, why=_("settings"), **fields)


def _change_settings(topic: Topic, changed: State, now: State, by: Actor) -> None:
    """Store the changed settings as a revision of the topic, which increases its version."""
    fields = {name: changed[name] for name in SETTINGS_FIELDS if name in changed}
    if not fields:
        return
    TopicSettings.objects.update_or_create(topic=topic, defaults=fields)
    # The settings row has no version, so the topic's version covers both (If-Match).
    Topic.objects.filter(pk=topic.pk).update(version=F("version") + 1, updated=timezone.now())
    topic.version += 1
    Revision.record(
        topic,
        before={name: now[name] for name in fields},
        after=fields,
        by=by,
        version=topic.version,
        why=_("settings"),
    )


# --- archive and trash ---


def trash_topic(topic: Topic, *, by: Actor) -> bool:
    """Move the topic to the trash and cancel its current run. Return whether there was one."""
    with transaction.atomic():
        topic.trash(by=by)
        Activity.log(topic.owner, by, "topic-trashed", subject=topic)
        run = Run.objects.filter(topic=topic).unfinished().first()
        return run is not None and bool(run.request_cancel(by=by))


def archive_topic(topic: Topic, *, by: Actor) -> bool:
    """Archive the topic and cancel its queued run. Return whether there was one.

    A run in progress finishes, and its results are kept. One that would wait for a plan review is
    cancelled once it is planned (`planning.hold`).
    """
    with transaction.atomic():
        topic.archive(by=by)
        run = Run.objects.filter(topic=topic, status=Run.Status.QUEUED).first()
        cancelled = run is not None and run.request_cancel(by=by)
        if run is not None and cancelled:
            ended = Run.objects.filter(pk=run.pk, status=Run.Status.CANCELLED)
            ended.update(error=_("the topic was archived"))
        return cancelled


def restore_topic(topic: Topic, *, by: Actor) -> None:
    """Restore the topic from the trash. Missed runs aren't started later.

    Raises InvalidValue if another topic has taken its name.
    """
    with transaction.atomic():
        topic.restore(by=by)
        scheduling.look_ahead(topic)
        Activity.log(topic.owner, by, "topic-restored", subject=topic)


def unarchive_topic(topic: Topic, *, by: Actor) -> None:
    """Unarchive the topic. Missed runs aren't started later."""
    with transaction.atomic():
        topic.unarchive(by=by)
        scheduling.look_ahead(topic)
