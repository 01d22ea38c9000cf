"""The list of topics, the head above a topic's tabs, and its runs: rows, figures and filters.

The number of queries is fixed. A page has 50 rows, so translated texts are looked up and URLs resolved
once per page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
    Count,
    DateTimeField,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Lower
from django.http import QueryDict
from django.shortcuts import get_object_or_404
from django.urls import get_script_prefix, reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rapidfuzz import fuzz, process

from beacon_site.db.keyset import Page, page_of
from beacon_site.db.message_fields import containing
from beacon_site.text.cleaning import choice_param, normal_title, number_of, text_param, uncited
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from memory.models import Source, Topic, TopicFact, User, as_of
from memory.pages.shared.filter_bar import Choice, Facet, Query
from research.models import DeltaItem, Report, Run, TopicSettings
from research.pages.report_list import counts_of
from research.services.budgets import forecasting
from research.services.facts import staleness
from research.services.reports import since_read
from research.services.reports.since_read import TopicSummary
from research.services.runs import presenters
from research.services.runs.execution.starting import describe_limits
from research.services.runs.presenters import cost, started_by, took
from research.services.schedules import scheduling
from research.services.schedules.scheduling import last_notice, lately

_ADDRESSES = {
    "page": "research:topic",
    "read": "research:topic-read",
    "run": "research:topic-run",
    "settings": "research:topic-settings",
    "trash": "research:topic-trash",
}
_ANY = "-"  # placeholder for a topic's slug
_STATES = {"archived": gettext_lazy("Archived"), "never": gettext_lazy("Not run yet")}


@dataclass
class TopicRow:
    """One row: the topic with its state, its last run, and its unread changes."""

    topic: Any
    seen_from: str = ""  # the person's time zone
    last_run: Run | None = None
    unfinished: Run | None = None
    new_counts: list[int] = field(default_factory=list)
    news: TopicSummary = field(default_factory=TopicSummary)
    words: RowWords | None = None  # in a list
    is_past: bool = False  # as of an earlier date: schedules have no history

    @cached_property
    def names(self) -> dict[str, str]:
        """Return the accessible names of the row's controls."""
        return self.words.of_title(self.topic.title) if self.words else {}

    @cached_property
    def to(self) -> dict[str, str]:
        """Return the URLs of its links and buttons."""
        return self.words.addresses(self.topic.slug) if self.words else {}

    @cached_property
    def state(self) -> str:
        """Return the row's state. A recurring topic without a live run is scheduled (R52)."""
        schedule = None if self.is_past else getattr(self.topic, "schedule", None)
        if self.unfinished is not None:
            return self.unfinished.status
        if self.topic.archived_at is not None:
            return "archived"
        if schedule is not None and schedule.recurs:
            return "scheduled"
        if schedule is not None and schedule.preset != schedule.Preset.NONE:
            return "paused"
        return self.last_run.status if self.last_run else "never"

    @property
    def last_failed(self) -> bool:
        """Whether the last run failed, the state doesn't show it, and no run is in progress."""
        if self.last_run is None or self.unfinished is not None:
            return False
        return self.last_run.status == Run.Status.FAILED != self.state

    @property
    def state_word(self) -> str:
        """Return the label for states that aren't a run's."""
        return str(_STATES.get(self.state, ""))

    @cached_property
    def label(self) -> str:
        """Return what a run waits for or its last run found, or "" if the state says it all."""
        if self.unfinished is not None:
            return self.unfinished.waiting_label
        is_quiet = getattr(self.last_run, "is_quiet", None)  # annotated, None without a report
        if self.state != Run.Status.SUCCEEDED or self.last_run is None or is_quiet is None:
            return ""
        if self.last_run.is_baseline:
            return _("baseline")
        return _("nothing new") if is_quiet else _("changed")

    @property
    def found_words(self) -> str:
        """Return what the last run found as a sentence without an end."""
        if self.last_run is None or self.last_run.is_baseline:
            return _("Last run: baseline")
        is_quiet = getattr(self.last_run, "is_quiet", False)
        return _("Last run: nothing new") if is_quiet else _("Last run: changes found")

    @cached_property
    def summary(self) -> str:
        """Return the topic's summary without citations, which have no target here."""
        return uncited(self.topic.summary)

    @property
    def runs_again(self) -> bool:
        """Return True if there is a next run to show."""
        return self.state not in ("archived", "paused") and self.next_run_at is not None

    @property
    def next_run_at(self) -> datetime | None:
        schedule = getattr(self.topic, "schedule", None)
        found: datetime | None = schedule.next_run_at if schedule else None
        return found

    @cached_property
    def schedule_words(self) -> str:
        schedule = getattr(self.topic, "schedule", None)
        return scheduling.describe(schedule, seen_from=self.seen_from) if schedule else ""

    @property
    def last_run_url(self) -> str:
        return _run_url(self.topic.slug, self.last_run.pk)  # type: ignore[union-attr]

    @property
    def unfinished_url(self) -> str:
        """Return the page of the run in progress."""
        return _run_url(self.topic.slug, self.unfinished.pk)  # type: ignore[union-attr]

    @property
    def bars(self) -> SafeString:
        """Return the sparkline of new facts over the last runs, oldest first, 72 by 18."""
        most = max(self.new_counts, default=0) or 1
        heights = [max(1, round(16 * count / most)) for count in self.new_counts]
        return mark_safe(  # noqa: S308  whole numbers alone  # nosec B308 B703
            "".join(
                f'<rect class="a" x="{9 * place}" y="{18 - high}" width="6" height="{high}"/>'
                for place, high in enumerate(heights)
            )
        )

    @property
    def spark_words(self) -> str:
        """Return a text description of the sparkline for screen readers."""
        return _("New facts in recent runs, oldest first: %(counts)s") % {
            "counts": ", ".join(map(str, self.new_counts))
        }


