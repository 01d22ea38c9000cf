"""Which content items a report needs. The text behind each citation is kept as long as the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from memory.content import services as content_services
from memory.models import ContentItem
from memory.pages.content import items as content_page
from memory.pages.content.items import Usage
from research.models import Hit, Run, ToolCall


def register_kept_items() -> None:
    """Register the content items to keep."""
    content_services.KEEPERS.append(cited)


def cited() -> QuerySet[Any, Any]:
    """Return the ids of the items that a report cites."""
    hits = Hit.objects.filter(cited_as__isnull=False, content_item__isnull=False)
    return hits.values("content_item")


# --- content uses ---

MOST = 20


def register_uses() -> None:
    """Register where research used an item, for its page."""
    content_page.USED_IN.append(used_in)


def used_in(item: ContentItem) -> Iterator[Usage]:
    """Yield the runs that read the item, each with its citation number in the report.

    For a deep run, tool calls that returned the item are included.
    """
    mine = {"content_item": item, "run__topic__owner": item.owner}
    hits = Hit.objects.filter(**mine).select_related("run", "run__topic")
    for hit in hits.order_by("-run_id")[:MOST]:
        told = {"run": hit.run, "topic": _topic(hit.run), "n": hit.cited_as}
        words = _("read by %(run)s of “%(topic)s”")
        url = _page(hit.run)
        if hit.cited_as:
            words = _("cited as [%(n)s] in the report for %(run)s of “%(topic)s”")
            url = url and f"{url}#source-{hit.cited_as}"
        yield Usage(words % told, url, hit.run.started_at or hit.run.created)
    calls = ToolCall.objects.filter(**mine).select_related("run", "run__topic")
    for call in calls.order_by("-pk")[:MOST]:
        told = {"tool": call.tool, "run": call.run, "topic": _topic(call.run)}
        words = _("result of %(tool)s in %(run)s of “%(topic)s”")
        yield Usage(words % told, _page(call.run), call.created)


def _topic(run: Run) -> str:
    return shorten(run.topic.title, 60)


def _page(run: Run) -> str:
    """Return the run's page, or "" if its topic is in the trash."""
    topic = run.topic
    return "" if topic.trashed_at else reverse("research:run", args=[topic.slug, run.pk])
