"""Actions on topics: bulk actions, memory expiry, Trash, undo and permanent deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from beacon_site.text.cleaning import one_line
from memory.models import Activity, Remembered, Topic, TopicFact
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.services.records.kinds import RecordKind, register
from research import models
from research.models import Run, RunAlreadyActive
from research.services.facts import affected
from research.services.facts import correcting as fact_editing
from research.services.notifications import sending
from research.services.runs import trash
from research.services.runs.execution.starting import RunNotAllowed, start_run
from research.services.runs.presenters import memory_words
from research.services.schedules import scheduling
from research.services.topics import sharing
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings.editing import archive_topic, unarchive_topic


@dataclass(frozen=True, slots=True)
class TopicAct:
    """An action on topics with its messages, and the action that undoes it.

    `do` returns None if nothing changes, otherwise what else to say. `many` is the message of a
    bulk action; without one, the action applies only to single topics.
    """

    do: Callable[[Topic, Actor], str | None]
    said: str | Promise = ""
    unchanged: str | Promise = ""
    inverse: str = ""
    many: Any = None  # an ngettext_lazy, for which the stubs have no type


def _run(topic: Topic, by: Actor) -> str:
    start_run(topic, trigger=Run.Trigger.PERSON, by=by)
    return ""


def _pause(topic: Topic, by: Actor) -> str | None:
    return "" if scheduling.set_paused(topic, paused=True, by=by) else None


def _resume(topic: Topic, by: Actor) -> str | None:
    return "" if scheduling.set_paused(topic, paused=False, by=by) else None


def _archive(topic: Topic, by: Actor) -> str | None:
    if topic.archived_at is not None:
        return None
    return _("The topic’s queued run was cancelled.") if archive_topic(topic, by=by) else ""


def _unarchive(topic: Topic, by: Actor) -> str | None:
    if topic.archived_at is None:
        return None
    unarchive_topic(topic, by=by)
    return ""


def _end_memory(topic: Topic, by: Actor) -> str | None:
    """Expire the working memory now. It is kept but no longer loaded."""
    if not topic.memory_is_live():
        return None
    with transaction.atomic():
        topic.expire_now(by=by)
        Activity.log(topic.owner, by, "memory-ended", subject=topic)
    return ""


def _revive(topic: Topic, by: Actor) -> str | None:
    """Restore expired memory for as long as a save would."""
    if not topic.memory_has_lapsed:
        return None
    with transaction.atomic():
        topic.revive(by=by, until=timezone.now() + scheduling.memory_lifetime(topic))
        Activity.log(topic.owner, by, "memory-revived", subject=topic)
    return _("The topic’s memory %(expires)s.") % {"expires": memory_words(topic)}


ACTS: dict[str, TopicAct] = {
    # A started run can't be undone, but can be cancelled on its page.
    "run": TopicAct(_run, many=ngettext_lazy("Started %(n)d run.", "Started %(n)d runs.", "n")),
    "pause": TopicAct(
        _pause,
        gettext_lazy("“%(topic)s” paused. It won’t run on its schedule until you resume it."),
        gettext_lazy("This topic is already paused, or has no schedule."),
        "resume",
        ngettext_lazy("Paused %(n)d topic.", "Paused %(n)d topics.", "n"),
    ),
    "resume": TopicAct(
        _resume,
        gettext_lazy("“%(topic)s” resumed. It runs on its schedule again."),
        gettext_lazy("This topic isn’t paused, or has no schedule."),
        "pause",
        ngettext_lazy("Resumed %(n)d topic.", "Resumed %(n)d topics.", "n"),
    ),
    "archive": TopicAct(
        _archive,
        gettext_lazy("“%(topic)s” archived. Everything is kept, but the topic won’t run."),
        gettext_lazy("This topic is already archived."),
        "unarchive",
        ngettext_lazy("Archived %(n)d topic.", "Archived %(n)d topics.", "n"),
    ),
    "unarchive": TopicAct(
        _unarchive,
        gettext_lazy("“%(topic)s” unarchived."),
        gettext_lazy("This topic isn’t archived."),
        "archive",
        ngettext_lazy("Unarchived %(n)d topic.", "Unarchived %(n)d topics.", "n"),
    ),
    "end-memory": TopicAct(
        _end_memory,
        gettext_lazy(
            "Memory expired. It’s kept, but the next run won’t load it and will be a baseline."
        ),
        gettext_lazy("There’s no active memory to expire."),
        "revive",
    ),
    "revive": TopicAct(
        _revive,
        gettext_lazy("Memory restored."),
        gettext_lazy("This topic’s memory hasn’t expired."),
        "end-memory",
    ),
}


def act_on(topics: Iterable[Topic], act: str, *, by: Actor) -> tuple[dict[Any, str], list[str]]:
    """Do `act` (a key of ACTS) on each topic. One that refuses doesn't stop the others.

    Returns what else happened, by the key of each topic that was changed, and why others weren't.
    """
    done: dict[Any, str] = {}
    reasons: list[str] = []
    for topic in topics:
        try:
            more = ACTS[act].do(topic, by)
            if more is not None:
                done[topic.pk] = more
        except (RunAlreadyActive, RunNotAllowed, MemoryRefused) as exc:
            reasons.append(f"{topic}: {exc}")
            if isinstance(exc, RunNotAllowed) and exc.retry_after:
                break  # the hourly limit applies to all that follow
    return done, reasons


def describe(act: str, done: int, reasons: Sequence[str], count: int) -> str:
    """Return the result of a bulk action as a sentence for the person."""
    words = str(ACTS[act].many % {"n": done})
    left = count - done
    if left:
        words += " " + ngettext(
            "%(left)d topic wasn’t changed.", "%(left)d topics weren’t changed.", left
        ) % {"left": left}
    if reasons:
        words += " " + " ".join(reasons[:3])
    elif left and act in ("pause", "resume"):
        words += " " + _("Topics without a schedule run only when you start them.")
    return words


# --- permanent deletion ---


def purge_topic(topic: Topic, *, typed: str, by: Actor) -> None:
    """Permanently delete a trashed topic with its facts, runs and reports.

    Raises InvalidValue unless `typed` is its name and it is in the trash.
    """
    if topic.trashed_at is None:
        raise InvalidValue(_("Only items in Trash can be deleted permanently."))
    if one_line(typed) != one_line(topic.title):
        problem = _("That doesn’t match. Type “%(title)s” to confirm.")
        problem %= {"title": topic.title}
        raise InvalidValue(problem, errors={"name": [problem]})
    topic.purge(by=by)


# --- research's records in Trash and history ---

_EDITED = frozenset({*topic_editing.TOPIC_FIELDS, *topic_editing.SETTINGS_FIELDS})
_VOUCHED = frozenset({"edited_by_person", "trust"})
_FACT_FIELDS = (*TopicFact.REVISED, *sorted(_VOUCHED), "confirmed_at", "contradicted_at")


def register_record_moves() -> None:
    """Register how memory's trash and history move research's records."""
    register(
        "topic",
        RecordKind(
            gettext_lazy("topic"),
            many=ngettext_lazy("%(n)s topic", "%(n)s topics", "n"),
            trash=lambda topic, by: topic_editing.trash_topic(topic, by=by),
            restore=lambda topic, by: topic_editing.restore_topic(topic, by=by),
            restore_state=_topic_back,
            more=topic_editing.state_of,
            purge_page="research:topic-purge",
            hanging=(
                (models.Run, "topic", ngettext_lazy("%(n)s run", "%(n)s runs", "n")),
                (TopicFact, "topic", ngettext_lazy("%(n)s fact", "%(n)s facts", "n")),
            ),
        ),
    )
    register(
        "topicfact",
        RecordKind(
            gettext_lazy("topic fact"),
            many=ngettext_lazy("%(n)s topic fact", "%(n)s topic facts", "n"),
            restore=lambda fact, by: fact_editing.restore_fact(fact, by=by),
            restore_state=_fact_back,
        ),
    )
    _register_runs()
    Remembered.BEFORE_PURGE.append(affected.prepare_purge)
    models.Report.ON_PURGE += [trash.forget_run, sending.forget_run, sharing.forget_former_texts]
    models.RemovedRun.ON_PURGE += [trash.forget_removed_run, sending.forget_run]
    Topic.ON_PURGE += [
        trash.check_not_running,
        trash.forget_history,
        sending.forget_topic,
        sharing.forget_former_texts,
    ]


def _register_runs() -> None:
    """Register runs. Those with a report move to the trash with it, the others by themselves."""
    register(
        "report",
        RecordKind(
            gettext_lazy("report"),
            many=ngettext_lazy("%(n)s report", "%(n)s reports", "n"),
            trash=lambda report, by: trash.trash_run(report, by=by),
            restore=lambda report, by: trash.restore_run(report, by=by),
            along=trash.trashed_labels,
        ),
    )

    register(
        "removedrun",
        RecordKind(
            gettext_lazy("run"),
            many=ngettext_lazy("%(n)s run without a report", "%(n)s runs without a report", "n"),
            trash=lambda removed, by: trash.remove(removed.run, by=by),
            restore=lambda removed, by: trash.restore(removed, by=by),
        ),
    )


def _topic_back(topic: Topic, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore a topic by its own actions.

    Its name must be free, and an archived topic starts no runs.
    """
    if "archived_at" in fields:
        put_away = fields["archived_at"] is not None
        move = topic_editing.archive_topic if put_away else topic_editing.unarchive_topic
        move(topic, by=by)
    values = {name: value for name, value in fields.items() if name in _EDITED}
    if values:
        topic_editing.edit_topic(topic, by=by, wanted=values)
        topic.refresh_from_db()
    rest = fields.keys() - _EDITED - {"archived_at", "slug"}
    if rest:
        topic.change(by=by, why=why, **{name: fields[name] for name in rest})


def _fact_back(fact: TopicFact, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore a fact by its own rules: at most ten are current, and none twice."""
    values = {name: fields[name] for name in _FACT_FIELDS if name in fields}
    if not by.is_person:  # an agent can't vouch for a fact, or withdraw what a person said
        values = {name: values[name] for name in values.keys() - _VOUCHED}
    fact.restore_state(values, by=by, why=why)