def _run_url(slug: str, pk: int) -> str:
    """Return the URL of a run, as `reverse` does, but from a cached pattern."""
    pattern = _any_run(get_script_prefix())
    return pattern.replace("/0/", f"/{pk}/").replace(f"/{_ANY}/", f"/{slug}/")


@cache
def _any_run(_prefix: str) -> str:
    return reverse("research:run", args=[_ANY, 0])


class RowWords:
    """The texts and URLs that every row needs, looked up once per page."""

    def __init__(self) -> None:
        self.said = {
            "changed": _("Last changed"),
            "last": _("Last run"),
            "next": _("Next run"),
            "private": _("private"),
            "failed": _("last run failed"),
            "never": _("never"),
            "paused": _("paused"),
            "mark_read": _("Mark as read"),
            "run_now": _("Run now"),
        }
        self._of_a_title = {
            "select": _("Select %(title)s"),
            "mark_read": _("Mark as read: %(title)s"),
            "run_now": _("Run now: %(title)s"),
            "settings": _("Settings for %(title)s"),
            "trash": _("Move %(title)s to Trash"),
        }
        self._addresses = {
            name: reverse(route, args=[_ANY]).partition(f"/{_ANY}/")
            for name, route in _ADDRESSES.items()
        }

    def of_title(self, title: str) -> dict[str, str]:
        """Return the accessible names of the row's buttons, which contain the topic's title."""
        return {name: words % {"title": title} for name, words in self._of_a_title.items()}

    def addresses(self, slug: str) -> dict[str, str]:
        """Return the URLs of the topic's links and buttons."""
        return {
            name: f"{before}/{slug}/{behind}"
            for name, (before, _any, behind) in self._addresses.items()
        }


# --- the list ---

SPARK_RUNS = 8
_FAR_AWAY = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_COMPARED = 2000
MAX_SIMILAR = 4
SORTS = {
    "recent": ("sort_recent", True),
    "made": ("created", True),
    "title": ("sort_title", False),
    "next": ("sort_next", False),
}


def topics_wanted(user: User, query: Query) -> QuerySet[Any]:
    """Return the topics that match the filters in `query`, unordered and without figures."""
    topics = Topic.objects.for_user(user).live().matching(text_param(query))
    if (show := shown_of(query)) != "all":
        topics = topics.filter(archived_at__isnull=show == "active")
    if label := text_param(query, "label", 40):
        topics = topics.filter(labels__contains=[label])
    return topics


def shown_of(query: Query) -> str:
    """Return which topics to list: active, archived or all."""
    return choice_param(query, "show", ("archived", "all"), "active")


