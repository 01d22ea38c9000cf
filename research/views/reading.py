"""Reading several reports at once: a topic's unread ones marked, put back, and both undone."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest
from memory.models import Topic
from memory.responses import go_back
from research.models import Report
from research.models.reports import ReportQuerySet
from research.responses import said_read, said_unread
from research.unread import reading_marks

_MOST_DIGITS = 9  # of a run's number, as the database counts


@require_POST
@login_required
def topic_read(request: BeaconRequest, slug: str) -> HttpResponse:
    """Mark the topic's reports read, up to Run #`upto` where that is said.

    What came while the page was open was not seen on it, and stays unread.
    """
    topic = _topic(request, slug)
    rows, upto = _reports(topic), _number(request.GET.get("upto", ""))
    if upto is not None:
        rows = rows.filter(run__number__lte=upto)
    count, key = reading_marks.mark_read(rows)
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    said_read(request, count, key)
    return go_back(request, reverse("research:topics"))


@require_POST
@login_required
def topic_unread(request: BeaconRequest, slug: str) -> HttpResponse:
    """Put reports back among the unread: Run #`first` to Run #`last`, else the latest one.

    Leads to the list: the topic's own page would mark them again.
    """
    topic = _topic(request, slug)
    rows = _reports(topic)
    first, last = (_number(request.POST.get(name, "")) for name in ("first", "last"))
    if first is not None and last is not None:
        rows = rows.filter(run__number__gte=first, run__number__lte=last)
    else:
        rows = rows.filter(pk__in=rows.order_by("-run__number").values("pk")[:1])
    count, key = reading_marks.mark_unread(rows)
    said_unread(request, count, key)
    return go_back(request, reverse("research:topics"))


@require_POST
@login_required
def reports_undo_unread(request: BeaconRequest, key: int) -> HttpResponse:
    """Take back that reports were put among the unread: they are read as they were."""
    count = reading_marks.undo_unread(request.user, key)
    words = ngettext("%(n)d report is read again.", "%(n)d reports are read again.", count)
    messages.success(request, words % {"n": count})
    return go_back(request, reverse("research:reports"))


def _topic(request: BeaconRequest, slug: str) -> Topic:
    found: Topic = get_object_or_404(Topic.objects.of(request.user).live(), slug=slug)
    return found


def _reports(topic: Topic) -> ReportQuerySet:
    found: ReportQuerySet = Report.objects.live().filter(run__topic=topic)
    return found.exclude(run__number=None)


def _number(text: str) -> int | None:
    """Return the run's number that a text is; None for what is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None
