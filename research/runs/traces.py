"""Copies of deleted records in what runs read and wrote, and in what was sent of it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from memory.models import Remembered, Topic
from memory.texts.text import shorten
from memory.trash import traces
from memory.trash.traces import MOST_LISTED, Traces, redact
from research.models import Delivery, Report, Run, Step, ToolCall, TopicNews


def register() -> None:
    """Let a deletion redact runs and messages, and say which reports stay."""
    traces.PLACES.append(forget)
    traces.STAYING.append(reports)
    Topic.HANGING.append(_reports_of)


def forget(gone: Traces) -> None:
    """Redact steps, tool calls and messages that quote what was deleted; reports stay."""
    runs = Run.objects.filter(topic__owner_id=gone.owner_id)
    redact(runs, gone, "manifest", "warnings", "error", "stop_reason")
    recent = {"run__topic__owner_id": gone.owner_id}
    read = Q(run__in=[number for number in gone.read_in("run") if number.isdecimal()])
    redact(Step.objects.filter(**recent), gone, "output", "detail", "warning", read=read)
    redact(ToolCall.objects.filter(**recent), gone, "arguments", "result", read=read)
    sent = Delivery.objects.filter(owner_id=gone.owner_id, created__gte=gone.since)
    redact(sent, gone, "subject", "message", "request", "response", "error", "tries")
    news = TopicNews.objects.filter(topic__owner_id=gone.owner_id)
    told = news.annotate(said=traces.as_text("told")).filter(gone.find("said"))
    keys = list(told.values_list("pk", flat=True))
    TopicNews.objects.filter(pk__in=keys).update(told={}, counted=None)


def reports(gone: Traces) -> Iterable[tuple[str, str]]:
    """Return the reports that say the same: they are records of their own."""
    rows = Report.objects.filter(owner_id=gone.owner_id).exclude(pk__in=gone.ids)
    rows = rows.annotate(cited=traces.as_text("sources"))
    said = rows.filter(gone.find("body", "delta", "summary", "cited", ids=False, rare=False))
    for report in said.select_related("run__topic").order_by("-created")[:MOST_LISTED]:
        address = reverse("research:run", args=[report.run.topic.slug, report.run_id])
        yield _("Report “%(title)s”") % {"title": shorten(str(report), 80)}, address


def _reports_of(topic: Topic) -> Iterable[Remembered]:
    return Report.objects.filter(run__topic=topic)