def page_wanted(user: User, query: Query, *, cursor: str = "") -> Page:
    """Return one page of rows, in three queries, plus three if unread counts are stale."""
    topics = _with_counts(topics_wanted(user, query)).select_related("schedule", "news")
    topics = topics.annotate(
        # The time that the rows show, also of a run that failed.
        sort_recent=Coalesce(
            Subquery(_ended_runs().values("finished_at")[:1]),
            "created",
            output_field=DateTimeField(),
        ),
        changed_at=Subquery(
            Run.objects.kept()
            .filter(topic=OuterRef("pk"), report__is_quiet=False)
            .order_by("-number")
            .values("finished_at")[:1]
        ),
        sort_next=Coalesce("schedule__next_run_at", Value(_FAR_AWAY)),
        sort_title=Lower("title"),
    )
    by, falling = SORTS[choice_param(query, "sort", SORTS, "recent")]
    page = page_of(topics, by=by, falling=falling, cursor=cursor)
    return Page(_rows(page.rows, user.time_zone), page.next_cursor)


def with_figures(topics: QuerySet[Any]) -> QuerySet[Any]:
    """Add each topic's number of facts, sources and unread reports."""
    # The versions of a library document (library:<id>/<version>) are one page, as on the Sources page.
    page = Func(F("url"), Value("^(library:[^/]*)/.*"), Value(r"\1"), function="regexp_replace")
    sources = _counted(Source.objects.all(), "topic", Count(page, distinct=True))
    counted: QuerySet[Any] = _with_counts(topics).annotate(source_count=sources)
    return counted


def _with_counts(topics: QuerySet[Any]) -> QuerySet[Any]:
    """Add each topic's number of facts and unread reports."""
    counted: QuerySet[Any] = topics.annotate(
        fact_count=_counted(TopicFact.objects.live().filter(state="current"), "topic"),
        unread_count=_counted(Report.objects.unread(), "run__topic"),
    )
    return counted


