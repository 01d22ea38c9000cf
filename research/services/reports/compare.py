"""Compare two runs of a topic: facts, the words of their reports, or sources and settings.

URL -> Pair (of runs with a report) -> the view. Facts: the histories of the facts and the
delta items of the runs between form chains (a changed fact continues in its successor), each shown as
one Entry: new, changed, contradicted, gone, passing, confirmed, quiet or the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.dateparse import parse_date
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text import diff as text_diff
from beacon_site.text.cleaning import choice_param, match_key, plain
from beacon_site.text.diff import Piece, word_pieces
from memory.models import Topic, TopicFact
from research.claims.blocks import plain_quote
from research.models import DeltaItem, Report, Run, TopicSettings
from research.models.reports import Link, link_of
from research.services.facts.history import FactHistory, SavedRun, Turn, lives_of
from research.services.runs.search.searching import label_of
from research.services.runs.steps import planning

# --- facts ---

Status = DeltaItem.Status

KINDS = {
    "contradicted": gettext_lazy("Contradicted"),
    "changed": gettext_lazy("Changed"),
    "new": gettext_lazy("New"),
    "gone": gettext_lazy("No longer a fact"),
    "passing": gettext_lazy("Found and removed between the runs"),
    "confirmed": gettext_lazy("Confirmed"),
    "quiet": gettext_lazy("Not mentioned"),
    "same": gettext_lazy("Unchanged"),
}
ALIKE = ("confirmed", "quiet", "same")
FOLDED = ("passing", *ALIKE)


@dataclass(slots=True)
class Entry:
    """One fact across the runs between. `before` and `now` are its old and new text."""

    kind: str
    before: str = ""
    now: str = ""
    happened: list[SafeString] = field(default_factory=list)
    fact: TopicFact | None = None
    quote: str = ""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Return both texts as one line, with the changed words marked."""
        return word_pieces(self.before, self.now)

    @property
    def is_another(self) -> bool:
        """Return True if the two texts have no word in common, so marking changes is useless."""
        return not any(piece.kind == "same" and piece.text.strip() for piece in self.pieces)

    @property
    def link(self) -> Link:
        return link_of(self.fact.url) if self.fact is not None else Link()

    @property
    def said(self) -> str:
        """Return its source's text, or "" if that is the same."""
        quote = self.quote or (self.fact.quote if self.fact is not None else "")
        return "" if match_key(quote) == match_key(self.now or self.before) else plain_quote(quote)


def compare_facts(
    topic: Topic, runs: Sequence[SavedRun], first: int, last: int
) -> list[dict[str, Any]]:
    """Return what happened to each fact from run `first` to the later run `last`, in 3 queries.

    A group is folded if both runs knew the same text, or neither knew it.
    """
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
        {"kind": kind, "label": label, "entries": of_kind, "is_folded": kind in FOLDED}
        for kind, label in KINDS.items()
        if (of_kind := [entry for entry in entries if entry.kind == kind])
    ]


