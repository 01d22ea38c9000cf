"""Actions on topics: bulk actions, memory expiry, Trash, undo and permanent deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from beacon_site.text.cleaning import one_line
from memory.accounts.settings_undo import Setting, now
from memory.accounts.settings_undo import State as SettingState
from memory.accounts.settings_undo import register as register_undo
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Activity, Topic, TopicFact, User
from memory.records.kinds import Hanging, RecordKind, register
from research import models
from research.execution.starting import NotNow, start_run
from research.facts import correcting as fact_editing
from research.models import Channel, Run, RunInTheWay, TopicNotices
from research.notifications import channels, digests, sending
from research.runs import trash
from research.schedules import scheduling
from research.topic_settings import editing as topic_editing
from research.topic_settings.editing import archive_topic, unarchive_topic

# The action that undoes each one. A started run can't be undone, but can be cancelled on its page.
UNDOES = {"pause": "resume", "resume": "pause", "archive": "unarchive", "unarchive": "archive"}


@dataclass(slots=True)
class Outcome:
    """The topics that were changed, and why the others weren't."""

    done: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def _run(topic: Topic, by: Actor) -> bool:
    start_run(topic, trigger=Run.Trigger.PERSON, by=by)
    return True


def _pause(topic: Topic, by: Actor) -> bool:
    return scheduling.set_paused(topic, paused=True, by=by)


def _resume(topic: Topic, by: Actor) -> bool:
    return scheduling.set_paused(topic, paused=False, by=by)


def _archive(topic: Topic, by: Actor) -> bool:
    if topic.archived_at is not None:
        return False
    archive_topic(topic, by=by)
    return True


def _unarchive(topic: Topic, by: Actor) -> bool:
    if topic.archived_at is None:
        return False
    unarchive_topic(topic, by=by)
    return True


ACTS: dict[str, Callable[[Topic, Actor], bool]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "archive": _archive,
    "unarchive": _unarchive,
}


def act_on(topics: Iterable[Topic], act: str, *, by: Actor) -> Outcome:
    """Do `act` (a key of ACTS) on each topic. One that refuses doesn't stop the others."""
    outcome = Outcome()
    for topic in topics:
        try:
            if ACTS[act](topic, by):
                outcome.done.append(topic.pk)
        except (RunInTheWay, NotNow, MemoryRefused) as exc:
            reason = f"{topic}: {exc}"
            outcome.reasons.append(reason)
            if isinstance(exc, NotNow) and exc.retry_after:
                break  # the hourly limit applies to all that follow
    return outcome


def in_words(act: str, outcome: Outcome, asked: int) -> str:
    """Return the result as a sentence for the person."""
    done = len(outcome.done)
    sentences = {
        "run": ngettext("Started %(done)d run.", "Started %(done)d runs.", done),
        "pause": ngettext("Paused %(done)d topic.", "Paused %(done)d topics.", done),
        "resume": ngettext("Resumed %(done)d topic.", "Resumed %(done)d topics.", done),
        "archive": ngettext("Archived %(done)d topic.", "Archived %(done)d topics.", done),
        "unarchive": ngettext("Unarchived %(done)d topic.", "Unarchived %(done)d topics.", done),
    }
    words = sentences[act] % {"done": done}
    left = asked - done
    if left:
        words += " " + ngettext("%(left)d wasn’t changed.", "%(left)d weren’t changed.", left) % {
            "left": left
        }
    if outcome.reasons:
        words += " " + " ".join(outcome.reasons[:3])
    elif left and act in ("pause", "resume"):
        words += " " + _("Topics without a schedule only run manually.")
    return words


# --- memory of a topic ---


def end_memory(topic: Topic, *, by: Actor) -> bool:
    """Expire the working memory now. It is kept but no longer loaded. Return whether any was live."""
    if not topic.memory_is_live():
        return False
    with transaction.atomic():
        topic.let_lapse(by=by)
        Activity.log(topic.owner, by, "memory-ended", subject=topic)
    return True


