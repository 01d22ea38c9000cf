"""Two runs of a topic held against each other: which two, and what the page shows of them.

Data flow: address -> Asked -> Pair (of the runs that left a report) -> the view: facts, the
report's words or lines, or sources and settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Topic
from memory.texts import diff as text_diff
from memory.texts.text import plain
from research.facts.lives import Saved
from research.models import Report
from research.reports import compare_facts, compare_sources

VIEWS = {
    "facts": gettext_lazy("Facts"),
    "words": gettext_lazy("Words"),
    "lines": gettext_lazy("Lines"),
    "sources": gettext_lazy("Sources and settings"),
}
MOST_ROWS = 500  # lines of a difference on one page
# Every report numbers its sources anew, so its marks differ where nothing else does.
_MARKS = re.compile(r"[ \t]*\[\d{1,3}\](?!\()")
_BULLET = re.compile(r"\s*[-*+]\s")
_ESCAPED = re.compile(r"\\([^\w\s])")


@dataclass(frozen=True, slots=True)
class Choice:
    """A run that can be chosen: one that left a report."""

    run: Saved
    is_read: bool
    is_quiet: bool = False

    @property
    def number(self) -> int:
        """Return its number."""
        return self.run.number


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for, as it was written there."""

    older: str = ""
    newer: str = ""
    view: str = "facts"
    is_side_by_side: bool = False
    is_whole: bool = False

    @classmethod
    def of(cls, query: Any) -> Asked:
        """Read it from an address's query; an unknown view is the first."""
        view = query.get("view", "")
        return cls(
            older=query.get("from", "").strip()[:20],
            newer=query.get("to", "").strip()[:20],
            view=view if view in VIEWS else "facts",
            is_side_by_side=query.get("layout") == "side",
            is_whole=query.get("show") == "all",
        )


@dataclass(slots=True)
class Pair:
    """The two runs compared, as asked: `older` need not be the earlier one."""

    choices: Sequence[Choice]
    older: Choice | None = None
    newer: Choice | None = None
    problems: list[str] = field(default_factory=list)
    since_read: bool = False

    @property
    def two(self) -> tuple[Choice, Choice] | None:
        """Return both as asked, if they can be compared."""
        if self.problems or self.older is None or self.newer is None or self.is_same:
            return None
        return self.older, self.newer

    @property
    def is_same(self) -> bool:
        """Whether one run was chosen twice."""
        return not self.problems and self.older is not None and self.older == self.newer

    @property
    def is_backwards(self) -> bool:
        """Whether the first one chosen is the later one."""
        return self.two is not None and self.two[0].number > self.two[1].number

    def stepped(self, by: int) -> tuple[Choice, Choice] | None:
        """Return the pair as far apart, `by` reports on; None beyond the first or last."""
        places = [self.choices.index(one) + by for one in self.two or ()]
        if not places or min(places) < 0 or max(places) >= len(self.choices):
            return None
        return self.choices[places[0]], self.choices[places[1]]


def choices_of(topic: Topic) -> list[Choice]:
    """Return the topic's runs that left a report, by number: one query."""
    reports = Report.objects.live().filter(run__topic=topic).exclude(run__number=None)
    rows = reports.order_by("run__number").values_list(
        "run_id", "run__number", "run__finished_at", "created", "read_at", "is_quiet"
    )
    return [
        Choice(Saved(pk, number, at or created), read_at is not None, is_quiet)
        for pk, number, at, created, read_at, is_quiet in rows
    ]


def chosen(choices: Sequence[Choice], asked: Asked) -> Pair:
    """Return the pair that is asked for; what is not said is chosen as a reader would.

    Without anything: the last report that was read against the latest, else the last two.  With
    one of them: the report before it, or the latest.
    """
    pair = Pair(choices)
    if len(choices) < 2:
        return pair
    older, newer = (_named(pair, text) for text in (asked.older, asked.newer))
    if newer is None and older is None:
        newer, older = choices[-1], choices[-2]
        read = [one for one in choices if one.is_read]
        if read and not newer.is_read and not pair.problems:
            older, pair.since_read = read[-1], True
    elif newer is None:
        newer = choices[-1] if older != choices[-1] else choices[-2]
    elif older is None:
        older = choices[max(0, choices.index(newer) - 1)]
        older = older if older != newer else choices[1]
    pair.older, pair.newer = older, newer
    return pair


