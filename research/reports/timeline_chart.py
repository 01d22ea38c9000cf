"""A chart of a topic's facts over its runs: a line per fact, with a mark for each event.

Data flow: lives of facts (`research.facts.history`) and delta items of the runs shown -> `Row`s
with their positions and texts, used by both the SVG and the table next to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import cut, shorten
from beacon_site.text.cleaning import width as width_of
from memory.models import Topic, TopicFact
from research.facts.history import FactHistory, SavedRun, Turn, lives_of
from research.models import DeltaItem
from research.reports.compare import choices_of

MOST_RUNS = 16  # side by side; the others are on other pages
MOST_FACTS = 60
COLUMN, LEFT, TOP, ROW = 64, 44, 48, 50  # in pixels; a row has a label and a line
TRACK = 34  # offset of the line in a row
LETTER = 6.3  # average width
HIT = 12  # half the size of a touch target (WCAG 2.2: 24 pixels)

WORDS = {
    "new": gettext_lazy("New"),
    "confirmed": gettext_lazy("Confirmed"),
    "changed": gettext_lazy("Changed"),
    "contradicted": gettext_lazy("Contradicted"),
    "hand": gettext_lazy("Added or edited by you"),
    "struck": gettext_lazy("Marked as wrong, or moved to Trash"),
    "retired": gettext_lazy("Left out"),
}
_TOLD = {
    DeltaItem.Status.CONFIRMED: "confirmed",
    DeltaItem.Status.CHANGED: "changed",
    DeltaItem.Status.CONTRADICTED: "contradicted",
}


@dataclass(frozen=True, slots=True)
class FactEvent:
    """An event in a fact's life: its shape, position, link and text."""

    kind: str
    x: float
    y: int
    url: str
    when: str  # `Run #3, 12 May`, or `after Run #3, 12 May`
    text: str

    @property
    def word(self) -> str:
        return str(WORDS[self.kind])

    @property
    def words(self) -> str:
        """Return the mark's accessible name: `Changed, Run #3, 12 May: It costs less.`."""
        return f"{self.word}, {self.when}: {self.text}"

    @property
    def left(self) -> float:
        """Return the left edge of the click target."""
        return self.x - HIT

    @property
    def top(self) -> int:
        """Return the top edge of the click target."""
        return self.y - HIT


@dataclass(slots=True)
class Row:
    """One fact. Its line goes from first seen to last checked, and to now if it is current."""

    fact: TopicFact
    text: str
    url: str
    y: int
    start: float
    end: float
    now: float  # as far as it is known, even if no source mentioned it
    marks: list[FactEvent] = field(default_factory=list)
    is_current: bool = True
    label: str = ""
    label_x: float = 0
    is_at_end: bool = False

    @property
    def track(self) -> int:
        """Return the vertical position of the line."""
        return self.y + TRACK

    @property
    def label_y(self) -> int:
        """Return the baseline of the label."""
        return self.y + 16

    @property
    def label_top(self) -> int:
        """Return the top edge of the label's click target."""
        return self.y - 1

    @property
    def label_width(self) -> float:
        """Return the approximate width of the label."""
        return round(LETTER * width_of(self.label) + 8)

    @property
    def label_left(self) -> float:
        """Return the left edge of the label."""
        return self.label_x - (self.label_width - 4 if self.is_at_end else 4)

    @property
    def state(self) -> str:
        """Return its current state in one word."""
        return str(TopicFact.State(self.fact.state).label)


@dataclass(frozen=True, slots=True)
class Column:
    """One run at the top of its column."""

    run: SavedRun
    x: float
    day: str
    url: str
    name: str


