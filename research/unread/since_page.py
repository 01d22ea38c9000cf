"""What a topic's page shows of several unread reports: their deltas as one, before the latest.

Data flow: the topic's news (`since_read.py`) -> rows as a report shows its own delta, each with the
runs in which something was said of it, and what became of its fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from memory.models import Topic, TopicFact
from research.deltas.merged import Merged
from research.models import DeltaItem, Run
from research.reports.delta_rows import DeltaRow, delta_row
from research.reports.page import rows_of
from research.unread import since_read
from research.unread.since_read import News, ReadRun

Status = DeltaItem.Status


@dataclass(frozen=True, slots=True)
class SinceRow(DeltaRow):
    """A row of a delta over several runs; `trail` names those that spoke of the fact."""

    trail: Sequence[SafeString] = ()


@dataclass(slots=True)
class Since:
    """The section over several unread reports: listed rows, and those folded."""

    news: News
    listed: list[SinceRow] = field(default_factory=list)
    confirmed: list[SinceRow] = field(default_factory=list)
    quiet: list[SinceRow] = field(default_factory=list)

    @property
    def window(self) -> since_read.Window:
        """Return which reports it is about."""
        return self.news.window

    @property
    def title(self) -> str:
        """Return its heading."""
        return _("Since you last read") if self.window.last else _("Not read yet")

    @property
    def since(self) -> str:
        """Return what stands beside the heading: since when, or which runs."""
        return self.window.since or self.window.runs_in_words

    @property
    def baselines(self) -> list[ReadRun]:
        """Return the runs among them, but the first of all, that began without live memory."""
        first = self.window.first if self.window.last is None else None
        return [run for run in self.window.merged if run.is_baseline and run != first]

    @property
    def left_out(self) -> int:
        """Return how many unread reports are too old to be told here."""
        return len(self.window.runs) - len(self.window.merged)


def of(topic: Topic) -> Since | None:
    """Return the section of a topic with several unread reports, else None: two queries.

    One unread report says in its own delta what is new since the one before.
    """
    news = since_read.news_of([topic.pk], in_full=True).get(topic.pk)
    if news is None or not news.window.is_several:
        return None
    since, rows = Since(news), _rows(topic, news)
    for one, row in zip(news.changes, rows, strict=True):
        if one.is_listed:
            since.listed.append(row)
        elif one.status == Status.CONFIRMED:
            since.confirmed.append(row)
        else:
            since.quiet.append(row)
    return since


def items_of(since: Since | None, run: Run) -> Sequence[DeltaItem] | None:
    """Return the items of one run, if the section has read them already."""
    window = since.window if since is not None else None
    if since is None or window is None or run.pk not in [one.pk for one in window.merged]:
        return None
    return since.news.items.get(run.pk, ())


def beside(since: Since, article: dict[str, Any]) -> dict[str, Any]:
    """Return what the section changes of the latest report's page: its contents begin with it."""
    contents = [one for one in article["contents"] if one[0] != "what-changed"]
    first = [("since-read", since.title)] if contents else []
    return {"since": since, "contents": first + contents}


def _rows(topic: Topic, news: News) -> list[SinceRow]:
    runs = {run.pk: run for run in news.window.merged}
    # Of sixty runs of thirty sources each those of a few are told: the others are not taken apart.
    told = {one.shown.run_id for one in news.changes}
    sources = {key: {s.n: s for s in rows_of(runs[key].sources)} for key in told}
    links = {key: _link(topic, run) for key, run in runs.items()}
    latest = news.window.runs[-1]
    rows = []
    for one in news.changes:
        run = runs[one.shown.run_id]
        page = "" if run == latest else _page_of(topic, run)
        row = delta_row(one.as_item(), sources[run.pk], page)
        same = {each.name: getattr(row, each.name) for each in fields(row)}
        rows.append(SinceRow(**same, trail=_trail(topic, one, links)))
    return rows


def _page_of(topic: Topic, run: ReadRun) -> str:
    return reverse("research:run", args=[topic.slug, run.pk])


def _trail(topic: Topic, one: Merged, links: dict[int, SafeString]) -> list[SafeString]:
    """Return the runs that spoke of a fact, each as a link, and what became of it since."""
    words = {
        Status.NEW: _("new in {}"),
        Status.CHANGED: _("changed in {}"),
        Status.CONTRADICTED: _("contradicted in {}"),
        Status.CONFIRMED: _("confirmed in {}"),
        Status.GONE: _("gone in {}"),
    }
    trail = [
        format_html(words[Status(item.status)], links[item.run_id])
        for item in one.items
        if item.status in words
    ]
    fact = getattr(one.shown, "fact", None)
    if fact:
        page = reverse("research:fact-history", args=[topic.slug, fact["id"]])
        name = {
            TopicFact.State.STRUCK: _("struck since"),
            TopicFact.State.RETIRED: _("no longer among the facts"),
        }.get(TopicFact.State(fact["state"]), _("its fact"))
        trail.append(format_html('<a href="{}">{}</a>', page, name))
    return trail


def _link(topic: Topic, run: ReadRun) -> SafeString:
    name = _("Run #%(number)d") % {"number": run.number}
    return format_html('<a href="{}#report">{}</a>', _page_of(topic, run), name)
