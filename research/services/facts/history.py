"""The history of facts: who changed them and when, and which were known after each run."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypedDict

from django.db.models import CharField, Count, Q, Value
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memory.models import Lock, Observation, Proposal, Revision, Topic, TopicFact, Use, origins
from research.models import DeltaItem, Hit, Run

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


Piece = tuple[str, str]  # "same", "ins" or "del", and a run of words


class FactChange(TypedDict):
    """One revision as a row: its description (`said`), and the words that changed."""

    revision: Revision
    run: Run | None
    who: str
    said: list[str]
    words: list[Piece]


def history_of(fact: TopicFact) -> list[FactChange]:
    """Return the fact's changes, newest first, in two queries."""
    revisions = list(
        Revision.objects.filter(record_type=fact.record_type(), record_id=fact.pk).order_by("-id")
    )
    ids = {
        r.source[4:] for r in revisions if r.source.startswith("run:") and r.source[4:].isdecimal()
    }
    runs = Run.objects.filter(topic=fact.topic_id).in_bulk(ids) if ids else {}
    return [_change(revision, runs) for revision in revisions]


def _change(revision: Revision, runs: dict[Any, Run]) -> FactChange:
    before, after = revision.before, revision.after
    number = revision.source.removeprefix("run:")
    words: list[Piece] = []
    if not before:
        words = [("same", str(after.get("text", "")))]
    elif "text" in before and before["text"] != after.get("text"):
        words = word_diff(str(before["text"]), str(after["text"]))
    return {
        "revision": revision,
        "run": runs.get(int(number)) if number.isdecimal() else None,
        "who": revision.actor.removeprefix("human:"),
        "said": _describe_change(before, after) if before else [_("created")],
        "words": words,
    }


