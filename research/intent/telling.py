"""“Tell me such things”: what the topic's intent withheld is told after all, and what is like it.

Data flow: a withheld delta item -> its sentence among the topic's `tell_also`, which the next runs
weigh by -> the item told from now on, by its owner's word -> the report's section written anew.
"""

from __future__ import annotations

from dataclasses import fields

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue, LimitReached
from memory.models import Topic
from research.deltas import text as delta_text
from research.deltas.delta import Change
from research.models import DeltaItem, Report, Run
from research.topic_settings import editing as topic_editing

MOST_ALSO = 50  # sentences of a topic; the judge is shown the latest (`intents.MOST_EXAMPLES`)
_OF_INTENT = (DeltaItem.Judge.MODEL, DeltaItem.Judge.RULE)


def tell_such(run: Run, item_id: int, *, by: Actor) -> DeltaItem:
    """Tell the item, and such things as it from the next run on.

    Raises InvalidValue where it is not withheld by the intent (any more), LimitReached.
    """
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        item: DeltaItem | None = DeltaItem.objects.filter(run=run, pk=item_id).first()
        if item is None or not item.is_unasked or item.judged_by not in _OF_INTENT:
            raise InvalidValue(_("It is not withheld by the topic's intent (any more)."))
        also = topic_editing.settings_of(topic).tell_also
        if len(also) >= MOST_ALSO:
            problem = _(
                "There are %(most)d sentences of such things already, which is the most. Take some "
                "away in the topic's settings, or say there in the intent itself what you want."
            )
            raise LimitReached(problem % {"most": MOST_ALSO})
        wanted = list(dict.fromkeys([*also, item.sentence]))
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = "", DeltaItem.Judge.PERSON
        item.save(update_fields=["withheld", "judged_by"])
        _write_anew(run, by, _("told after all: %(text)s") % {"text": item.sentence[:200]})
    return item


def withhold_again(run: Run, item_id: int, judge: str, *, by: Actor) -> DeltaItem:
    """Take `tell_such` back; `judge` is who had withheld it.  Raises InvalidValue."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        told = DeltaItem.objects.filter(run=run, pk=item_id, judged_by=DeltaItem.Judge.PERSON)
        item: DeltaItem | None = told.first()
        if item is None or judge not in _OF_INTENT:
            raise InvalidValue(_("It is not among what you asked to be told (any more)."))
        also = topic_editing.settings_of(topic).tell_also
        wanted = [text for text in also if text != item.sentence]
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = item.judged or _("not asked for"), judge
        item.save(update_fields=["withheld", "judged_by"])
        _write_anew(run, by, _("withheld again: %(text)s") % {"text": item.sentence[:200]})
    return item


def _write_anew(run: Run, by: Actor, why: str) -> None:
    """Write the report's section from the run's items as they are now."""
    report: Report = run.report
    changes = [_change(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
    is_quiet = not any(change.is_listed for change in changes)
    quiet = delta_text.nothing_asked_for(changes)
    text = delta_text.as_markdown(changes, quiet=quiet, sources=report.sources)
    # The words are the report's own, whoever had them told.
    report.change(by=by, why=why, delta=text, trust=report.trust)
    Report.objects.filter(pk=report.pk).update(is_quiet=is_quiet)


def _change(item: DeltaItem) -> Change:
    names = {field.name for field in fields(Change)} - {"previous_id", "told"}
    return Change(**{name: getattr(item, name) for name in names})