@dataclass(slots=True)
class Chart:
    columns: list[Column]
    rows: list[Row]
    left_out: int = 0
    earlier: int | None = None  # the last run of the previous page
    later: int | None = None

    @property
    def width(self) -> int:
        return max(2 * LEFT + COLUMN * (len(self.columns) - 1), 560)

    @property
    def height(self) -> int:
        return TOP + ROW * len(self.rows) + 8

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Return the shapes in use with their labels, for the legend."""
        used = {mark.kind for row in self.rows for mark in row.marks}
        return [(kind, str(word)) for kind, word in WORDS.items() if kind in used]

    @property
    def words(self) -> str:
        """Return a text description for screen readers."""
        facts = ngettext("%(n)d fact", "%(n)d facts", len(self.rows)) % {"n": len(self.rows)}
        first, last = self.columns[0].run.number, self.columns[-1].run.number
        told = {"facts": facts, "first": first, "last": last}
        if first == last:
            return _("%(facts)s at Run #%(last)d") % told
        return _("%(facts)s from Run #%(first)d to Run #%(last)d") % told


def runs_of(topic: Topic) -> list[SavedRun]:
    """Return the topic's runs with a report, by number, in one query."""
    return [choice.run for choice in choices_of(topic)]


def chart_of(topic: Topic, runs: Sequence[SavedRun], until: str = "") -> Chart | None:
    """Return the chart up to run `until` (or the last), or None without facts. Three queries."""
    if not runs:
        return None
    numbers = [run.number for run in runs]
    asked = int(until) if until.isascii() and until.isdecimal() and len(until) < 10 else 0
    end = bisect_right(numbers, asked) if numbers[0] <= asked else len(runs)
    shown = runs[max(0, end - MOST_RUNS) : end]
    first, last = shown[0].number, shown[-1].number
    lives = lives_of(topic, runs, first=first - 1, last=last)
    told: dict[Any, list[DeltaItem]] = defaultdict(list)
    items = DeltaItem.objects.filter(
        run__in=[run.pk for run in shown], withheld="", previous_fact__isnull=False
    )
    for item in items.order_by("run", "position"):
        told[item.previous_fact_id].append(item)
    drawn = [_FactLane(topic, shown, life, told[life.fact.pk]) for life in lives]
    drawn = [one for one in drawn if one.is_there]
    if not drawn:
        return None
    left_out = max(0, len(drawn) - MOST_FACTS)
    rows = [one.row(TOP + ROW * place) for place, one in enumerate(drawn[left_out:])]
    chart = Chart(_columns(topic, shown), rows, left_out)
    chart.earlier = numbers[end - len(shown) - 1] if end > len(shown) else None
    chart.later = numbers[min(end + MOST_RUNS, len(runs)) - 1] if end < len(runs) else None
    for row in rows:
        _place_label(row, chart.width)
    return chart


def _columns(topic: Topic, runs: Sequence[SavedRun]) -> list[Column]:
    return [
        Column(
            run,
            LEFT + COLUMN * place,
            _day(run),
            _page_of(topic, run),
            _("Run #%(number)d, %(day)s") % {"number": run.number, "day": _day(run)},
        )
        for place, run in enumerate(runs)
    ]


def _place_label(row: Row, width: int) -> None:
    """Place a fact's label above its line, at its start, or near the edge if there is no room."""
    row.label_x = max(row.start, 12)
    room = (width - row.label_x - 8) / LETTER
    if room < min(44, width_of(row.text)):
        row.is_at_end, row.label_x = True, width - 8
        room = (width - 16) / LETTER
    row.label = _fitting(row.text, max(int(room), 20))


def _fitting(text: str, room: int) -> str:
    """Shorten a fact's text to this width.

    East Asian text has no spaces, and its characters are twice as wide.
    """
    if width_of(text) <= room:
        return text
    return shorten(text, room) if width_of(text) == len(text) else f"{cut(text, room - 1)}…"


def _day(run: SavedRun) -> str:
    return date_format(timezone.localtime(run.at), "j M")


def _page_of(topic: Topic, run: SavedRun) -> str:
    return reverse("research:run", args=[topic.slug, run.pk]) + "#report"