def _describe_change(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what a revision changed besides the text."""
    states = dict(TopicFact.State.choices)
    changed = {name for name in after if before.get(name) != after[name]}
    texts = []
    if "text" in changed:
        texts.append(_("text changed"))
    if "url" in changed:
        texts.append(_("source changed to %(url)s") % {"url": after["url"] or _("empty")})
    if "state" in changed:
        texts.append(
            _("%(old)s → %(new)s")
            % {"old": states.get(before["state"], ""), "new": states.get(after["state"], "")}
        )
    if "lock" in changed:
        texts.append(_("unlocked") if after["lock"] == Lock.OPEN else _("locked"))
    if "position" in changed:
        places = {"old": before["position"], "new": after["position"]}
        texts.append(_("position %(old)s → %(new)s") % places)
    if "trashed_at" in changed:
        texts.append(_("moved to Trash") if after["trashed_at"] else _("restored from Trash"))
    return texts


def word_diff(before: str, after: str) -> list[Piece]:
    """Return both texts as one, with deleted and inserted words."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    pieces: list[Piece] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            pieces.append(("same", "".join(old[a:b])))
            continue
        if a < b:
            pieces.append(("del", "".join(old[a:b])))
        if c < d:
            pieces.append(("ins", "".join(new[c:d])))
    return pieces


# --- where a fact comes from, and what depends on it ---

MAX_SHOWN = 20  # of each kind


@dataclass
class Trail:
    """Everything before and after a fact: page, query and run, and what used or repeats it.

    Each part is loaded when it is shown. At most nine queries.
    """

    fact: TopicFact

    @cached_property
    def run(self) -> Run | None:
        fact = self.fact
        return Run.objects.filter(topic=fact.topic_id, number=fact.first_run or 0).first()

    @cached_property
    def hit(self) -> Hit | None:
        """Return the search result that led to its page."""
        if not (self.run and self.fact.url):
            return None
        return Hit.objects.filter(run=self.run, link=self.fact.url).first()

    @property
    def query(self) -> dict[str, Any]:
        """Return the query that found the page: its text, service and rank."""
        found: list[dict[str, Any]] = self.hit.queries if self.hit else []
        return found[0] if found else {}

    @cached_property
    def answers(self) -> list[TopicFact]:
        """Return the answers to the same question, the oldest first, with this one."""
        answers = TopicFact.objects.filter(topic=self.fact.topic_id, chain=self.fact.chain).live()
        return list(answers.order_by("created", "pk")[:MAX_SHOWN])

    @cached_property
    def uses(self) -> list[tuple[origins.Origin, datetime]]:
        """Return the latest prompts and answers that used it, and when."""
        latest = list(self._uses.order_by("-used_at", "-id")[:MAX_SHOWN])
        places = origins.of(self.fact.owner, {use.place for use in latest})
        return [(places[use.place], use.used_at) for use in latest if use.place in places]

    @cached_property
    def reports(self) -> list[DeltaItem]:
        """Return where reports mention it, the latest first."""
        found = self._items.select_related("run").order_by("-run__number", "position")
        return list(found[:MAX_SHOWN])

    @cached_property
    def observations(self) -> list[Observation]:
        return list(self._observations.order_by("-created")[:MAX_SHOWN])

    @cached_property
    def proposals(self) -> list[Proposal]:
        """Return the waiting proposals with its words, as they would be stored."""
        return list(self._proposals[:MAX_SHOWN])

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return how many of each kind depend on the fact, in one query."""
        found = {
            "uses": (self._uses, Count("pk")),
            "reports": (self._items, Count("run", distinct=True)),
            "observations": (self._observations, Count("pk")),
            "proposals": (self._proposals, Count("pk")),
        }
        first, *others = (
            rows.order_by()
            .annotate(what=Value(name, output_field=CharField()))
            .values("what")
            .annotate(n=number)
            .values_list("what", "n")
            for name, (rows, number) in found.items()
        )
        return dict.fromkeys(found, 0) | dict(first.union(*others, all=True))

    @property
    def is_alone(self) -> bool:
        """Return True if nothing depends on the fact."""
        return not any(self.counts.values())

    @property
    def _uses(self) -> Any:
        return Use.objects.for_user(self.fact.owner).filter(record_id=self.fact.pk)

    @property
    def _items(self) -> Any:
        told = Q(previous_fact=self.fact) | Q(sentence=self.fact.text)
        return DeltaItem.objects.filter(told, run__topic=self.fact.topic_id, hidden_reason="")

    @property
    def _observations(self) -> Any:
        same = Observation.objects.for_user(self.fact.owner).active()
        return same.filter(topic=self.fact.topic_id, content=self.fact.text)

    @property
    def _proposals(self) -> Any:
        waiting = Proposal.objects.for_user(self.fact.owner).waiting()
        return waiting.filter(after__icontains=self.fact.text[:200])


# --- facts by run ---

BETWEEN = 0.5  # a person's change between Run #4 and Run #5 is at 4.5


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A saved run: its id, its number, when it was saved, and what is known of its report."""

    pk: int
    number: int
    at: datetime
    is_baseline: bool = False
    is_read: bool = False
    is_quiet: bool = False
    sources: Sequence[dict[str, Any]] = ()  # only for the topic's page

    @property
    def day(self) -> str:
        """Return its day: `12 May`, with the year if it isn't the current one."""
        at = timezone.localtime(self.at)
        return date_format(at, "j F" if at.year == timezone.localdate().year else "j F Y")


@dataclass(frozen=True, slots=True)
class Turn:
    """A fact's state at one place: its text, and whether it was current."""

    place: float
    text: str
    state: str
    why: str = ""
    is_trashed: bool = False
    retired_as: str = ""

    @property
    def is_known(self) -> bool:
        """Return True if it was among the known facts from then on."""
        return self.state == TopicFact.State.CURRENT and not self.is_trashed

    @property
    def by_hand(self) -> bool:
        """Return True if a person did it. Changes by runs are at whole numbers."""
        return self.place % 1 != 0


@dataclass(slots=True)
class FactHistory:
    """One fact with its turns in order. There is at least one."""

    fact: TopicFact
    turns: list[Turn] = field(default_factory=list)

    def at(self, number: int) -> Turn | None:
        """Return its state after run `number` was saved, or None if it didn't exist yet."""
        turns = [turn for turn in self.turns if turn.place <= number]
        return turns[-1] if turns else None

    def known_at(self, number: int) -> str:
        """Return its text as known after run `number` was saved, or ""."""
        turn = self.at(number)
        return turn.text if turn is not None and turn.is_known else ""


def lives_of(topic: Topic, runs: Sequence[SavedRun], *, first: int, last: int) -> list[FactHistory]:
    """Return the facts known after run `first` or since, up to run `last`, in two queries.

    `runs` are all saved runs of the topic, by number.
    """
    since = Q(first_run=None) | Q(first_run__lte=last)
    gone = Q(state=TopicFact.State.RETIRED, retired_run__lte=first)
    # Includes facts in the trash, because they were known then.
    facts = TopicFact.objects.filter(since, topic=topic).exclude(gone).order_by("created")
    return histories_of(facts, runs)


def histories_of(asked: Iterable[TopicFact], runs: Sequence[SavedRun]) -> list[FactHistory]:
    """Return the histories of these facts in two queries. `runs` are all saved runs of the topic."""
    facts = list(asked)
    revisions = Revision.objects.filter(
        record_type=TopicFact.record_type(),
        record_id__in=[fact.pk for fact in facts],
        after__has_any_keys=["text", "state", "trashed_at"],
    )
    told: dict[Any, list[Revision]] = defaultdict(list)
    for revision in revisions.order_by("id"):
        told[revision.record_id].append(revision)
    line = _Line(runs)
    return [FactHistory(fact, _turns(fact, told[fact.pk], line)) for fact in facts]


def _turns(fact: TopicFact, revisions: Iterable[Revision], line: _Line) -> list[Turn]:
    turns: list[Turn] = []
    # Before its first revision. A fact without revisions hasn't changed since its first run.
    turn = Turn(fact.first_run or line.place(fact.created), fact.text, fact.state)
    for revision in revisions:
        after = revision.after
        turn = replace(
            turn,
            place=line.place(revision.created, revision.source),
            text=str(after.get("text", turn.text)),
            state=str(after.get("state", turn.state)),
            is_trashed=bool(after["trashed_at"]) if "trashed_at" in after else turn.is_trashed,
            why=revision.reason,
            retired_as=str(after.get("retired_as", turn.retired_as)),
        )
        turns.append(turn)
    return turns or [turn]


class _Line:
    """The saved runs in order, on which every change has a place."""

    def __init__(self, runs: Sequence[SavedRun]) -> None:
        self._runs = runs
        self._moments = [run.at for run in runs]
        self._numbers = {f"run:{run.pk}": run.number for run in runs}

    def place(self, at: datetime, source: str = "") -> float:
        """Return the number of the run that made the change, or a place after the run before it."""
        if source in self._numbers:
            return self._numbers[source]
        before = bisect_right(self._moments, at)
        return (self._runs[before - 1].number if before else 0) + BETWEEN