def _counted(rows: QuerySet[Any], to_topic: str, count: Count | None = None) -> Any:
    """Return the count of `rows` per topic as a subquery, because joins would multiply."""
    found = rows.filter(**{to_topic: OuterRef("pk")}).order_by().values(to_topic)
    counted = found.annotate(number=count or Count("pk")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def _rows(topics: Sequence[Any], seen_from: str) -> list[TopicRow]:
    words, is_past = RowWords(), as_of.current() is not None
    rows = {topic.pk: TopicRow(topic, seen_from, words=words, is_past=is_past) for topic in topics}
    last, runs = _last_runs(rows)
    for values in runs:
        pk, topic_id, number, status, *_shown, is_quiet, new_facts = values
        row = rows[topic_id]
        if pk in last or status in Run.UNFINISHED:  # the others are only counted
            run: Any = Run.from_db(None, _RUN_COLUMNS, values[: len(_RUN_COLUMNS)])
            run.is_quiet = is_quiet
            if run.is_unfinished:
                row.unfinished = run
            else:
                row.last_run = run
        if number is not None:
            row.new_counts.append(new_facts)
    if is_past:  # what is unread is so today
        return list(rows.values())
    topic_summaries = since_read.summary_for_lists(
        topic.news for topic in topics if hasattr(topic, "news")
    )
    for key, row in rows.items():
        row.news = topic_summaries.get(key, TopicSummary())
    return list(rows.values())


# A run has more than forty columns, and eight runs per topic are read, most only for their numbers.
_RUN_COLUMNS = ("id", "topic_id", "number", "status", "finished_at", "waiting_since", "is_baseline")


def _last_runs(topic_ids: Iterable[Any]) -> tuple[set[int], Iterable[Any]]:
    """Return each topic's last ended, unfinished and last saved runs, and which of them ended last.

    The runs are ordered by number, each as _RUN_COLUMNS, `is_quiet` and `new_facts`. A baseline lists
    no changes, so its new facts are those that it found first. They are looked up per topic by an
    index, because sorting thousands of runs for the few that are shown would be slow.
    """
    runs = Run.objects.kept().filter(topic=OuterRef("pk"))
    ended = _ended_runs()
    unfinished = runs.filter(status__in=Run.UNFINISHED).order_by("-id")
    saved = runs.exclude(number=None).order_by("-number")
    last: set[int] = set()
    numbers: set[int] = set()
    for of_topic in Topic.objects.filter(pk__in=list(topic_ids)).values_list(
        ArraySubquery(ended.values("pk")[:1]),
        ArraySubquery(unfinished.values("pk")[:1]),
        ArraySubquery(saved.values("pk")[:SPARK_RUNS]),
    ):
        last.update(of_topic[0])
        numbers.update(*of_topic)
    told = DeltaItem.objects.filter(
        run=OuterRef("pk"), status=DeltaItem.Status.NEW, hidden_reason=""
    )
    found = TopicFact.objects.live().filter(topic=OuterRef("topic"), first_run=OuterRef("number"))
    new = Case(When(is_baseline=True, then=_number_of(found)), default=_number_of(told))
    rows: QuerySet[Any] = Run.objects.filter(pk__in=numbers)
    rows = rows.annotate(new_facts=new, is_quiet=F("report__is_quiet"))
    return last, rows.order_by("number").values_list(*_RUN_COLUMNS, "is_quiet", "new_facts")


def _ended_runs() -> QuerySet[Any]:
    """Return the ended runs of the outer topic, newest first."""
    runs = Run.objects.filter(topic=OuterRef("pk")).kept_of_each()
    return runs.exclude(status__in=Run.UNFINISHED).order_by("-id")


def _number_of(rows: QuerySet[Any]) -> Any:
    """Return the number of `rows` as a subquery. They refer to the outer row."""
    counted = rows.order_by().annotate(n=Func(F("pk"), function="Count")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def labels_of(user: User) -> list[Choice]:
    """Return the labels on the person's topics with the number of topics, in order."""
    lists = Topic.objects.for_user(user).live().exclude(labels=[]).values_list("labels", flat=True)
    counts = Counter(label for labels in lists for label in labels)
    return [Choice(one, one, counts[one]) for one in sorted(counts, key=str.casefold)]


def active_and_archived(user: User) -> tuple[int, int]:
    """Return how many topics are active, and how many are archived."""
    is_active = Q(archived_at=None)
    found = (
        Topic.objects.for_user(user)
        .live()
        .aggregate(active=Count("pk", filter=is_active), archived=Count("pk", filter=~is_active))
    )
    return found["active"], found["archived"]


# --- the head above a topic's tabs ---


def topics_of(user: User) -> QuerySet[Any]:
    """Return the person's topics with the figures that the tabs show."""
    topics = with_figures(Topic.objects.for_user(user).live())
    total = _counted(Run.objects.kept(), "topic")
    rows: QuerySet[Any] = topics.annotate(run_total=total, hitch=lately(OuterRef("pk")))
    return rows.select_related("owner", "settings", "schedule")


def add_figures(topic: Topic) -> None:
    """Add the figures that the tabs show to a topic that was found with its run: one query."""
    names = ("fact_count", "source_count", "run_total")
    figures = topics_of(topic.owner).filter(pk=topic.pk).values(*names).first()
    vars(topic).update(figures or {})


def topic_or_404(request: BeaconRequest, slug: str) -> Any:
    """Return the person's topic for its pages, with the figures that the tabs show."""
    return get_object_or_404(topics_of(request.user), slug=slug)


def bare_topic_or_404(request: BeaconRequest, slug: str) -> Topic:
    """Return the person's topic for an action on it, without figures."""
    mine = Topic.objects.for_user(request.user).live().select_related("owner")
    topic: Topic = get_object_or_404(mine, slug=slug)
    return topic


def estimate_of(topic: Any) -> dict[str, Any]:
    """Return what the next run will cost, and what the topic can still spend this month."""
    days = staleness.days_of(topic.settings, topic.schedule)
    return {
        "forecast": forecasting.forecast_of(topic),
        "month": forecasting.month_of(topic),
        "stale": staleness.stale_facts(topic, days).count(),
    }


def head_of(topic: Any) -> dict[str, Any]:
    """Return the head of a topic from `topics_of`: its state, and its memory's expiry.

    `notice` is a problem with its schedule within the week, `limits` are to be known before a run
    starts, and `other_depth` is offered for a single run. Two queries: the unfinished and the last
    run, and the hourly limit.
    """
    ended = Case(
        When(status__in=Run.UNFINISHED, then=Value(0)),
        default=Value(1),
        output_field=IntegerField(),
    )
    runs = Run.objects.kept().filter(topic=topic)
    runs = runs.annotate(ended=ended, is_quiet=F("report__is_quiet")).order_by("ended", "-id")
    row = TopicRow(topic, is_past=as_of.current() is not None)
    for run in runs.distinct("ended"):
        run.topic = topic
        if run.is_unfinished:
            row.unfinished = run
        else:
            row.last_run = run
    quick, deep = TopicSettings.Depth.QUICK, TopicSettings.Depth.DEEP
    return {
        "row": row,
        "live_run": row.unfinished,
        "other_depth": str(quick if topic.settings.depth == deep else deep),
        "memory_words": presenters.memory_words(topic),
        "notice": last_notice(topic.hitch),
        "limits": describe_limits(topic.owner),
    }


# --- a topic's runs ---


def run_facets(topic: Topic) -> tuple[list[Facet], int]:
    """Return what the runs can be filtered by, with counts, and their number: one query."""
    rows = Run.objects.kept().filter(topic=topic).order_by().values_list("status", "trigger")
    status: Counter[str] = Counter()
    trigger: Counter[str] = Counter()
    for one, other, number in rows.annotate(n=Count("pk")):
        status[one] += number
        trigger[other] += number
    facets = [
        Facet(
            "status",
            _("Status"),
            [Choice(*choice, status[choice[0]]) for choice in Run.Status.choices],
        ),
        Facet(
            "by",
            _("Started by"),
            [Choice(*choice, trigger[choice[0]]) for choice in Run.Trigger.choices],
        ),
    ]
    return facets, status.total()


def runs_of(topic: Topic, query: QueryDict, *, cursor: str) -> Page:
    """Return a page of the runs that match the filters, newest first."""
    rows = Run.objects.kept().filter(topic=topic)
    if (status := query.get("status")) in Run.Status.values:
        rows = rows.filter(status=status)
    if (trigger := query.get("by")) in Run.Trigger.values:
        rows = rows.filter(trigger=trigger)
    words = text_param(query).split()[:10]
    has_error = containing(rows, "error") if words else Q
    for word in words:
        number = number_of(word.lstrip("#"))
        rows = rows.filter(
            has_error(word) if number is None else has_error(word) | Q(number=number)
        )
    page = page_of(
        rows.select_related("rerun_of").defer("manifest", "rerun_of__manifest"),
        by="created",
        falling=True,
        cursor=cursor,
    )
    counts = counts_of([run.pk for run in page.rows])
    for run in page.rows:
        run.topic = topic
    found = [
        {
            "run": run,
            "counts": counts[run.pk],  # of listed changes, by status
            "took": took(run),
            "tokens": grouped(run.tokens),
            "cost": cost(run),
            "trigger": started_by(run),
        }
        for run in page.rows
    ]
    return Page(found, page.next_cursor)


# --- topics similar to a title being typed ---


def known_of(user: User, title: str) -> dict[str, Any]:
    """Return the person's topic with this title (exact slug) and similar ones, in two queries.

    Without a title, nothing is queried.
    """
    value = normal_title(title)
    if not value:
        return {}
    titles = Topic.objects.for_user(user).live().order_by("-created")[:_MAX_COMPARED]
    choices = {pk: normal_title(name) for pk, name in titles.values_list("pk", "title")}
    ranked = process.extract(
        value, choices, scorer=_likeness, processor=None, limit=MAX_SIMILAR + 1, score_cutoff=62
    )
    same = Topic.objects.titled(user, title)
    keys = [key for _name, _score, key in ranked if same is None or key != same.pk]
    if same is not None:
        keys.insert(0, same.pk)
    found = with_figures(Topic.objects.filter(pk__in=keys[: MAX_SIMILAR + 1])).in_bulk()
    topics = [found[key] for key in keys if key in found]
    if same is None:
        return {"same": None, "similar": topics[:MAX_SIMILAR]}
    return {"same": topics[0], "similar": topics[1 : MAX_SIMILAR + 1]}


def _likeness(value: str, title: str, **_options: Any) -> float:
    """Return a similarity from 0 to 100.

    Shared words count, and so does a prefix that is still being typed.
    """
    shared: float = fuzz.token_set_ratio(value, title)
    if len(value) >= 4 and title.startswith(value):
        return max(shared, 95.0)
    return shared
