"""Trying an intent on what the topic's last runs found, before it is saved.

Data flow: the words in the form -> the listed changes of the last five runs, those that are
withheld now too -> weighed as a run would weigh them -> per run what would be told and what not.
Nothing is stored but the model call, where a model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.actors import Actor
from memory.models import Topic
from memory.usage.month_budget import MonthMeter
from research.intent import weighing as intents
from research.intent.rule import Verdict
from research.intent.weighing import Item
from research.models import DeltaItem, Run

RUNS = 5
MOST = 120  # changes, the latest


@dataclass(frozen=True, slots=True)
class TriedItem:
    """One change, and whether it would be told."""

    item: DeltaItem
    verdict: Verdict


@dataclass(slots=True)
class TriedRun:
    """One run's changes as the intent would have them."""

    run: Run
    told: list[TriedItem] = field(default_factory=list)
    withheld: list[TriedItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trial:
    """What the intent makes of the last runs."""

    runs: Sequence[TriedRun]
    warning: str
    by: str
    is_empty: bool  # the intent is: everything is told

    @property
    def opened(self) -> int:
        """Return the newest run in which anything changed, which stands open; 0 for none."""
        return next((one.run.pk for one in self.runs if one.told or one.withheld), 0)

    @property
    def told(self) -> int:
        """Return how many changes would be told."""
        return sum(len(run.told) for run in self.runs)

    @property
    def withheld(self) -> int:
        """Return how many would be withheld."""
        return sum(len(run.withheld) for run in self.runs)


def tried(topic: Topic, intent: str, also: Sequence[str], *, by: Actor) -> Trial:
    """Return what `intent` would tell and withhold of the topic's last runs: two queries."""
    saved = Run.objects.filter(topic=topic, is_baseline=False).exclude(number=None)
    runs = {run.pk: TriedRun(run) for run in saved.order_by("-number")[:RUNS]}
    for one in runs.values():
        one.run.topic = topic
    listed = DeltaItem.objects.filter(run__in=runs, status__in=DeltaItem.LISTED).supported()
    items = list(listed.order_by("-run__number", "position")[:MOST])
    weighed = intents.weigh(
        intent,
        also,
        [Item(item.status, item.sentence, item.previous_text) for item in items],
        about=topic.title,
        owner=topic.owner,
        source=str(by),
        topic=topic,
        meter=MonthMeter(topic.owner),
    )
    for item, verdict in zip(items, weighed.verdicts, strict=True):
        row = runs[item.run_id]
        (row.told if verdict.tell else row.withheld).append(TriedItem(item, verdict))
    return Trial(list(runs.values()), weighed.warning, weighed.by, not intent.strip())
