"""Feedback on a topic's intent: report a filtered-out change after all, and try an intent.

Data flow: a filtered-out delta item -> its sentence in the topic's `tell_also`, which later runs
use as an example -> the item is reported from now on -> the report's section is rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from django.db import transaction
from django.utils.translation import gettext as _

from memory.models import Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.services.llm.booking import MonthMeter
from research.models import DeltaItem, Report, Run
from research.services.intent import weighing as intents
from research.services.intent.rule import Verdict
from research.services.intent.weighing import Item
from research.services.runs.reporting import merged_deltas as delta_text
from research.services.runs.reporting.delta import Change
from research.services.topics.settings import editing as topic_editing

MOST_ALSO = 50  # per topic; the judge sees the latest (`weighing.MOST_EXAMPLES`)
_OF_INTENT = (DeltaItem.Judge.MODEL, DeltaItem.Judge.RULE)


def notify_about_similar(run: Run, item_id: int, *, by: Actor) -> DeltaItem:
    """Report the item, and similar ones starting with the next run.

    Raises LimitReached, and InvalidValue if the intent doesn't filter the item out, or no longer does.
    """
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        item: DeltaItem | None = DeltaItem.objects.filter(run=run, pk=item_id).first()
        if item is None or not item.is_unasked or item.judged_by not in _OF_INTENT:
            raise InvalidValue(_("This change isn’t currently filtered out."))
        also = topic_editing.settings_of(topic).tell_also
        if len(also) >= MOST_ALSO:
            problem = _(
                "You’ve reached the limit of %(most)d examples. Remove some in the topic’s settings, or describe what you want under “Notify me about”."
            )
            raise LimitReached(problem % {"most": MOST_ALSO})
        wanted = list(dict.fromkeys([*also, item.sentence]))
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = "", DeltaItem.Judge.PERSON
        item.save(update_fields=["withheld", "judged_by"])
        _rewrite_delta_section(
            run, by, _("no longer filtered out: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def withhold_again(run: Run, item_id: int, judge: str, *, by: Actor) -> DeltaItem:
    """Undo `notify_about_similar`. `judge` had filtered the item out before. Raises InvalidValue."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        told = DeltaItem.objects.filter(run=run, pk=item_id, judged_by=DeltaItem.Judge.PERSON)
        item: DeltaItem | None = told.first()
        if item is None or judge not in _OF_INTENT:
            raise InvalidValue(_("You haven’t asked to see changes like this, or no longer do."))
        also = topic_editing.settings_of(topic).tell_also
        wanted = [text for text in also if text != item.sentence]
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = item.judged or _("doesn’t match your filter"), judge
        item.save(update_fields=["withheld", "judged_by"])
        _rewrite_delta_section(
            run, by, _("filtered out again: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def _rewrite_delta_section(run: Run, by: Actor, why: str) -> None:
    """Rewrite the report's section from the run's current items."""
    report: Report = run.report
    changes = [_change(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
    is_quiet = not any(change.is_listed for change in changes)
    quiet = delta_text.nothing_asked_for(changes)
    text = delta_text.as_markdown(changes, quiet=quiet, sources=report.sources)
    # The text comes from the report, no matter who asked to report the change.
    report.change(by=by, why=why, delta=text, trust=report.trust)
    Report.objects.filter(pk=report.pk).update(is_quiet=is_quiet)


def _change(item: DeltaItem) -> Change:
    names = {field.name for field in fields(Change)} - {"previous_id", "told"}
    return Change(**{name: getattr(item, name) for name in names})


# --- trying an intent ---

RUNS = 5
MOST = 120  # the latest changes


@dataclass(slots=True)
class TriedRun:
    """One run's changes as the intent would filter them."""

    run: Run
    told: list[tuple[DeltaItem, Verdict]] = field(default_factory=list)
    withheld: list[tuple[DeltaItem, Verdict]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trial:
    """The effect of an intent on the last runs."""

    runs: Sequence[TriedRun]
    warning: str
    by: str
    is_empty: bool  # the intent is empty, so everything is reported

    @property
    def opened(self) -> int:
        """Return the newest run with changes, which is shown expanded, or 0."""
        return next((one.run.pk for one in self.runs if one.told or one.withheld), 0)

    @property
    def told(self) -> int:
        """Return how many changes would be reported."""
        return sum(len(run.told) for run in self.runs)

    @property
    def withheld(self) -> int:
        """Return how many would be filtered out."""
        return sum(len(run.withheld) for run in self.runs)


def tried(topic: Topic, intent: str, also: Sequence[str], *, by: Actor) -> Trial:
    """Return how `intent` would filter the topic's last runs, in two queries."""
    saved = Run.objects.filter(topic=topic, is_baseline=False).exclude(number=None)
    runs = {run.pk: TriedRun(run) for run in saved.order_by("-number")[:RUNS]}
    for one in runs.values():
        one.run.topic = topic
    listed = DeltaItem.objects.filter(run__in=runs, status__in=DeltaItem.LISTED).supported()
    items = list(listed.order_by("-run__number", "position")[:MOST])
    verdicts, warning, judge = intents.weigh(
        intent,
        also,
        [Item(item.status, item.sentence, item.previous_text) for item in items],
        about=topic.title,
        owner=topic.owner,
        source=str(by),
        topic=topic,
        meter=MonthMeter(topic.owner),
    )
    for item, verdict in zip(items, verdicts, strict=True):
        row = runs[item.run_id]
        (row.told if verdict.tell else row.withheld).append((item, verdict))
    return Trial(list(runs.values()), warning, judge, not intent.strip())
