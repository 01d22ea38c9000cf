"""Home: first steps, unread reports, current and failed runs, upcoming runs, and monthly cost."""

from __future__ import annotations

import calendar
import heapq
from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import CharField, Count, Exists, F, OuterRef, Q, Subquery, Sum, Value, Window
from django.db.models.functions import Coalesce, JSONObject, TruncDate
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRefresh

from beacon_site.providers.search import sample
from beacon_site.text.cleaning import ended, uncited
from beacon_site.text.messages import from_column, grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import (
    ApiToken,
    ModelCall,
    Note,
    Observation,
    Proposal,
    Revision,
    Topic,
    Use,
    User,
)
from memory.models.history import NO_USER, Statement, actor_kind, answered
from memory.services.llm import connections
from memory.services.llm.spending import format_money
from research.models import DeltaItem, Report, Run, Schedule, Step
from research.pages import inbox
from research.services.facts import affected
from research.services.reports import since_read
from research.services.reports.since_read import TopicSummary
from research.services.runs import page as run_page
from research.services.runs import presenters
from research.services.runs.execution import pipeline
from research.services.runs.steps import judging

NEW_FOR = timedelta(days=14)


def first_steps(user: User) -> list[dict[str, Any]]:
    """Return things to try, and whether each is done. Empty once all are, or after two weeks.

    One query, or none after that.
    """
    if timezone.now() - user.date_joined > NEW_FOR:
        return []
    [(slug, *done)] = answered(_first_steps(), user.pk)
    first = reverse("research:topic", args=[slug]) if slug else reverse("research:topics")
    steps = [
        {"label": label, "about": about, "url": url, "done": is_done}
        for (label, about, url), is_done in zip(_all(first), done, strict=True)
    ]
    return [] if all(done) else steps


@cache
def _first_steps() -> Statement:
    topics: Any = Topic.objects.for_user(NO_USER).live()
    runs: Any = Run.objects.for_user(NO_USER).kept().filter(topic__trashed_at=None)
    schedules = Schedule.objects.for_user(NO_USER).filter(paused=False).exclude(next_run_at=None)
    rows = User.objects.filter(pk=NO_USER).values_list(
        Subquery(topics.order_by("created").values("slug")[:1]),
        Exists(runs.filter(number__gte=1)),
        Exists(runs.filter(number__gte=2)),
        Exists(topics.exclude(title=sample.SAMPLE_TITLE)),
        Exists(schedules),
        Exists(ApiToken.objects.for_user(NO_USER)),
    )
    return rows.query.sql_with_params()


def _all(first: str) -> list[tuple[str, str, str]]:
    return [
        (_("Read your first report"), _("the baseline for later reports"), first),
        (_("Run the topic again"), _("the report starts with what changed"), first),
        (
            _("Create your own topic"),
            _("you only need a title"),
            reverse("research:topic-new"),
        ),
        (
            _("Put a topic on a schedule"),
            _("set a schedule in a topic’s settings"),
            reverse("research:calendar"),
        ),
        (_("Connect your agent"), _("over MCP or REST"), reverse("memory:tokens")),
    ]


# --- limits ---

MAX_UNREAD = 12
MAX_RUNNING = 8
MAX_FAILED = 5
MAX_ASIDE = 6
MAX_AGENTS = 3
SOON = timedelta(days=7)
WIDTH, HEIGHT = 240, 36
_OF_A_STEP = ("name", "part", "position", "detail", "warning", "counts")


# --- unread reports ---