class _Comparison:
    """The chains of facts between two runs, and what the runs between said about each."""

    def __init__(
        self,
        topic: Topic,
        runs: Sequence[SavedRun],
        first: int,
        last: int,
        lives: Sequence[FactHistory],
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
        self.after: dict[Any, Any] = {}  # the fact that replaced a fact
        self.later: set[Any] = set()  # those facts, each in one chain
        self.against: set[Any] = set()  # facts listed as contradicting others
        for item in items:
            self._take(item)

    def _take(self, item: DeltaItem) -> None:
        """Record which fact an item is about, and which fact it created."""
        if item.previous_fact_id is None:
            return
        self.about[item.previous_fact_id].append(item)
        made = self._made_by(item)
        if made is None or made == item.previous_fact_id:
            return
        is_after = item.status == Status.CHANGED or self._replaced(item.previous_fact_id, made)
        if is_after and made not in self.later:
            if self.after.setdefault(item.previous_fact_id, made) == made:
                self.later.add(made)
        elif item.status == Status.CONTRADICTED:
            self.against.add(made)

    def _replaced(self, old: Any, new: Any) -> bool:
        """Return True if a person replaced a fact with the one that contradicts it."""
        if old not in self.lives or self.lives[old].fact.chain != self.lives[new].fact.chain:
            return False
        turn = self.lives[old].at(self.last)
        return turn is not None and turn.retired_as == TopicFact.RetiredAs.REPLACED

    def _made_by(self, item: DeltaItem) -> Any:
        """Return the key of the fact that the item's run created from its sentence."""
        return self.born.get((match_key(item.sentence), item.run.number))

    def entries(self) -> list[Entry]:
        """Return an entry for each chain that has something to report."""
        chains = [self._chain(key) for key in self.lives if key not in self.later]
        entries = [entry for chain in chains if (entry := self._entry(chain)) is not None]
        return entries + self._unlisted_news()

    def _chain(self, key: Any) -> list[FactHistory]:
        chain: list[FactHistory] = []
        while key in self.lives and len(chain) < len(self.lives):
            chain.append(self.lives[key])
            key = self.after.get(key)
        return chain

    def _entry(self, chain: Sequence[FactHistory]) -> Entry | None:
        before = next((w for life in chain if (w := life.known_at(self.first))), "")
        now = next((w for life in reversed(chain) if (w := life.known_at(self.last))), "")
        items = [item for life in chain for item in self.about[life.fact.pk]]
        was_there = any(turn.is_known for life in chain for turn in self._turns(life))
        if not (before or now or was_there) or self._is_a_contradiction(chain, before):
            return None
        kind = _kind(before, now, items)
        if not now and (text := self._changed_into(chain, items)):
            kind, now = "changed", text
        # A fact that is gone isn't mentioned either, so that isn't repeated.
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

    def _is_a_contradiction(self, chain: Sequence[FactHistory], before: str) -> bool:
        """Whether a fact is listed with the one that it contradicts rather than by itself."""
        return not before and len(chain) == 1 and chain[0].fact.pk in self.against

    def _changed_into(self, chain: Sequence[FactHistory], items: Sequence[DeltaItem]) -> str:
        """Return a report's contradiction of a fact that isn't itself a fact."""
        last = items[-1] if items else None
        is_left = last is not None and last.previous_fact_id == chain[-1].fact.pk
        if last is None or last.status != Status.CHANGED or not is_left:
            return ""
        return "" if self._made_by(last) else last.sentence

    def _fact_of(self, key: Any) -> TopicFact | None:
        return self.lives[key].fact if key in self.lives else None

    def _turns(self, life: FactHistory) -> list[Turn]:
        return [turn for turn in life.turns if self.first < turn.place <= self.last]

    def _unlisted_news(self) -> list[Entry]:
        """Return news that reports listed but that didn't become facts, as a topic has ten at most."""
        keys = {match_key(turn.text) for life in self.lives.values() for turn in life.turns}
        entries: dict[str, Entry] = {}
        for item in self.items:
            key = match_key(item.sentence)
            if item.status != Status.NEW or key in keys:
                continue
            entry = entries.setdefault(key, Entry("new", now=item.sentence, quote=item.quote))
            entry.happened.append(
                format_html(
                    _("listed in {run} but not kept as a fact"), run=self._run(item.run.number)
                )
            )
        return list(entries.values())

    # --- descriptions ---

    def _happened(
        self, chain: Sequence[FactHistory], items: Iterable[DeltaItem]
    ) -> list[SafeString]:
        """Return the events of a chain in order, each with its run."""
        pairs: list[tuple[float, SafeString]] = []
        for place, life in enumerate(chain):
            goes_on = place + 1 < len(chain)
            previous = life.at(self.first)
            for turn in self._turns(life):
                said = self._said(turn, previous, is_later=place > 0, goes_on=goes_on)
                pairs += [(turn.place, said)] if said else []
                previous = turn
        for status, line in (
            (Status.CONFIRMED, _("confirmed in {run}")),
            (Status.CONTRADICTED, _("contradicted in {run}")),
        ):
            pairs += [(n, format_html(line, run=self._run(n))) for n in _numbers(items, status)]
        quiet = _numbers(items, Status.GONE_QUIET)
        if quiet and quiet[-1] == self.last:
            pairs.append((self.last, self._silent_since(quiet)))
        return [said for _place, said in sorted(pairs, key=lambda one: one[0])]

    def _silent_since(self, numbers: Sequence[int]) -> SafeString:
        """Return since when no source has mentioned a fact, up to the later run."""
        since = self.last
        while since - 1 in numbers:
            since -= 1
        if since == self.last:
            return format_html(_("not mentioned in {run}"), run=self._run(since))
        line = _("not mentioned from {first} to {last}")
        return format_html(line, first=self._run(since), last=self._run(self.last))

    def _said(
        self, turn: Turn, previous: Turn | None, *, is_later: bool, goes_on: bool
    ) -> SafeString | None:
        """Return the description of a turn, or None if another line covers it."""
        place = self._place(turn)
        if previous is None:
            if turn.by_hand:
                return format_html(_("added by you {when}"), when=place)
            line = _("changed in {run}") if is_later else _("new in {run}")
            return format_html(line, run=place)
        if turn.is_known and not previous.is_known:
            if turn.by_hand:
                return format_html(_("restored by you {when}"), when=place)
            return format_html(_("back in {run}"), run=place)
        if turn.is_known:
            is_edit = turn.text != previous.text
            return format_html(_("edited by you {when}"), when=place) if is_edit else None
        if not previous.is_known or goes_on:
            return None
        if turn.is_trashed:
            return format_html(_("moved to Trash {when}"), when=place)
        if turn.state == TopicFact.State.STRUCK:
            return format_html(_("marked as wrong {when}"), when=place)
        if turn.by_hand and turn.retired_as == TopicFact.RetiredAs.REPLACED:
            html = format_html(_("replaced {when}"), when=place)
        elif turn.by_hand:
            html = format_html(_("removed to make room {when}"), when=place)
        else:
            html = format_html(_("left out in {run}"), run=place)
        plainly = _("not among the facts in Run #%(number)d") % {"number": int(turn.place)}
        return html if turn.why == plainly else format_html("{}: {}", html, turn.why)

    def _place(self, turn: Turn) -> SafeString:
        """Return the place of a turn: its run, or the run before a person's edit."""
        if not turn.by_hand:
            return self._run(int(turn.place))
        return format_html(_("after {run}"), run=self._run(int(turn.place)))

    def _run(self, number: int | None) -> SafeString:
        """Return a run's name as a link to its changes."""
        name = _("Run #%(number)d") % {"number": number or 0}
        run = self.runs.get(number or 0)
        if run is None:
            return format_html("{}", name)
        page = reverse("research:run", args=[self.topic.slug, run.pk])
        return format_html('<a class="nowrap" href="{}#report">{}</a>', page, name)


def _numbers(items: Iterable[DeltaItem], status: str) -> list[int]:
    """Return the numbers of the runs that gave a fact this `status`, in order."""
    return sorted({item.run.number or 0 for item in items if item.status == status})


def _kind(before: str, now: str, items: Sequence[DeltaItem]) -> str:
    """Return what happened to a fact: its old and new text, and what the runs between said."""
    if not before:
        return "new" if now else "passing"
    if not now:
        return "gone"
    if before != now:
        return "changed"
    statuses = [i.status for i in items if i.status in (Status.CONFIRMED, Status.CONTRADICTED)]
    if not statuses:
        # If the runs between read nothing, no source could have mentioned it.
        return "quiet" if any(i.status == Status.GONE_QUIET for i in items) else "same"
    return "contradicted" if statuses[-1] == Status.CONTRADICTED else "confirmed"


# --- sources and settings ---

# As stored with the run; budgets and schedules don't change what it searches for.
_TOLD = (*TopicSettings.ASKED, *TopicSettings.LIMITS)
_UNSET = gettext_lazy("not set")


def compare_sources(topic: Topic, old: Report, new: Report) -> dict[str, Any]:
    """Return the sources of either report and of both, and the settings that differ."""
    cited = _cited(old, new)
    return {
        "only_old": [one for one in cited if not one["new"]],
        "only_new": [one for one in cited if not one["old"]],
        "both": [one for one in cited if one["old"] and one["new"]],
        "settings": _settings(topic, old, new),
    }


def _cited(old: Report, new: Report) -> list[dict[str, Any]]:
    """Return each source with its citation numbers in the two reports (0: not cited)."""
    sides = [{_key(stored): stored for stored in report.sources} for report in (old, new)]
    results = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        stored = sides[1].get(key) or sides[0][key]
        results.append(
            {
                "title": stored.get("title") or stored.get("link", ""),
                "domain": stored.get("domain", ""),
                "link": link_of(stored.get("link", "")),
                "published_at": parse_date(stored.get("published_at") or ""),
                "old": sides[0].get(key, {}).get("n", 0),
                "new": sides[1].get(key, {}).get("n", 0),
            }
        )
    return results


def _key(stored: dict[str, Any]) -> str:
    return str(stored.get("url") or stored.get("link") or stored.get("title", ""))


def _settings(topic: Topic, old: Report, new: Report) -> list[tuple[str, str, str]]:
    """Return the settings that differ: the label, and the values in both runs."""
    before, after = _made_with(topic, old), _made_with(topic, new)
    labels = [
        label for label in dict.fromkeys([*before, *after]) if label in before and label in after
    ]
    return [
        (label, before[label] or str(_UNSET), after[label] or str(_UNSET))
        for label in labels
        if before[label] != after[label]
    ]


def _made_with(topic: Topic, report: Report) -> dict[str, str]:
    """Return the settings of a run, as labels and values."""
    run: Run = report.run
    values = {_("Written by"): _("no model") if report.is_extractive else report.written_by}
    planned_by = run.manifest.get("planned_by")
    if planned_by:
        values[_("Plan")] = planning.by_words(planned_by)
    if run.settings:
        settings = TopicSettings.from_json(topic, run.settings)
        for name in _TOLD:
            label = str(TopicSettings._meta.get_field(name).verbose_name)  # type: ignore[union-attr]
            values[label[:1].upper() + label[1:]] = _setting_text(settings, name)
    asked_services = run.manifest.get("services")
    if asked_services is not None:
        values[_("Services searched")] = ", ".join(map(label_of, asked_services))
    if run.manifest.get("beacon"):
        values[_("Beacon")] = str(run.manifest["beacon"])
    return values


def _setting_text(settings: TopicSettings, name: str) -> str:
    """Return one setting's value as text, or "" if it isn't set."""
    value = getattr(settings, name)
    if name == "services":
        return ", ".join(map(label_of, value))
    if isinstance(value, list):
        return ", ".join(map(str, value))
    display = getattr(settings, f"get_{name}_display", None)
    return str(display()) if display else "" if value is None else str(value)


# --- the page ---

VIEWS = {
    "facts": gettext_lazy("Facts"),
    "words": gettext_lazy("Words"),
    "lines": gettext_lazy("Text"),
    "sources": gettext_lazy("Sources and settings"),
}
MAX_ROWS = 500  # lines of a diff on one page
# Every report numbers its own sources, so citation marks can differ where nothing else does.
_MARKS = re.compile(r"[ \t]*\[\d{1,3}\](?!\()")
_BULLET = re.compile(r"\s*[-*+]\s")
_ESCAPED = re.compile(r"\\([^\w\s])")


Query = Mapping[str, str]  # of the page's URL; an unknown view is the first one


@dataclass(slots=True)
class Pair:
    """The two runs to compare, as requested. `older` need not be the earlier one."""

    choices: Sequence[SavedRun]
    older: SavedRun | None = None
    newer: SavedRun | None = None
    problems: list[str] = field(default_factory=list)
    since_read: bool = False

    @property
    def two(self) -> tuple[SavedRun, SavedRun] | None:
        """Return both as requested, if they can be compared."""
        if self.problems or self.older is None or self.newer is None or self.is_same:
            return None
        return self.older, self.newer

    @property
    def is_same(self) -> bool:
        """Return True if one run was chosen twice."""
        return not self.problems and self.older is not None and self.older == self.newer

    @property
    def is_backwards(self) -> bool:
        """Return True if the first run chosen is the later one."""
        return self.two is not None and self.two[0].number > self.two[1].number

    def stepped(self, by: int) -> tuple[SavedRun, SavedRun] | None:
        """Return the pair shifted by `by` reports, or None beyond the first or last."""
        places = [self.choices.index(one) + by for one in self.two or ()]
        if not places or min(places) < 0 or max(places) >= len(self.choices):
            return None
        return self.choices[places[0]], self.choices[places[1]]


def choices_of(topic: Topic) -> list[SavedRun]:
    """Return the topic's runs with a report, by number, in one query."""
    reports = Report.objects.live().filter(run__topic=topic).exclude(run__number=None)
    rows = reports.order_by("run__number").values_list(
        "run_id", "run__number", "run__finished_at", "created", "read_at", "is_quiet"
    )
    return [
        SavedRun(pk, number, at or created, is_read=read_at is not None, is_quiet=is_quiet)
        for pk, number, at, created, read_at, is_quiet in rows
    ]


def chosen(choices: Sequence[SavedRun], query: Query) -> Pair:
    """Return the requested pair, with defaults for what is missing.

    Without either: the last report that was read and the latest, or the last two. With one of them:
    the report before it, or the latest.
    """
    pair = Pair(choices)
    if len(choices) < 2:
        return pair
    older, newer = (
        _run_from_url(pair, query.get(name, "").strip()[:20]) for name in ("from", "to")
    )
    if newer is None and older is None:
        newer, older = choices[-1], choices[-2]
        read = [choice for choice in choices if choice.is_read]
        if read and not newer.is_read and not pair.problems:
            older, pair.since_read = read[-1], True
    elif newer is None:
        newer = choices[-1] if older != choices[-1] else choices[-2]
    elif older is None:
        older = choices[max(0, choices.index(newer) - 1)]
        older = older if older != newer else choices[1]
    pair.older, pair.newer = older, newer
    return pair


def _run_from_url(pair: Pair, text: str) -> SavedRun | None:
    """Return the run that the URL names. Add a problem if there is none."""
    if not text:
        return None
    bare = text.removeprefix("#")
    found = next((choice for choice in pair.choices if str(choice.number) == bare), None)
    if found is None:
        spread = {"first": pair.choices[0].number, "last": pair.choices[-1].number}
        if bare.isdecimal():
            line = _(
                "Run #%(asked)s has no report. This topic has reports for runs #%(first)d to "
                "#%(last)d. Select two of them."
            )
        else:
            line = _("“%(asked)s” isn’t a run number. Select two runs from the lists.")
        pair.problems.append(line % {"asked": bare, **spread})
    return found


# --- context ---


def context(topic: Topic, query: Query) -> dict[str, Any]:
    """Return the page's context in one query, plus one to three for its view."""
    choices = choices_of(topic)
    pair = chosen(choices, query)
    view = choice_param(query, "view", VIEWS, "facts")
    is_whole = query.get("show") == "all"
    shown: dict[str, Any] = {
        "topic": topic,
        "view": view,
        "is_side_by_side": query.get("layout") == "side",
        "is_whole": is_whole,
        "pair": pair,
        "choices": list(reversed(choices)),
        "title": _("Compare runs"),
    }
    if pair.two is None:
        return shown
    older, newer = pair.two
    numbers = {"older": older.number, "newer": newer.number}
    shown["title"] = _("Run #%(older)d vs. Run #%(newer)d") % numbers
    shown |= _addresses(topic, query, pair, pair.two)
    if view == "facts":
        first, last = sorted(numbers.values())
        groups = compare_facts(topic, choices, first, last)
        is_alike = bool(groups) and all(group["kind"] in ALIKE for group in groups)
        return shown | {"groups": groups, "is_alike": is_alike}
    reports = Report.objects.filter(run__in=(older.pk, newer.pk)).select_related("run")
    by_run = {report.run_id: report for report in reports}
    old, new = by_run[older.pk], by_run[newer.pk]
    if view == "sources":
        return shown | compare_sources(topic, old, new)
    return shown | _texts(old, new, is_whole=is_whole)


def _texts(old: Report, new: Report, *, is_whole: bool) -> dict[str, Any]:
    """Return the diff of the two reports, without citation marks and with unchanged lines folded."""
    bare = [_as_read(_MARKS.sub("", report.body)) for report in (old, new)]
    rows = text_diff.diff(*(f"{text}\n" if text else "" for text in bare))
    # Blank lines only separate paragraphs, so their changes aren't shown.
    rows = [row for row in rows if not row.is_blank]
    changes = sum(row.kind != "same" for row in rows)
    shown = rows if is_whole else text_diff.folded(rows)
    return {
        "rows": shown[:MAX_ROWS],
        "headings": {
            _as_read(line)
            for report in (old, new)
            for line in report.body.splitlines()
            if line.startswith("#")
        },
        "columns": text_diff.sided(shown[:MAX_ROWS]),
        "rows_left": max(0, len(shown) - MAX_ROWS),
        "change_count": changes,
        "is_alike": not changes,
        "is_empty": not rows,
        "has_other_style": len({_style_of(old), _style_of(new)} - {""}) > 1,
    }


def _as_read(markdown: str) -> str:
    """Return a report's lines without markup, except bullets."""
    lines = (line.rstrip().removesuffix("\\") for line in markdown.strip().splitlines())
    shown = (("• " if _BULLET.match(line) else "") + plain(line) for line in lines)
    return _ESCAPED.sub(r"\1", "\n".join(shown))


def _style_of(report: Report) -> str:
    return str(report.run.settings.get("report_style", ""))


# --- URLs ---


def address(topic: Topic, two: tuple[SavedRun, SavedRun], query: Query, **other: str) -> str:
    """Return the URL of a comparison, in the same view unless `other` changes it."""
    named = {
        "from": str(two[0].number),
        "to": str(two[1].number),
        "view": choice_param(query, "view", VIEWS, "facts"),
        "layout": choice_param(query, "layout", ["side"]),
        "show": choice_param(query, "show", ["all"]),
    }
    named = {name: value for name, value in (named | other).items() if value}
    return reverse("research:compare", args=[topic.slug]) + "?" + urlencode(named)


def _addresses(
    topic: Topic, query: Query, pair: Pair, two: tuple[SavedRun, SavedRun]
) -> dict[str, Any]:
    """Return the page's links: its views, the neighboring pairs, and this pair swapped."""
    beside = {
        name: {"url": address(topic, other, query), "pair": other} if other else None
        for name, other in (("before", pair.stepped(-1)), ("after", pair.stepped(1)))
    }
    return beside | {
        "views": [
            {
                "label": label,
                "url": address(topic, two, query, view=view),
                "is_current": view == choice_param(query, "view", VIEWS, "facts"),
            }
            for view, label in VIEWS.items()
        ],
        "swap_url": address(topic, (two[1], two[0]), query),
        "side_url": address(topic, two, query, layout="side"),
        "unified_url": address(topic, two, query, layout=""),
        "whole_url": address(topic, two, query, show="all"),
        "folded_url": address(topic, two, query, show=""),
    }
