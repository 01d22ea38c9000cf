"""The settings that a run used and its changes to memory, as rows for its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import UUIDField, Value
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Observation, Revision, TopicFact
from memory.records.kinds import kind_of
from research.models import DeltaItem, Run
from research.search import searching
from research.steps import planning

_MANIFEST = {
    "beacon": gettext_lazy("Beacon"),
    "depth": gettext_lazy("Depth"),
    "objective": gettext_lazy("Objective"),
    "focus": gettext_lazy("Focus"),
    "time_frame": gettext_lazy("Time frame"),
    "languages": gettext_lazy("Languages"),
    "services": gettext_lazy("Services"),
    "allow_domains": gettext_lazy("Only these domains"),
    "block_domains": gettext_lazy("Never these domains"),
    "block_pages": gettext_lazy("Never these pages"),
    "always_checked": gettext_lazy("Always checked"),
    "left_out": gettext_lazy("Results skipped by your rules"),
    "intent": gettext_lazy("Notify only about"),
    "queries": gettext_lazy("Queries"),
    "planned_by": gettext_lazy("Plan"),
    "proposed": gettext_lazy("Plan before your edits"),
    "rerun_of": gettext_lazy("Repeats"),
    "written_by": gettext_lazy("Written by"),
    "models": gettext_lazy("Models used"),
    "settings": gettext_lazy("All settings"),
    "budget": gettext_lazy("Budget"),
}

_IN_WORDS = {"services": searching.label_of, "planned_by": planning.by_words}


def manifest_rows(run: Run) -> list[tuple[str, list[str]]]:
    """Return the run's settings as labels and values, without those that aren't set."""
    rows = []
    for name, value in run.manifest.items():
        in_words = _IN_WORDS.get(name, str)
        values = [in_words(one) for one in _values(value)]
        if values:
            rows.append((str(_MANIFEST.get(name, name.replace("_", " ").capitalize())), values))
    return rows


def _values(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {one}" for name, one in value.items() if one not in (None, "", [])]
    if isinstance(value, list):
        return [str(one) for one in value]
    return [str(value)] if value not in (None, "") else []


# --- changes to memory, from revisions and delta items (R248) ---

FACT, OBSERVATION = "topicfact", "observation"


@dataclass(frozen=True, slots=True)
class Change:
    """One fact after the run. `note` says what happened to it since.

    `fact_id` is empty if the fact no longer has a page.
    """

    kind: str  # new, confirmed, contradicted or retired
    text: str
    fact_id: str = ""
    note: str = ""
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class ManifestObservation:
    """An observation from the run. `url` is empty if it no longer has a page."""

    text: str
    category: str = ""
    url: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ManifestRecord:
    """A note, memory file or other record that the run wrote, in the `version` it created."""

    label: str
    noun: str
    url: str
    version: int


@dataclass(slots=True)
class MemoryChanges:
    """The facts a run created, confirmed, contradicted and retired, and other records it wrote."""

    new: list[Change] = field(default_factory=list)
    confirmed: list[Change] = field(default_factory=list)
    contradicted: list[Change] = field(default_factory=list)
    retired: list[Change] = field(default_factory=list)
    observations: list[ManifestObservation] = field(default_factory=list)
    others: list[ManifestRecord] = field(default_factory=list)

    @property
    def groups(self) -> list[tuple[str, str, list[Change]]]:
        """Return (kind, heading, changes) for each kind with changes."""
        found = [
            ("new", _("Facts learned"), self.new),
            ("confirmed", _("Facts confirmed"), self.confirmed),
            ("contradicted", _("Facts contradicted by sources"), self.contradicted),
            ("retired", _("Replaced facts"), self.retired),
        ]
        return [group for group in found if group[2]]

    @property
    def is_empty(self) -> bool:
        """Whether the run changed no records."""
        return not self.groups and not self.observations and not self.others


def of_run(run: Run, items: Sequence[DeltaItem]) -> MemoryChanges:
    """Return what `run` changed in memory, in two queries."""
    written = Revision.objects.of(run.topic.owner).filter(source=run.source)
    revisions = list(written.order_by("id"))
    ours = [revision for revision in revisions if revision.record_type == FACT]
    seen = [r for r in revisions if r.record_type == OBSERVATION and r.version == 1]
    facts, observations = _as_of_now(
        [*(r.record_id for r in ours), *(item.previous_fact_id for item in items)],
        [r.record_id for r in seen],
    )
    told = (FACT, OBSERVATION, "report")
    changes = MemoryChanges(
        observations=[_one_observed(r, observations.get(str(r.record_id))) for r in seen],
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


def _other(revision: Revision) -> ManifestRecord:
    url = reverse("memory:record-open", args=[revision.record_type, revision.record_id])
    noun = str(kind_of(revision.record_type).noun)
    return ManifestRecord(revision.label, noun, url, revision.version)


def _one_observed(revision: Revision, observation: Observation | None) -> ManifestObservation:
    """Return an observation as the run created it, and what happened to it since."""
    text = revision.after.get("content", revision.label)
    if observation is None:
        return ManifestObservation(text, note=_("since deleted"))
    note = ""
    if observation.trashed_at is not None:
        note = _("now in Trash")
    elif observation.content != text:
        note = _("since reworded")
    elif observation.near_duplicate_of_id is not None:
        note = _("almost identical to an older one")
    category = observation.get_category_display()
    return ManifestObservation(text, category, observation.get_absolute_url(), note)


def _as_of_now(
    fact_ids: Iterable[Any], observation_ids: Iterable[Any]
) -> tuple[dict[str, TopicFact], dict[str, Observation]]:
    """Return the current facts and observations by id, in one query."""
    wanted, seen = {key for key in fact_ids if key}, set(observation_ids)
    if not wanted and not seen:
        return {}, {}
    nothing = Cast(Value(None), UUIDField())
    facts = TopicFact.objects.filter(pk__in=wanted).order_by()
    rows = facts.values_list(Value(FACT), "pk", "text", "state", "trashed_at", nothing)
    others = (
        Observation.objects.filter(pk__in=seen)
        .order_by()
        .values_list(
            Value(OBSERVATION), "pk", "content", "category", "trashed_at", "near_duplicate_of"
        )
    )
    found: dict[str, TopicFact] = {}
    observed: dict[str, Observation] = {}
    for kind, key, text, word, trashed_at, twin in rows.union(others, all=True):
        if kind == FACT:
            found[str(key)] = TopicFact(pk=key, text=text, state=word, trashed_at=trashed_at)
        else:
            observed[str(key)] = Observation(
                pk=key,
                content=text,
                category=word,
                trashed_at=trashed_at,
                near_duplicate_of_id=twin,
            )
    return found, observed


def _change(kind: str, text: str, key: Any, facts: dict[str, TopicFact]) -> Change:
    """Return the change with what happened to the fact since, and a link to edit it."""
    fact = facts.get(str(key))
    note = ""
    if fact is None:
        return Change(kind, text, note=_("since deleted"))
    if fact.trashed_at is not None:
        return Change(kind, text, note=_("now in Trash"))
    if fact.state == TopicFact.State.STRUCK:
        note = _("since marked as wrong")
    elif fact.state == TopicFact.State.RETIRED and kind != "retired":
        note = _("since replaced")
    elif fact.state == TopicFact.State.CURRENT and kind == "retired":
        note = _("since restored")
    elif fact.text != text:
        note = _("since reworded")
    return Change(kind, text, str(fact.pk), note, fact.state == TopicFact.State.CURRENT)
