"""How topics, their facts and reports are put away, brought back and put back as they were."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from memory.actors import Actor
from memory.models import Topic, TopicFact
from memory.records.cascade import Hanging
from memory.records.kinds import RecordKind, register
from research import models
from research.facts import editing as fact_editing
from research.notifications import sent_words
from research.runs import trash
from research.runs import trash as run_trash
from research.topic_settings import editing as topic_editing

_EDITED = frozenset({*topic_editing.TOPIC_FIELDS, *topic_editing.SETTINGS_FIELDS})
_VOUCHED = frozenset({"touched_by_person", "trust"})
_FACT_FIELDS = (*TopicFact.REVISED, *sorted(_VOUCHED), "confirmed_at", "contradicted_at")


def register_kinds() -> None:
    """Tell memory of research's kinds: its trash and its history move them by these rules."""
    register(
        "topic",
        RecordKind(
            _("topic"),
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
            _("topic fact"),
            many=ngettext_lazy("%(n)s topic fact", "%(n)s topic facts", "n"),
            restore=lambda fact, by: fact_editing.restore_fact(fact, by=by),
            put_back=_fact_back,
            address=lambda fact: reverse("research:fact-history", args=[fact.topic.slug, fact.pk]),
        ),
    )
    _register_runs()
    models.Report.ON_PURGE += [run_trash.forget_run, sent_words.forget_run]
    models.RemovedRun.ON_PURGE += [trash.forget_removed_run, sent_words.forget_run]
    Topic.ON_PURGE += [
        run_trash.check_nothing_goes_on,
        trash.forget_history,
        sent_words.forget_topic,
    ]


def _register_runs() -> None:
    """Runs go to the trash by their reports, those without one by themselves."""
    register(
        "report",
        RecordKind(
            _("report"),
            many=ngettext_lazy("%(n)s report", "%(n)s reports", "n"),
            trash=lambda report, by: run_trash.trash_run(report, by=by),
            restore=lambda report, by: run_trash.restore_run(report, by=by),
            along=run_trash.along_with,
            address=lambda report: reverse(
                "research:run", args=[report.run.topic.slug, report.run_id]
            ),
        ),
    )

    register(
        "removedrun",
        RecordKind(
            _("run"),
            many=ngettext_lazy("%(n)s run without a report", "%(n)s runs without a report", "n"),
            trash=lambda removed, by: trash.remove(removed.run, by=by),
            restore=lambda removed, by: trash.restore(removed, by=by),
        ),
    )


def _topic_back(topic: Topic, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Put a topic back by its acts: a name must be free, an archived one starts no runs."""
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
    """Put a fact back by its rules: ten are current at most, and none twice."""
    wanted = {name: fields[name] for name in _FACT_FIELDS if name in fields}
    if not by.is_person:  # an agent vouches for nothing, and withdraws no person's word
        wanted = {name: wanted[name] for name in wanted.keys() - _VOUCHED}
    fact.put_back(wanted, by=by, why=why)