class _FactLane:
    """One fact's life within the runs shown."""

    def __init__(
        self, topic: Topic, runs: Sequence[SavedRun], life: FactHistory, items: Sequence[DeltaItem]
    ) -> None:
        self.topic, self.runs, self.life = topic, runs, life
        self.by_number = {run.number: run for run in runs}
        self.by_pk = {run.pk: run for run in runs}
        self.numbers = [run.number for run in runs]
        self.happened: list[tuple[float, str]] = []  # place, kind
        previous = life.at(self.numbers[0] - 1)
        self.was_known = previous is not None and previous.is_known
        for turn in self._turns():
            self._take(turn, previous)
            previous = turn
        self.happened += [
            (self.by_pk[item.run_id].number, _TOLD[DeltaItem.Status(item.status)])
            for item in items
            if item.status in _TOLD
        ]
        self.happened.sort(key=lambda one: one[0])
        self.is_known = previous is not None and previous.is_known

    @property
    def is_there(self) -> bool:
        """Whether any of it is visible."""
        return self.was_known or bool(self.happened)

    def _turns(self) -> Iterable[Turn]:
        first, last = self.numbers[0] - 1, self.numbers[-1] + 1
        return [turn for turn in self.life.turns if first < turn.place < last]

    def _take(self, turn: Turn, previous: Turn | None) -> None:
        """Add what a turn of its life did, except what the run's own items say."""
        was_known = previous is not None and previous.is_known
        kind = ""
        if turn.is_known and not was_known:
            kind = "hand" if turn.by_hand else "new"
        elif turn.is_known and previous is not None and turn.text != previous.text:
            kind = "hand"
        elif was_known and not turn.is_known:
            is_struck = turn.is_trashed or turn.state == TopicFact.State.STRUCK
            kind = "struck" if is_struck else "retired"
        if kind:
            self.happened.append((turn.place, kind))

    def row(self, y: int) -> Row:
        """Return its row, `y` pixels from the top."""
        fact, edge = self.life.fact, LEFT + COLUMN * (len(self.runs) - 1)
        places = [place for place, _kind in self.happened]
        start = self._x(places[0]) if places and not self.was_known else LEFT - COLUMN / 2
        end = self._x(places[-1]) if places else start
        row = Row(
            fact=fact,
            text=fact.text,
            url=reverse("research:fact-history", args=[self.topic.slug, fact.pk]),
            y=y,
            start=max(start, 4),
            end=max(end, 4),
            now=edge if self.is_known else max(end, 4),
            is_current=self.is_known,
        )
        beside: dict[float, int] = defaultdict(int)
        for place, kind in self._once():
            x = self._x(place) + 2 * HIT * beside[place]
            beside[place] += 1
            row.marks.append(self._mark(kind, place, x, row.track))
        return row

    def _once(self) -> list[tuple[float, str]]:
        """Return the events, without an end that a change in the same run explains."""
        changed = {place for place, kind in self.happened if kind == "changed"}
        kept = [one for one in self.happened if one[1] != "retired" or one[0] not in changed]
        return list(dict.fromkeys(kept))

    def _mark(self, kind: str, place: float, x: float, y: int) -> FactEvent:
        run = self.by_number.get(int(place))
        fact = reverse("research:fact-history", args=[self.topic.slug, self.life.fact.pk])
        turn = self.life.at(int(place)) or self.life.turns[0]
        values = {"number": int(place), "day": _day(run) if run is not None else ""}
        if place % 1:
            when = _("after Run #%(number)d") % values
            return FactEvent(kind, x, y, fact, when, self.life.fact.text)
        when = _("Run #%(number)d, %(day)s") % values
        return FactEvent(kind, x, y, _page_of(self.topic, run) if run else fact, when, turn.text)

    def _x(self, place: float) -> float:
        column = bisect_right(self.numbers, int(place)) - 1 + place % 1
        return LEFT + COLUMN * column
