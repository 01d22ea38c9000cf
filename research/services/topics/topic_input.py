"""Topics that agents and API clients create or change, validated by the same form that people use.

Data flow: JSON fields -> the form's fields, with missing ones from the topic (or the defaults) ->
validation by the form -> the state that `topic_editing` saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.http import QueryDict
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean
from memory.models import Topic, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.services.notes.saving import lowest_trust
from research.models import Schedule
from research.services.runs.execution import starting
from research.services.runs.execution.starting import create_topic
from research.services.schedules import scheduling
from research.services.topics import topic_form
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings.editing import State
from research.services.topics.topic_form import SCHEDULE_PARTS, TopicForm, initial_of


def make_topic(
    owner: User, asked: Mapping[str, Any], *, by: Actor, trust: str = ""
) -> tuple[Topic, bool]:
    """Return the owner's topic with this title, and whether it is new.

    An existing one isn't changed (R3). `trust` limits the trust in an agent's text (default: the
    agent's own). Raises InvalidValue with errors by field. For an agent, also raises Locked if the
    topic would need approval, and NotNow beyond the hourly limit.
    """
    title = clean(str(asked.get("title", "")))[0]
    found = Topic.objects.titled(owner, title)
    if found is not None:
        return found, False
    trust = Trust.OWNER if by.is_person else trust or Trust.AGENT
    starting.check_review(owner, starting.texts_of(asked), by=by, trust=trust)
    try:
        form, state = _checked(owner, {"schedule": {}, **asked}, None)
        fields = {name: state[name] for name in topic_editing.SETTINGS_FIELDS if name in state}
        with transaction.atomic():
            starting.check_hour(owner, by)
            topic = create_topic(
                owner=owner,
                title=state["title"],
                by=by,
                settings=fields,
                schedule=form.schedule,
                source=str(by),
                trust=trust,
                labels=state["labels"],
                private=state["private"],
            )
    except InvalidValue:
        twin = Topic.objects.titled(owner, title)  # another request was faster
        if twin is None:
            raise
        return twin, False
    return topic, True


def change_topic(
    topic: Topic, asked: Mapping[str, Any], *, by: Actor, expected_version: int, trust: str = ""
) -> Topic:
    """Change the given fields and return the topic, unless someone changed it since that version.

    `trust` is that of an agent's text. The topic's own trust is lowered to it.

    Raises StaleWrite, Locked, and InvalidValue with errors by field. Nothing is stored then.
    """
    topic.check_may_change(by)
    _form, state = _checked(topic.owner, asked, topic)
    wanted = {name: state[name] for name in asked if name in state}
    with transaction.atomic():
        topic = topic_editing.edit_topic(
            topic, by=by, wanted=wanted, expected_version=expected_version
        )
        lowest = lowest_trust([topic.trust, trust or topic.trust])
        if lowest != topic.trust and not by.is_person and topic.version != expected_version:
            # This is part of the change, which has its own revision and version.
            Topic.objects.filter(pk=topic.pk).update(trust=lowest)
        if "paused" in (asked.get("schedule") or {}):
            _pause(topic, bool(asked["schedule"]["paused"]), by)
        if "archived" in asked:
            _archive(topic, bool(asked["archived"]), by)
    return topic


def _pause(topic: Topic, paused: bool, by: Actor) -> None:
    """Pause or resume the schedule. Raises InvalidValue if the topic doesn't recur."""
    if paused and topic_editing.schedule_of(topic).preset == Schedule.Preset.NONE:
        problem = _("This topic only runs manually, so there’s no schedule to pause.")
        raise InvalidValue(problem, errors={"schedule.paused": [problem]})
    scheduling.set_paused(topic, paused=paused, by=by)


def _archive(topic: Topic, archived: bool, by: Actor) -> None:
    if archived and topic.archived_at is None:
        topic_editing.archive_topic(topic, by=by)
    elif not archived and topic.archived_at is not None:
        topic_editing.unarchive_topic(topic, by=by)


def _checked(owner: User, asked: Mapping[str, Any], topic: Topic | None) -> tuple[TopicForm, State]:
    """Return the valid form and its state. Raises InvalidValue."""
    filled = _filled(owner, asked, topic)
    form = TopicForm(filled, owner=owner, topic=topic)
    if not form.is_valid():
        raise _refused(form)
    return form, form.state()


def _filled(owner: User, asked: Mapping[str, Any], topic: Topic | None) -> QueryDict:
    """Return what a browser would send: the current values, overridden by the given ones."""
    blank = TopicForm(owner=owner, topic=topic)
    if topic is not None:
        stands = initial_of(topic)
        offered = topic_form.offered()
        # A service that was removed from this site doesn't block changes to other fields.
        stands["services"] = [name for name in stands["services"] if name in offered]
    else:
        stands = {"preset": Schedule.Preset.NONE, "time_zone": owner.time_zone}
    schedule = asked.get("schedule") or {}
    if schedule:
        stands |= _schedule(schedule, stands)
    stands |= {name: value for name, value in asked.items() if name != "schedule"}
    data = QueryDict(mutable=True)
    for name, field in blank.fields.items():
        data.setlist(name, _as_sent(field.prepare_value(stands.get(name))))
    return data


def _schedule(asked: Mapping[str, Any], stands: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's schedule fields. A cron expression by itself selects that preset."""
    chosen = {name: asked[name] for name in SCHEDULE_PARTS if asked.get(name) is not None}
    if chosen.get("cron") and "preset" not in chosen:
        chosen["preset"] = Schedule.Preset.CRON
    if chosen.get("preset", stands.get("preset")) != Schedule.Preset.CRON:
        chosen["cron"] = ""
    return chosen


def _as_sent(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    if value in (None, False, ""):
        return []
    return ["on" if value is True else str(value)]


def _refused(form: TopicForm) -> InvalidValue:
    """Convert the form's errors to InvalidValue, with the caller's field names."""
    errors: dict[str, list[str]] = {}
    for name, problems in form.errors.items():
        told = f"schedule.{name}" if name in SCHEDULE_PARTS else name
        errors[told.replace("__all__", "topic")] = [str(problem) for problem in problems]
    first = next(iter(errors.values()))[0]
    return InvalidValue(_("The topic wasn’t saved. %(why)s") % {"why": first}, errors=errors)