def unread_of(user: User) -> tuple[list[dict[str, Any]], datetime | None]:
    """Return the topics with unread reports, those with disputed facts first, and the last reading.

    Each has its latest report, the changes over all of them (`news`), and the person's own lines
    that these affect. It `is_quiet` if there is nothing that the person has to know about.
    Five queries, plus four or five if a topic's counts must be refreshed.
    """
    rows = since_read.topics_with_news(user, MAX_UNREAD)
    if not rows:
        return [], None
    topic_summaries = since_read.summary_for_lists(rows, newest=MAX_UNREAD)
    unread = heapq.nlargest(
        MAX_UNREAD,
        (one for one in topic_summaries.values() if one.unread),
        key=lambda one: one.newest_unread,
    )
    newest = {one.newest: one for one in unread}
    if not newest:
        return [], None
    reports = (
        Report.objects.for_user(user).unread().filter(run__in=newest).select_related("run__topic")
    )
    found = {one.run_id: one for one in reports.defer("body", "delta", "sources", "run__manifest")}
    read = {one.read_at for one in topic_summaries.values()}
    read.add(parse_datetime(rows[0].last_read or ""))  # type: ignore[attr-defined]
    read_at = max((at for at in read if at), default=None)
    met = affected.of_unread(user)
    results = []
    for run_id, news in newest.items():
        if (report := found.get(run_id)) is not None:
            run, affects = report.run, met.get(report.run.topic_id, [])
            is_whole = run.status == Run.Status.SUCCEEDED and not run.is_baseline
            results.append(
                {
                    "report": report,
                    "news": news,
                    "affects": affects,
                    "said": _first_changes(report, news),
                    "is_quiet": news.is_quiet and is_whole and not affects,
                }
            )
    return sorted(results, key=_urgency), read_at if results else None


def last_change(user: User) -> DeltaItem | None:
    """Return the first change of the last report that listed one."""
    mine = DeltaItem.objects.told().filter(run__topic__owner=user, run__number__gt=1)
    mine = mine.filter(run__topic__trashed_at=None, run__report__trashed_at=None)
    return mine.select_related("run__topic").order_by("-run__finished_at", "position").first()


def _urgency(row: dict[str, Any]) -> tuple[bool, ...]:
    """Order topics with disputed facts first, then changed and new ones, and quiet ones last."""
    news: TopicSummary = row["news"]
    return (not news.contradicted, not news.changed, not news.new, news.is_quiet)


def _first_changes(report: Report, news: TopicSummary) -> list[tuple[str, str, str, bool]]:
    """Return the first changes, each with its site and URL and whether it is gone, or the latest
    report's summary.
    """
    if not news.lines:
        return [(_summary(report, news), "", "", False)]
    sentences = (ended(uncited(sentence)) for sentence in news.lines)
    cited = (one or ["", ""] for one in news.cited)
    gone = (one == DeltaItem.Status.GONE for one in news.statuses)
    return [
        (sentence, site, url if url.startswith(("http://", "https://")) else "", is_gone)
        for sentence, (site, url), is_gone in zip(sentences, cited, gone, strict=True)
    ]


def _summary(report: Report, news: TopicSummary) -> str:
    if news.is_quiet and not news.is_several:
        known = report.run.known_count
        message = ngettext(
            "Nothing new. %(count)d known source appeared again.",
            "Nothing new. %(count)d known sources appeared again.",
            known,
        )
        return message % {"count": known}
    if news.is_quiet:
        return _("Nothing new in %(count)d reports.") % {"count": news.runs}
    return uncited(report.summary)


# --- current runs ---


_STEP_NOW = (
    Step.objects.filter(run=OuterRef("pk"), state=Step.State.RUNNING, is_follow_up=False)
    .order_by("-position", "-part")
    .values(told=JSONObject(**{name: name for name in _OF_A_STEP}))[:1]
)


def unfinished_runs(user: User) -> list[dict[str, Any]]:
    """Return the person's unfinished runs, each with what it is doing, in one query."""
    runs = Run.objects.for_user(user).unfinished().filter(topic__trashed_at=None)
    runs = runs.select_related("topic").defer("manifest").annotate(step_now=Subquery(_STEP_NOW))
    # Runs that wait for the person come first, because only a review lets them continue.
    first = runs.order_by(F("waiting_since").asc(nulls_last=True), "pk")[:MAX_RUNNING]
    return [_progress_of(run) for run in first]


