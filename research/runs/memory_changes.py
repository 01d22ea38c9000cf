"""What a run changed in memory, told from its revisions and its delta items (R248)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from memory.models import Observation, Revision, TopicFact
from memory.records.kinds import kind_of
from research.models import DeltaItem, Run

FACT, OBSERVATION = "topicfact", "observation"


@dataclass(frozen=True, slots=True)
class Change:
    """One fact as the run left it; `note` says what became of it since.

    `fact_id` is empty for a fact that has no page any more.
    """

    kind: str  # new, confirmed, contradicted or retired
    text: str
    fact_id: str = ""
    note: str = ""
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation that was taken from the run; `url` is empty where it has no page any more."""

    text: str
    category: str = ""
    url: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Other:
    """A note, a memory file or another record that the run wrote; `version` is what it made of it."""

    label: str
    noun: str
    url: str
    version: int


@dataclass(slots=True)
class MemoryChanges:
    """The facts a run made, confirmed, contradicted and retired, and other records it wrote."""

    new: list[Change] = field(default_factory=list)
    confirmed: list[Change] = field(default_factory=list)
    contradicted: list[Change] = field(default_factory=list)
    retired: list[Change] = field(default_factory=list)
    observations: list[Observed] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)

    @property
    def groups(self) -> list[tuple[str, str, list[Change]]]:
        """Return (kind, heading, changes) of each kind that there is."""
        found = [
            ("new", _("Facts learnt"), self.new),
            ("confirmed", _("Facts confirmed"), self.confirmed),
            ("contradicted", _("Facts that sources contradict"), self.contradicted),
            ("retired", _("Facts retired to the timeline"), self.retired),
        ]
        return [group for group in found if group[2]]

    @property
    def is_empty(self) -> bool:
        """Whether the run left memory's records as they were."""
        return not self.groups and not self.observations and not self.others


def of_run(run: Run, items: Sequence[DeltaItem]) -> MemoryChanges:
    """Return what `run` changed in memory; three queries."""
    written = Revision.objects.of(run.topic.owner).filter(source=run.source)
    revisions = list(written.order_by("id"))
    ours = [revision for revision in revisions if revision.record_type == FACT]
    facts = _facts([*(r.record_id for r in ours), *(item.previous_fact_id for item in items)])
    told = (FACT, OBSERVATION, "report")
    changes = MemoryChanges(
        observations=_observed([r for r in revisions if r.record_type == OBSERVATION]),
        others=[_other(revision) for revision in revisions if revision.record_type not in told],
    )
    for revision in ours:
        if revision.version == 1:
            text = revision.after.get("text", revision.label)
            changes.new.append(_change("new", text, revision.record_id, facts))
        elif revision.after.get("state") == TopicFact.State.RETIRED:
            fact = facts.get(str(revision.record_id))
            text = fact.text if fact else revision.label
            changes.retired.append(_change("retired", text, revision.record_id, facts))
    for item in items:
        if item.previous_fact_id is None or (item.withheld and not item.is_unasked):
            continue
        kinds = {
            DeltaItem.Status.CONFIRMED.value: changes.confirmed,
            DeltaItem.Status.CONTRADICTED.value: changes.contradicted,
        }
        if item.status in kinds:
            kinds[item.status].append(
                _change(item.status, item.previous_text, item.previous_fact_id, facts)
            )
    return changes


def _other(revision: Revision) -> Other:
    url = reverse("memory:record-open", args=[revision.record_type, revision.record_id])
    noun = str(kind_of(revision.record_type).noun)
    return Other(revision.label, noun, url, revision.version)


def _observed(revisions: Sequence[Revision]) -> list[Observed]:
    """Return the observations that a run made, as they were then, with what became of each."""
    made = [revision for revision in revisions if revision.version == 1]
    rows = Observation.objects.select_related("near_duplicate_of")
    found = rows.in_bulk([revision.record_id for revision in made])
    return [_one_observed(revision, found.get(revision.record_id)) for revision in made]


def _one_observed(revision: Revision, observation: Observation | None) -> Observed:
    text = revision.after.get("content", revision.label)
    if observation is None:
        return Observed(text, note=_("deleted since"))
    note = ""
    if observation.trashed_at is not None:
        note = _("in the trash since")
    elif observation.content != text:
        note = _("reworded since")
    elif observation.near_duplicate_of is not None:
        note = _("almost the same as an older one")
    category = observation.get_category_display()
    return Observed(text, category, observation.get_absolute_url(), note)


def _facts(ids: Iterable[Any]) -> dict[str, TopicFact]:
    wanted = {key for key in ids if key}
    found = TopicFact.objects.filter(pk__in=wanted).only("id", "text", "state", "trashed_at")
    return {str(fact.pk): fact for fact in found}


def _change(kind: str, text: str, key: Any, facts: dict[str, TopicFact]) -> Change:
    """Return the change, with what became of the fact since: each leads to where it is edited."""
    fact = facts.get(str(key))
    note = ""
    if fact is None:
        return Change(kind, text, note=_("deleted since"))
    if fact.trashed_at is not None:
        return Change(kind, text, note=_("in the trash since"))
    if fact.state == TopicFact.State.STRUCK:
        note = _("struck since")
    elif fact.state == TopicFact.State.RETIRED and kind != "retired":
        note = _("retired since")
    elif fact.state == TopicFact.State.CURRENT and kind == "retired":
        note = _("taken back since")
    elif fact.text != text:
        note = _("reworded since")
    return Change(kind, text, str(fact.pk), note, fact.state == TopicFact.State.CURRENT)
