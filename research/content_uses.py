"""Where research used a content item: as the text behind a hit, and as a source of a report."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse
from django.utils.translation import gettext as _

from memory import content_page
from memory.content_page import Usage
from memory.models import ContentItem
from memory.text import shorten
from research.models import Hit

MOST = 20


def register() -> None:
    """Tell memory's page of an item where research used it."""
    content_page.USED_IN.append(used_in)


def used_in(item: ContentItem) -> Iterator[Usage]:
    """Yield the runs that read the item, each with the number under which its report cites it."""
    hits = Hit.objects.filter(content_item=item, run__topic__owner=item.owner)
    for hit in hits.select_related("run", "run__topic").order_by("-run_id")[:MOST]:
        run, topic = hit.run, hit.run.topic
        told = {"run": run, "topic": shorten(topic.title, 60), "n": hit.cited_as}
        words = _("read by %(run)s of “%(topic)s”")
        url = "" if topic.trashed_at else reverse("research:run", args=[topic.slug, run.pk])
        if hit.cited_as:
            words = _("cited as [%(n)s] in the report of %(run)s of “%(topic)s”")
            url = url and f"{url}#source-{hit.cited_as}"
        yield Usage(words % told, url, run.started_at or run.created)
