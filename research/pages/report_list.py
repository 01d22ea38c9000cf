"""The list of reports over all topics, and marking reports as read or unread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache

from beacon_site.db.keyset import Page, page_of
from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import number_of, shorten, text_param, uncited, uuids_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in
from memory.models import Topic, User
from memory.models.errors import InvalidValue
from memory.pages.records import saved_views
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar, Query
from memory.pages.shared.undo import exact_moment, offer, undoes
from research.models import DeltaItem, Report, Run
from research.models.reports import UNREAD_FIRST, ReportQuerySet
from research.services.reports import since_read

PAGE_SIZE = 30


def matching_reports(user: User, query: Query) -> ReportQuerySet:
    """Return the user's reports that match the filters in `query`, of topics outside Trash."""
    mine: ReportQuerySet = Report.objects.for_user(user).live()
    rows = mine.exclude(run__number=None).filter(run__topic__trashed_at=None)
    if query.get("show") == "unread":
        rows = rows.filter(read_at=None)
    if slug := text_param(query, "topic", 100):
        rows = rows.filter(run__topic__slug=slug)
    return with_words(rows, text_param(query), "title", "body", "delta")


def page_of_reports(
    user: User, query: Query, cursor: str = ""
) -> tuple[list[dict[str, Any]], Page]:
    """Return a page of the list, unread first, then newest first: two queries."""
    rows = matching_reports(user, query).annotate(place=UNREAD_FIRST).select_related("run__topic")
    shown = page_of(
        rows.defer("body", "delta", "sources"),
        by="place",
        falling=True,
        cursor=cursor,
        size=PAGE_SIZE,
    )
    counts = counts_of([report.run_id for report in shown.rows])
    return [row_of(report, counts[report.run_id]) for report in shown.rows], shown


def row_of(report: Report, counts: list[tuple[str, int]]) -> dict[str, Any]:
    """Return a report with its counts of listed changes by status, and its beginning as plain text."""
    return {
        "report": report,
        "counts": counts,
        "summary": shorten(uncited(report.summary), 180),
    }