def _progress_of(run: Any) -> dict[str, Any]:
    """Return what a run is doing, and its progress in pages if they are counted, else in steps."""
    step, place = None, 0
    if told := run.step_now:
        told |= {name: from_column(told[name]) for name in ("detail", "warning")}
        now = Step(run=run, state=Step.State.RUNNING, **told)
        step, place = presenters.step_rows(run, [now])[0], now.position
    if step is None:
        detail = run_page.waiting_words(run) or _("starting")
    else:
        detail = step["detail"] or step["label"]
    if step is not None and step["all"]:
        done, number = step["done"], step["all"]
    else:
        steps = pipeline.steps_of_run(run, judges=judging.judges_run(run))
        done, number = place, len(steps)
    return {
        "run": run,
        "detail": detail,
        "waits": run.waiting_since is not None,  # for the person to review its plan
        "done": done,
        "all": number,
    }


def running_context(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"running": rows, "signature": signature(rows)}


def signature(rows: list[dict[str, Any]]) -> str:
    """Return the key that a poll compares to detect changes: `<run>.<progress>` of each run."""
    return "-".join(f"{row['run'].pk}.{row['run'].progress}" for row in rows)


def same_runs(one: str, other: str) -> bool:
    """Return True if two signatures name the same runs, ignoring progress."""
    return [part.split(".")[0] for part in one.split("-")] == [
        part.split(".")[0] for part in other.split("-")
    ]


# --- failed runs ---


def failed_of(user: User) -> dict[str, Any]:
    """Return the active topics whose last run failed, latest first, in one query.

    `failed` has at most MAX_FAILED runs, and `failed_count` counts all. `failed_why` is the reason
    if all shown share it, otherwise empty.
    """
    last: Any = Run.objects.for_user(user).failed_last().annotate(all=Window(Count("pk")))
    found = list(last.select_related("topic").defer("manifest").order_by("-pk")[:MAX_FAILED])
    reasons = {run.error for run in found}
    return {
        "failed": found,
        "failed_count": found[0].all if found else 0,
        "failed_why": reasons.pop() if len(reasons) == 1 else "",
    }


# --- side column ---


def expiring_soon(user: User) -> list[Topic]:
    """Return the topics whose memory expires within a week, soonest first."""
    now = timezone.now()
    soon = (
        Topic.objects.for_user(user).active().filter(expires_at__gt=now, expires_at__lte=now + SOON)
    )
    return list(soon.order_by("expires_at")[:MAX_ASIDE])


def counted(user: User) -> tuple[int, int]:
    """Return how many notes expire within a week, and how many runs began this month, in one query.

    Expired notes are deleted unless they are pinned. The count stops at 100.
    """
    now = timezone.now()
    soon: Any = Note.objects.for_user(user).active(now).filter(expires_at__lte=now + SOON)
    runs: Any = Run.objects.for_user(user).filter(created__gte=_month_begins()).order_by()
    number = runs.values("topic__owner").annotate(n=Count("pk")).values("n")
    row = User.objects.filter(pk=user.pk).values_list(
        ArraySubquery(soon.order_by().values("pk")[:100]), Coalesce(Subquery(number), 0)
    )
    notes, began = row.get()
    return len(notes), began


def next_runs(user: User) -> list[Schedule]:
    coming = Schedule.objects.for_user(user).filter(
        paused=False, topic__trashed_at=None, topic__archived_at=None
    )
    ordered = coming.exclude(next_run_at=None).select_related("topic").order_by("next_run_at")
    return list(ordered[:MAX_ASIDE])


def _points(by_day: Mapping[int, Decimal], days: int) -> str:
    """Return the points of the daily spending chart, up to today, in a 240 by 36 drawing."""
    most = max(by_day.values(), default=Decimal(0))
    if not most:
        return ""
    last = max(timezone.localdate().day, 2)
    places = (
        (
            round((day - 1) * WIDTH / (days - 1)),
            round(HEIGHT - 3 - (HEIGHT - 6) * by_day.get(day, Decimal(0)) / most),
        )
        for day in range(1, last + 1)
    )
    return " ".join(f"{x},{y}" for x, y in places)


