"""What was known after one run against what was known after a later one.

Data flow: the lives of the facts and the delta items of the runs between -> chains (a fact that was
changed goes on in the one that replaced it) -> one Entry a chain: new, changed, contradicted, gone,
come and gone, confirmed, quiet or the same, with each run in which something happened to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Topic, TopicFact
from memory.texts.diff import Piece, words
from memory.texts.text import match_key
from research.facts.lives import Life, Saved, Turn, lives_of
from research.links import Link, link_of
from research.models import DeltaItem

Status = DeltaItem.Status

KINDS = {
    "contradicted": gettext_lazy("Contradicted"),
    "changed": gettext_lazy("Changed"),
    "new": gettext_lazy("New"),
    "gone": gettext_lazy("No longer among the facts"),
    "passing": gettext_lazy("Came and went"),
    "confirmed": gettext_lazy("Confirmed"),
    "quiet": gettext_lazy("Not mentioned"),
    "same": gettext_lazy("Still stands"),
}
ALIKE = ("confirmed", "quiet", "same")
FOLDED = ("passing", *ALIKE)


@dataclass(slots=True)
class Entry:
    """One fact over the runs between: `before` and `now` are its words then and now."""

    kind: str
    before: str = ""
    now: str = ""
    happened: list[SafeString] = field(default_factory=list)
    fact: TopicFact | None = None
    quote: str = ""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Return both wordings as one line, with the words that changed."""
        return words(self.before, self.now)

    @property
    def is_another(self) -> bool:
        """Whether the two wordings share no word: marking every one of them would say nothing."""
        return not any(piece.kind == "same" and piece.text.strip() for piece in self.pieces)

    @property
    def link(self) -> Link:
        """Return where its source leads."""
        return link_of(self.fact.url) if self.fact is not None else Link()

    @property
    def said(self) -> str:
        """Return the words of its source; empty where they are its own."""
        quote = self.quote or (self.fact.quote if self.fact is not None else "")
        return "" if match_key(quote) == match_key(self.now or self.before) else quote


@dataclass(frozen=True, slots=True)
class Group:
    """The entries of one kind."""

    kind: str
    label: Any
    entries: list[Entry]

    @property
    def is_folded(self) -> bool:
        """Whether both runs knew the same of it: its words, or nothing."""
        return self.kind in FOLDED


def compare(topic: Topic, runs: Sequence[Saved], first: int, last: int) -> list[Group]:
    """Return what became of each fact between run `first` and the later run `last`: 3 queries."""
    lives = lives_of(topic, runs, first=first, last=last)
    items = DeltaItem.objects.filter(
        run__topic=topic, run__number__gt=first, run__number__lte=last
    ).supported()
    items = items.select_related("run")
    found = _Comparison(
        topic, runs, first, last, lives, list(items.order_by("run__number", "position"))
    )
    entries = found.entries()
    return [
        Group(kind, label, of_kind)
        for kind, label in KINDS.items()
        if (of_kind := [entry for entry in entries if entry.kind == kind])
    ]