def counts_of(runs: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
    """Return the number of changes each run lists, by status, in the section's order."""
    items = DeltaItem.objects.filter(run__in=runs, hidden_reason="", status__in=DeltaItem.LISTED)
    by_run: dict[int, dict[str, int]] = defaultdict(dict)
    for row in items.order_by().values("run", "status").annotate(n=Count("id")):
        by_run[row["run"]][row["status"]] = row["n"]
    status = DeltaItem.Status
    order = (status.CONTRADICTED, status.CHANGED, status.NEW, status.GONE)
    return defaultdict(
        list,
        {run: [(s.value, by[s]) for s in order if s in by] for run, by in by_run.items()},
    )


@signed_in("POST")
def topic_read(request: BeaconRequest, slug: str) -> HttpResponse:
    """Mark the topic's reports read, up to Run #`upto` if given.

    Reports that arrive while the page is open stay unread.
    """
    topic = _topic(request, slug)
    rows, upto = _reports(topic), number_of(request.GET.get("upto", ""))
    if upto is not None:
        rows = rows.filter(run__number__lte=upto)
    count, at = since_read.mark_read(rows)
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    confirm_read(request, count, at)
    return redirect_back(request, reverse("research:topics"))


@signed_in("POST")
def topic_unread(request: BeaconRequest, slug: str) -> HttpResponse:
    """Mark reports as unread: Run #`first` to Run #`last`, or the latest one.

    Leads to the list, because the topic's own page would mark them as read again.
    """
    topic = _topic(request, slug)
    rows = _reports(topic)
    first, last = (number_of(request.POST.get(name, "")) for name in ("first", "last"))
    if first is not None and last is not None:
        rows = rows.filter(run__number__gte=first, run__number__lte=last)
    else:
        rows = rows.filter(pk__in=rows.order_by("-run__number").values("pk")[:1])
    count, at = since_read.mark_unread(rows)
    confirm_unread(request, count, at)
    return redirect_back(request, reverse("research:topics"))


def _topic(request: BeaconRequest, slug: str) -> Topic:
    found: Topic = get_object_or_404(Topic.objects.for_user(request.user).live(), slug=slug)
    return found


def _reports(topic: Topic) -> ReportQuerySet:
    rows: ReportQuerySet = Report.objects.live().filter(run__topic=topic)
    return rows.exclude(run__number=None)


# --- one report, and the list ---


def _report(request: BeaconRequest, slug: str, run_id: int) -> ReportQuerySet:
    """Return a run's report as a queryset, or raise 404."""
    mine = Run.objects.in_topic(request.user, slug)
    run = get_object_or_404(mine.exclude(report=None), pk=run_id)
    rows: ReportQuerySet = Report.objects.filter(run=run)
    return rows


@signed_in("POST")
def report_read(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Mark the report as read: sent by its page, or by a button without JavaScript."""
    count, at = since_read.mark_read(_report(request, slug, run_id))
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    confirm_read(request, count, at)
    return redirect_back(request, reverse("research:run", args=[slug, run_id]))


@signed_in("POST")
def report_unread(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Mark the report as unread and go to the list (its page would mark it as read again)."""
    found = _report(request, slug, run_id)
    count, at = since_read.mark_unread(found)
    title = found.values_list("title", flat=True).get()
    confirm_unread(request, count, at, _("“%(title)s” marked as unread.") % {"title": title})
    return redirect_back(request, reverse("research:reports"))


def _facets(user: User) -> tuple[list[Facet], int]:
    """Return what reports can be filtered by, and the number of all of them: one query."""
    rows = matching_reports(user, {}).order_by().values("run__topic__slug", "run__topic__title")
    topics = rows.annotate(n=Count("pk"), unread=Count("pk", filter=Q(read_at=None)))
    listed = sorted(topics, key=lambda row: str(row["run__topic__title"]).casefold())
    unread = Choice("unread", _("Unread"), sum(row["unread"] for row in listed))
    choices = [
        Choice(row["run__topic__slug"], shorten(row["run__topic__title"], 60), row["n"])
        for row in listed
    ]
    total = sum(row["n"] for row in listed)
    show = Facet("show", _("Show"), [unread], any_label=_("All"), any_count=total)
    return [show, Facet("topic", _("Topic"), choices)], total


@never_cache
@signed_in("GET")
def reports(request: BeaconRequest) -> HttpResponse:
    """List reports, unread first. Over htmx only the list."""
    facets, total = _facets(request.user)
    query = filter_bar.read(request.GET, facets)
    rows, page = page_of_reports(request.user, query, request.GET.get("cursor", ""))
    if any(query.values()):
        total = matching_reports(request.user, query).count()
    bar = FilterBar(
        reverse("research:reports"), "reports", query,
        label=_("Search reports"), placeholder=_("Search reports"), facets=facets,
        count=ngettext("%(n)d report", "%(n)d reports", total) % {"n": total}, views_page="reports",
    )  # fmt: skip
    bar = saved_views.with_views(request.user, bar)
    context: dict[str, Any] = {
        "bar": bar,
        "rows": rows,
        "next_cursor": page.next_cursor,
        "is_first": not request.GET.get("cursor"),
    }
    template = "research/_reports.html" if request.htmx else "research/reports.html"
    return render(request, template, context)


@signed_in("POST")
def reports_mark(request: BeaconRequest) -> HttpResponse:
    """Mark the selected reports, or all that match the filter, as read or unread."""
    rows = matching_reports(request.user, request.POST)
    if "all" not in request.POST:
        rows = rows.filter(pk__in=uuids_of(request.POST.getlist("report")))
    if request.POST.get("as") == "unread":
        confirm_unread(request, *since_read.mark_unread(rows))
    else:
        confirm_read(request, *since_read.mark_read(rows))
    return redirect_back(request, reverse("research:reports"))


@undoes("reports-marked")
def _undo_marking(request: BeaconRequest, at: str, read: bool) -> str:
    if read:
        count = since_read.undo_read(request.user, exact_moment(at))
        words = ngettext(
            "%(n)d report marked as unread again.", "%(n)d reports marked as unread again.", count
        )
    else:
        count = since_read.undo_unread(request.user, exact_moment(at))
        words = ngettext(
            "%(n)d report marked as read again.", "%(n)d reports marked as read again.", count
        )
    if not count:
        raise InvalidValue(
            _("These reports have changed since then, so your change couldn’t be undone.")
        )
    messages.success(request, words % {"n": count})
    return reverse("research:reports")


def confirm_read(request: BeaconRequest, count: int, at: datetime) -> None:
    """Confirm that reports were marked as read, with an undo."""
    words = ngettext("%(n)d report marked as read.", "%(n)d reports marked as read.", count)
    undo = offer(request, "reports-marked", at=at.isoformat(), read=True) if count else ""
    messages.success(request, words % {"n": count}, extra_tags=undo)


def confirm_unread(request: BeaconRequest, count: int, at: datetime, words: str = "") -> None:
    """Confirm that reports were marked as unread, with an undo."""
    if not count:
        messages.info(request, _("These reports are already unread."))
        return
    message = ngettext("%(n)d report marked as unread.", "%(n)d reports marked as unread.", count)
    undo = offer(request, "reports-marked", at=at.isoformat(), read=False)
    messages.success(request, words or message % {"n": count}, extra_tags=undo)