def _chart_words(by_day: Mapping[int, Decimal], month: str, *, is_money: bool) -> str:
    """Describe the chart for screen readers."""
    day = max(by_day, key=lambda each: by_day[each])
    top = by_day[day]
    if is_money:
        words = _("Cost per day in %(month)s (peak: %(most)s on day %(day)d)")
        return words % {"month": month, "most": format_money(top), "day": day}
    words = _("Tokens per day in %(month)s (peak: %(most)d on day %(day)d)")
    return words % {"month": month, "most": int(top), "day": day}


DAYS = 30
OWN, RUNS = ("human", "agent", "session"), ("research", "reflector")  # kinds of actors who write


def written_by_day(user: User) -> dict[str, Any]:
    """Return how many records you and your agents, and runs, wrote on each of the last 30 days: one query.

    The bars are of a 240 by 36 drawing, from the bottom; those of runs are on top of the others.
    """
    today = timezone.localdate()
    first = timezone.localtime() - timedelta(days=DAYS - 1)
    rows: Any = Revision.objects.for_user(user).filter(
        version=1, created__gte=first.replace(hour=0, minute=0, second=0, microsecond=0)
    )
    by_day: dict[tuple[date, bool], int] = defaultdict(int)
    days = rows.order_by().annotate(day=TruncDate("created"), by=actor_kind())
    days = days.filter(by__in=OWN + RUNS).exclude(record_type=Topic.record_type())
    for day, by, number in days.values_list("day", "by").annotate(n=Count("pk")):
        by_day[day, by in OWN] += number
    own = [by_day.get((today - timedelta(days=ago), True), 0) for ago in reversed(range(DAYS))]
    others = [by_day.get((today - timedelta(days=ago), False), 0) for ago in reversed(range(DAYS))]
    most = max(map(sum, zip(own, others, strict=True)))
    bars = []
    for n, (mine, theirs) in enumerate(zip(own, others, strict=True)):
        high = max(_height(mine + theirs, most), 4 if mine and theirs else 0)
        low = min(_height(mine, most), high - 2) if theirs else high
        bars.append((n * WIDTH // DAYS, HEIGHT - low, low, HEIGHT - high, high - low))
    return {"bars": bars if most else [], "own": sum(own), "others": sum(others)}


def _height(number: int, most: int) -> int:
    """Return the height of a bar. A single record among thousands can still be seen."""
    return max(2, round(HEIGHT * number / most)) if number else 0


def agents_week(user: User) -> list[dict[str, Any]]:
    """Return what each agent read and wrote in the last 7 days, and what is pending: one query."""
    since = timezone.now() - timedelta(days=7)
    read: Any = Use.objects.for_user(user).filter(used_at__gt=since, place__startswith="agent:")
    written: Any = Revision.objects.for_user(user).annotate(by=actor_kind()).filter(by="agent")
    waiting: Any = Proposal.objects.for_user(user).waiting().filter(actor__startswith="agent:")
    counted = [
        rows.order_by()
        .values(agent=F(by), what=Value(what, output_field=CharField()))
        .annotate(n=Count(counts, distinct=True))
        .values_list("agent", "what", "n")
        for what, by, counts, rows in (
            ("read", "place", "record_id", read),
            ("written", "actor", "pk", written.filter(created__gt=since)),
            ("waiting", "actor", "pk", waiting),
        )
    ]
    agents: dict[str, dict[str, Any]] = {}
    for actor, what, number in counted[0].union(*counted[1:], all=True):
        name = actor.removeprefix("agent:")
        agents.setdefault(actor, {"actor": actor, "name": name})[what] = number
    most_active = sorted(
        agents.values(), key=lambda one: -one.get("read", 0) - one.get("written", 0)
    )
    return most_active[:MAX_AGENTS]


def _month_begins() -> datetime:
    return timezone.localtime().replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_of(user: User, runs: int) -> dict[str, Any]:
    """Return this month's cost by day, next to the person's budget, for a number of `runs`: one query."""
    first = _month_begins()
    mine: Any = ModelCall.objects
    calls = mine.for_user(user).filter(created__gte=first).order_by()
    days = calls.annotate(day=TruncDate("created")).values("day")
    spent = list(
        days.annotate(
            tokens=Sum(F("prompt_tokens") + F("completion_tokens")),
            cost=Coalesce(Sum("money"), Decimal(0)),
            unpriced=Count("pk", filter=Q(money=None)),
        ).values_list("day", "tokens", "cost", "unpriced")
    )
    money = sum((row[2] for row in spent), Decimal(0))
    unpriced = sum(row[3] for row in spent)
    by_day: dict[int, Decimal] = defaultdict(Decimal)
    for day, tokens, cost, _unpriced in spent:
        by_day[day.day] += cost if money else Decimal(tokens)
    # A line needs three days.
    is_line = sum(map(bool, by_day.values())) > 2
    points = _points(by_day, calendar.monthrange(first.year, first.month)[1]) if is_line else ""
    name, most = date_format(first, "F"), user.monthly_tokens
    return {
        "name": name,
        "runs": runs,
        "tokens_spent": grouped(sum(row[1] for row in spent)),
        "tokens_allowed": "" if most is None else grouped(most),
        "cost": format_money(money, 0 if money else unpriced),
        "unpriced": unpriced,
        "has_cost": bool(money),
        "most_money": user.monthly_money,
        "points": points,
        "words": _chart_words(by_day, name, is_money=bool(money)) if points else "",
    }


# --- view ---


def _when(at: datetime | None) -> str:
    """Return the weekday and time, or the date if the weekday could be another week's."""
    if at is None:
        return ""
    at = timezone.localtime(at)
    is_recent = timezone.localdate() - at.date() < timedelta(days=7)
    return date_format(at, "l H:i" if is_recent else "j M Y, H:i")


def today() -> str:
    """Return today's date in the person's time zone: “Saturday, 21 November”."""
    return date_format(timezone.localdate(), "l, j F")


def context(user: User) -> dict[str, Any]:
    unread, last_read_at = unread_of(user)
    running, coming = unfinished_runs(user), next_runs(user)
    is_fresh = (
        not (unread or running or coming) and not Topic.objects.for_user(user).live().exists()
    )
    found: dict[str, Any] = {
        "today": today(),
        "unread": [one for one in unread if not one["is_quiet"]],
        "quiet": [one for one in unread if one["is_quiet"]],
        "listed": len(unread),
        "last_change": None if unread else last_change(user),
        "last_read_at": last_read_at,
        "last_read": _when(last_read_at),
        "next_runs": coming,
        "is_fresh": is_fresh,
        # What is at the top of the Inbox, which is looked up only if something waits.
        "first_item": partial(inbox.first_item, user),
    } | running_context(running)
    if is_fresh:
        found["has_model"] = connections.llm_profile() is not None
        found["has_agent"] = ApiToken.objects.for_user(user).exists()
        own = Note.objects.for_user(user).live().exclude(kind__in=Note.IDENTITY)
        found["has_memory"] = own.exists() or Observation.objects.for_user(user).live().exists()
        return found
    notes, runs = counted(user)
    steps = first_steps(user)
    beside = {
        "expiring": expiring_soon(user),
        "notes_expiring": notes,
        "memory": written_by_day(user),
        "agents": agents_week(user),
        "month": month_of(user, runs),
        "first_steps": steps,
        "steps_done": sum(step["done"] for step in steps),
    }
    return found | failed_of(user) | beside


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def home(request: BeaconRequest) -> HttpResponse:
    """Show Home. Over htmx only the current runs, or 204 if they haven't changed."""
    if not request.htmx:
        return render(request, "research/home.html", context(request.user))
    seen = request.GET.get("running", "")
    running = unfinished_runs(request.user)
    now = signature(running)
    if seen and now == seen:
        return HttpResponse(status=204)
    if seen and not same_runs(seen, now):
        return HttpResponseClientRefresh()  # A run ended, and the list needs its report.
    shown = running_context(running)
    return render(request, "research/_home_running.html", shown)