def revive_memory(topic: Topic, *, by: Actor) -> bool:
    """Restore expired memory for as long as a save would. Return whether any had expired."""
    if not topic.memory_has_lapsed:
        return False
    with transaction.atomic():
        topic.revive(by=by, until=timezone.now() + scheduling.memory_lifetime(topic))
        Activity.log(topic.owner, by, "memory-revived", subject=topic)
    return True


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
_VOUCHED = frozenset({"touched_by_person", "trust"})
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
            put_back=_topic_back,
            more=topic_editing.state_of,
            address=lambda topic: reverse("research:topic", args=[topic.slug]),
            purge_page="research:topic-purge",
            hanging=(
                Hanging(models.Run, "topic", ngettext_lazy("%(n)s run", "%(n)s runs", "n")),
                Hanging(TopicFact, "topic", ngettext_lazy("%(n)s fact", "%(n)s facts", "n")),
            ),
        ),
    )
    register(
        "topicfact",
        RecordKind(
            gettext_lazy("topic fact"),
            many=ngettext_lazy("%(n)s topic fact", "%(n)s topic facts", "n"),
            restore=lambda fact, by: fact_editing.restore_fact(fact, by=by),
            put_back=_fact_back,
            address=lambda fact: reverse("research:fact-history", args=[fact.topic.slug, fact.pk]),
        ),
    )
    _register_runs()
    models.Report.ON_PURGE += [trash.forget_run, sending.forget_run]
    models.RemovedRun.ON_PURGE += [trash.forget_removed_run, sending.forget_run]
    Topic.ON_PURGE += [
        trash.check_nothing_goes_on,
        trash.forget_history,
        sending.forget_topic,
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
            along=trash.along_with,
            address=lambda report: reverse(
                "research:run", args=[report.run.topic.slug, report.run_id]
            ),
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
    wanted = {name: value for name, value in fields.items() if name in _EDITED}
    if wanted:
        topic_editing.edit_topic(topic, by=by, wanted=wanted)
        topic.refresh_from_db()
    rest = fields.keys() - _EDITED - {"archived_at", "slug"}
    if rest:
        topic.change(by=by, why=why, **{name: fields[name] for name in rest})


def _fact_back(fact: TopicFact, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore a fact by its own rules: at most ten are current, and none twice."""
    wanted = {name: fields[name] for name in _FACT_FIELDS if name in fields}
    if not by.is_person:  # an agent can't vouch for a fact, or withdraw what a person said
        wanted = {name: wanted[name] for name in wanted.keys() - _VOUCHED}
    fact.put_back(wanted, by=by, why=why)


# --- undoing changes to settings ---

_DIGEST = ("often", "hour", "weekday", "even_if_quiet")
_NOTICES = ("own", "reports", "failures", "in_digest")


def register_settings() -> None:
    """Register research's settings with memory."""
    register_undo("topic", Setting(_topic, _put_topic))
    register_undo("digest", Setting(_digest, _put_digest))
    register_undo("notices", Setting(_notices, _put_notices))


def _found(owner: User, target: str) -> Topic | None:
    topics = Topic.objects.of(owner).live().select_related("owner")
    found: Topic | None = topics.filter(pk=target).first()
    return found


def _topic(owner: User, target: str) -> SettingState | None:
    topic = _found(owner, target)
    return topic_editing.state_of(topic) if topic is not None else None


def _put_topic(owner: User, target: str, values: SettingState, by: Actor) -> None:
    topic = Topic.objects.of(owner).live().get(pk=target)
    topic_editing.edit_topic(topic, by=by, wanted=dict(values))


def _digest(owner: User, _target: str) -> SettingState | None:
    chosen = digests.settings_of(owner)
    out = TopicNotices.objects.filter(topic__owner=owner, in_digest=False)
    left_out = sorted(str(pk) for pk in out.values_list("topic_id", flat=True))
    return {name: getattr(chosen, name) for name in _DIGEST} | {"left_out": left_out}


def _put_digest(owner: User, target: str, values: SettingState, by: Actor) -> None:
    wanted: dict[str, Any] = {**now(owner, "digest", target), **values}
    left_out = Topic.objects.of(owner).filter(pk__in=wanted.pop("left_out"))
    digests.save_settings(owner, by=by, left_out=left_out, **wanted)


def _notices(owner: User, target: str) -> SettingState | None:
    topic = _found(owner, target)
    if topic is None:
        return None
    chosen = channels.choice_of(topic)
    out = chosen.left_out.values_list("pk", flat=True) if chosen.pk else ()
    left_out = sorted(str(pk) for pk in out)
    return {name: getattr(chosen, name) for name in _NOTICES} | {"left_out": left_out}


def _put_notices(owner: User, target: str, values: SettingState, by: Actor) -> None:
    wanted: dict[str, Any] = {**now(owner, "notices", target), **values}
    topic = Topic.objects.of(owner).live().select_related("owner").get(pk=target)
    left_out = Channel.objects.of(owner).filter(pk__in=wanted.pop("left_out"))
    channels.choose(topic, by=by, left_out=left_out, **wanted)
