"""Where research used a content item: behind a hit, as a source of a report, as what a tool answered."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse
from django.utils.translation import gettext as _

from memory.content_pages import page as content_page
from memory.content_pages.page import Usage
from memory.models import ContentItem
from memory.texts.text import shorten
from research.models import Hit, Run, ToolCall

MOST = 20


def register() -> None:
    """Tell memory's page of an item where research used it."""
    content_page.USED_IN.append(used_in)


def used_in(item: ContentItem) -> Iterator[Usage]:
    """Yield the runs that read the item, each with the number under which its report cites it.

    Of a deep run, the calls of tools that it answered are told too.
    """
    mine = {"content_item": item, "run__topic__owner": item.owner}
    hits = Hit.objects.filter(**mine).select_related("run", "run__topic")
    for hit in hits.order_by("-run_id")[:MOST]:
        told = {"run": hit.run, "topic": _topic(hit.run), "n": hit.cited_as}
        words = _("read by %(run)s of “%(topic)s”")
        url = _page(hit.run)
        if hit.cited_as:
            words = _("cited as [%(n)s] in the report of %(run)s of “%(topic)s”")
            url = url and f"{url}#source-{hit.cited_as}"
        yield Usage(words % told, url, hit.run.started_at or hit.run.created)
    calls = ToolCall.objects.filter(**mine).select_related("run", "run__topic")
    for call in calls.order_by("-pk")[:MOST]:
        told = {"tool": call.tool, "run": call.run, "topic": _topic(call.run)}
        words = _("what %(tool)s answered in %(run)s of “%(topic)s”")
        yield Usage(words % told, _page(call.run), call.created)


def _topic(run: Run) -> str:
    return shorten(run.topic.title, 60)


def _page(run: Run) -> str:
    """Return the run's page; of a topic in the trash there is none."""
    topic = run.topic
    return "" if topic.trashed_at else reverse("research:run", args=[topic.slug, run.pk])