def _named(pair: Pair, text: str) -> Choice | None:
    """Return the run that the address names; a problem is noted if it names none."""
    if not text:
        return None
    bare = text.removeprefix("#")
    found = next((one for one in pair.choices if str(one.number) == bare), None)
    if found is None:
        spread = {"first": pair.choices[0].number, "last": pair.choices[-1].number}
        if bare.isdecimal():
            line = _(
                "There is no report of Run #%(asked)s. This topic has reports of runs "
                "#%(first)d to #%(last)d: choose two of them."
            )
        else:
            line = _("“%(asked)s” is no run's number. Choose two runs from the lists.")
        pair.problems.append(line % {"asked": bare, **spread})
    return found


# --- the page -----------------------------------------------------------------------------------------


def context(topic: Topic, asked: Asked) -> dict[str, Any]:
    """Return what the page shows: one query, and one to three more for its view."""
    choices = choices_of(topic)
    pair = chosen(choices, asked)
    shown: dict[str, Any] = {
        "topic": topic,
        "asked": asked,
        "pair": pair,
        "choices": list(reversed(choices)),
        "title": _("Compare runs"),
    }
    if pair.two is None:
        return shown
    older, newer = pair.two
    numbers = {"older": older.number, "newer": newer.number}
    shown["title"] = _("Run #%(older)d against Run #%(newer)d") % numbers
    shown |= _addresses(topic, asked, pair, pair.two)
    if asked.view == "facts":
        first, last = sorted(numbers.values())
        runs = [one.run for one in choices]
        groups = compare_facts.compare(topic, runs, first, last)
        is_alike = bool(groups) and all(group.kind in compare_facts.ALIKE for group in groups)
        return shown | {"groups": groups, "is_alike": is_alike}
    reports = Report.objects.filter(run__in=(older.run.pk, newer.run.pk)).select_related("run")
    by_run = {report.run_id: report for report in reports}
    old, new = by_run[older.run.pk], by_run[newer.run.pk]
    if asked.view == "sources":
        return shown | compare_sources.compare(topic, old, new)
    return shown | _texts(old, new, asked)


def _texts(old: Report, new: Report, asked: Asked) -> dict[str, Any]:
    """Return the two reports' texts as rows: without their marks, unchanged lines folded."""
    bare = [_as_read(_MARKS.sub("", report.body)) for report in (old, new)]
    rows = text_diff.diff(*(f"{text}\n" if text else "" for text in bare))
    # Blank lines part paragraphs: where they come and go the paragraphs tell it.
    rows = [row for row in rows if not row.is_blank]
    changes = sum(row.kind != "same" for row in rows)
    shown = rows if asked.is_whole else text_diff.folded(rows)
    return {
        "rows": shown[:MOST_ROWS],
        "columns": text_diff.sided(shown[:MOST_ROWS]),
        "rows_left": max(0, len(shown) - MOST_ROWS),
        "change_count": changes,
        "is_alike": not changes,
        "is_empty": not rows,
        "has_other_style": len({_style_of(old), _style_of(new)} - {""}) > 1,
    }


def _as_read(markdown: str) -> str:
    """Return a report's lines without their markup; a bullet keeps its sign."""
    lines = (line.rstrip().removesuffix("\\") for line in markdown.strip().splitlines())
    shown = (("• " if _BULLET.match(line) else "") + plain(line) for line in lines)
    return _ESCAPED.sub(r"\1", "\n".join(shown))


def _style_of(report: Report) -> str:
    return str(report.run.settings.get("report_style", ""))


# --- addresses ----------------------------------------------------------------------------------------


def address(topic: Topic, two: tuple[Choice, Choice], asked: Asked, **other: str) -> str:
    """Return the address of a comparison, in the view asked for unless `other` says otherwise."""
    query = {"from": str(two[0].number), "to": str(two[1].number), "view": asked.view}
    if asked.is_side_by_side:
        query["layout"] = "side"
    if asked.is_whole:
        query["show"] = "all"
    query = {name: value for name, value in (query | other).items() if value}
    return reverse("research:compare", args=[topic.slug]) + "?" + urlencode(query)


def _addresses(
    topic: Topic, asked: Asked, pair: Pair, two: tuple[Choice, Choice]
) -> dict[str, Any]:
    """Return where the page leads: its views, the pairs beside, this one turned round."""
    beside = {
        name: {"url": address(topic, other, asked), "pair": other} if other else None
        for name, other in (("before", pair.stepped(-1)), ("after", pair.stepped(1)))
    }
    return beside | {
        "views": [
            {
                "label": label,
                "url": address(topic, two, asked, view=view),
                "is_current": view == asked.view,
            }
            for view, label in VIEWS.items()
        ],
        "swap_url": address(topic, (two[1], two[0]), asked),
        "side_url": address(topic, two, asked, layout="side"),
        "unified_url": address(topic, two, asked, layout=""),
        "whole_url": address(topic, two, asked, show="all"),
        "folded_url": address(topic, two, asked, show=""),
    }