class _Comparison:
    """The chains of facts between two runs, and what the runs between said of each."""

    def __init__(
        self,
        topic: Topic,
        runs: Sequence[Saved],
        first: int,
        last: int,
        lives: Sequence[Life],
        items: Sequence[DeltaItem],
    ) -> None:
        self.topic, self.first, self.last = topic, first, last
        self.lives = {life.fact.pk: life for life in lives}
        self.runs = {run.number: run for run in runs}
        self.born: dict[tuple[str, int | None], Any] = {
            (match_key(life.turns[0].text), life.fact.first_run): life.fact.pk for life in lives
        }
        self.items = items
        self.about: dict[Any, list[DeltaItem]] = defaultdict(list)
        self.after: dict[Any, Any] = {}  # the fact that a fact was changed into
        self.later: set[Any] = set()  # those facts: each goes on one chain
        self.against: set[Any] = set()  # facts that were told as contradictions of others
        for item in items:
            self._take(item)

    def _take(self, item: DeltaItem) -> None:
        """Note of which fact an item tells, and which fact came of it."""
        if item.previous_fact_id is None:
            return
        self.about[item.previous_fact_id].append(item)
        made = self._made_by(item)
        if made is None or made == item.previous_fact_id:
            return
        if item.status == Status.CHANGED and made not in self.later:
            if self.after.setdefault(item.previous_fact_id, made) == made:
                self.later.add(made)
        elif item.status == Status.CONTRADICTED:
            self.against.add(made)

    def _made_by(self, item: DeltaItem) -> Any:
        """Return the key of the fact that the item's run made of its sentence."""
        return self.born.get((match_key(item.sentence), item.run.number))

    def entries(self) -> list[Entry]:
        """Return an entry for each chain of which there is something to tell."""
        chains = [self._chain(key) for key in self.lives if key not in self.later]
        entries = [entry for chain in chains if (entry := self._entry(chain)) is not None]
        return entries + self._told_only()

    def _chain(self, key: Any) -> list[Life]:
        chain: list[Life] = []
        while key in self.lives and len(chain) < len(self.lives):
            chain.append(self.lives[key])
            key = self.after.get(key)
        return chain

    def _entry(self, chain: Sequence[Life]) -> Entry | None:
        before = next((w for life in chain if (w := life.known_at(self.first))), "")
        now = next((w for life in reversed(chain) if (w := life.known_at(self.last))), "")
        items = [item for life in chain for item in self.about[life.fact.pk]]
        was_there = any(turn.is_known for life in chain for turn in self._turns(life))
        if not (before or now or was_there) or self._is_a_contradiction(chain, before):
            return None
        kind = _kind(before, now, items)
        if not now and (said := self._changed_into(chain, items)):
            kind, now = "changed", said
        # Of what is gone it goes without saying that nothing spoke of it.
        spoken = items if now else [i for i in items if i.status != Status.GONE_QUIET]
        entry = Entry(kind, before, now, self._happened(chain, spoken), chain[-1].fact)
        if kind == "contradicted":
            against = [item for item in items if item.status == Status.CONTRADICTED][-1]
            entry.now, entry.quote = against.sentence, against.quote
            entry.fact = self._fact_of(self._made_by(against)) or entry.fact
        elif not now:
            entry.before = before or next(
                turn.text for life in reversed(chain) for turn in life.turns if turn.is_known
            )
        return entry

    def _is_a_contradiction(self, chain: Sequence[Life], before: str) -> bool:
        """Whether a fact is told beside the one that it contradicts, and not for itself."""
        return not before and len(chain) == 1 and chain[0].fact.pk in self.against

    def _changed_into(self, chain: Sequence[Life], items: Sequence[DeltaItem]) -> str:
        """Return what a report said instead of a fact, though it is not among the facts."""
        last = items[-1] if items else None
        is_left = last is not None and last.previous_fact_id == chain[-1].fact.pk
        if last is None or last.status != Status.CHANGED or not is_left:
            return ""
        return "" if self._made_by(last) else last.sentence

    def _fact_of(self, key: Any) -> TopicFact | None:
        return self.lives[key].fact if key in self.lives else None

    def _turns(self, life: Life) -> list[Turn]:
        return [turn for turn in life.turns if self.first < turn.place <= self.last]

    def _told_only(self) -> list[Entry]:
        """Return what reports listed as new and no fact was made of: they hold ten at most."""
        keys = {match_key(turn.text) for life in self.lives.values() for turn in life.turns}
        entries: dict[str, Entry] = {}
        for item in self.items:
            key = match_key(item.sentence)
            if item.status != Status.NEW or key in keys:
                continue
            entry = entries.setdefault(key, Entry("new", now=item.sentence, quote=item.quote))
            entry.happened.append(
                format_html(_("told in {}; not kept among the facts"), self._run(item.run.number))
            )
        return list(entries.values())

    # --- in words -----------------------------------------------------------------------------------

    def _happened(self, chain: Sequence[Life], items: Iterable[DeltaItem]) -> list[SafeString]:
        """Return what happened to a chain, in order, each with its run."""
        told: list[tuple[float, SafeString]] = []
        for place, life in enumerate(chain):
            goes_on = place + 1 < len(chain)
            previous = life.at(self.first)
            for turn in self._turns(life):
                said = self._said(turn, previous, is_later=place > 0, goes_on=goes_on)
                told += [(turn.place, said)] if said else []
                previous = turn
        for status, line in (
            (Status.CONFIRMED, _("confirmed in {}")),
            (Status.CONTRADICTED, _("contradicted in {}")),
        ):
            told += [(n, format_html(line, self._run(n))) for n in _numbers(items, status)]
        quiet = _numbers(items, Status.GONE_QUIET)
        if quiet and quiet[-1] == self.last:
            told.append((self.last, self._not_spoken_of(quiet)))
        return [said for _place, said in sorted(told, key=lambda one: one[0])]

    def _not_spoken_of(self, numbers: Sequence[int]) -> SafeString:
        """Return since when no source spoke of a fact, up to the later run."""
        since = self.last
        while since - 1 in numbers:
            since -= 1
        if since == self.last:
            return format_html(_("not spoken of in {}"), self._run(since))
        line = _("not spoken of from {} to {}")
        return format_html(line, self._run(since), self._run(self.last))

    def _said(
        self, turn: Turn, previous: Turn | None, *, is_later: bool, goes_on: bool
    ) -> SafeString | None:
        """Return what a turn did, in words; None where another line says it."""
        place = self._place(turn)
        if previous is None:
            if turn.by_hand:
                return format_html(_("written by hand {}"), place)
            return format_html(_("changed in {}") if is_later else _("new in {}"), place)
        if turn.is_known and not previous.is_known:
            return format_html(_("taken back {}") if turn.by_hand else _("back in {}"), place)
        if turn.is_known:
            is_edit = turn.text != previous.text
            return format_html(_("edited by hand {}"), place) if is_edit else None
        if not previous.is_known or goes_on:
            return None
        if turn.is_trashed:
            return format_html(_("moved to the trash {}"), place)
        if turn.state == TopicFact.State.STRUCK:
            return format_html(_("struck by hand {}"), place)
        line = _("made room {}") if turn.by_hand else _("left out in {}")
        said = format_html(line, place)
        plainly = _("not among the facts of Run #%(number)d") % {"number": int(turn.place)}
        return said if turn.why == plainly else format_html("{}: {}", said, turn.why)

    def _place(self, turn: Turn) -> SafeString:
        """Return where a turn stands: the run, or the one before a person's act."""
        if not turn.by_hand:
            return self._run(int(turn.place))
        return format_html(_("after {}"), self._run(int(turn.place)))

    def _run(self, number: int | None) -> SafeString:
        """Return a run by name, as a link to what it said had changed."""
        name = _("Run #%(number)d") % {"number": number or 0}
        run = self.runs.get(number or 0)
        if run is None:
            return format_html("{}", name)
        page = reverse("research:run", args=[self.topic.slug, run.pk])
        return format_html('<a class="nowrap" href="{}#report">{}</a>', page, name)


def _numbers(items: Iterable[DeltaItem], status: str) -> list[int]:
    """Return the numbers of the runs that said `status` of a fact, in order."""
    return sorted({item.run.number or 0 for item in items if item.status == status})


def _kind(before: str, now: str, items: Sequence[DeltaItem]) -> str:
    """Return what became of a fact: its words then and now, and what the runs between said."""
    if not before:
        return "new" if now else "passing"
    if not now:
        return "gone"
    if before != now:
        return "changed"
    said = [i.status for i in items if i.status in (Status.CONFIRMED, Status.CONTRADICTED)]
    if not said:
        # Where the runs between read nothing, no source could have spoken of it.
        return "quiet" if any(i.status == Status.GONE_QUIET for i in items) else "same"
    return "contradicted" if said[-1] == Status.CONTRADICTED else "confirmed"
