"""Which addresses a topic's runs have seen, and which pages they read or cited.

Data flow: what a run's searches returned -> the 500 seen last, renewed -> the ledger of sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings

from memory.models import SeenUrl, Source, Topic
from memory.texts.canonical import canonical_url, domain_of


@dataclass(frozen=True, slots=True)
class ReturnedUrl:
    """A URL that the run's searches returned, and what was done with the page."""

    url: str
    link: str = ""
    title: str = ""
    published_at: date | None = None
    was_read: bool = False
    was_cited: bool = False
    by_search: bool = True  # or read again because facts rest on it


def merge_seen_urls(topic: Topic, urls: Sequence[str], *, number: int, at: datetime) -> None:
    """Add the URLs that run `number` returned, best first; renew those known; keep the newest 500.

    The oldest returned drop out first (R16); the cap is `settings.BEACON_SEEN_URLS`.
    """
    unique = list(dict.fromkeys(canonical_url(url) for url in urls))
    SeenUrl.objects.bulk_create(
        [
            SeenUrl(topic=topic, url=url, returned_in=number, place=place, returned_at=at)
            for place, url in enumerate(unique)
        ],
        update_conflicts=True,
        unique_fields=["topic", "url"],
        update_fields=["returned_in", "place", "returned_at"],
    )
    newest = SeenUrl.objects.filter(topic=topic).order_by("-returned_in", "place")
    dropped = newest.values_list("pk", flat=True)[settings.BEACON_SEEN_URLS :]
    SeenUrl.objects.filter(pk__in=list(dropped)).delete()


def keep_sources(
    topic: Topic, returned: Sequence[ReturnedUrl], *, number: int, at: datetime
) -> None:
    """Note in the ledger each page that was read or cited."""
    used = {canonical_url(item.url): item for item in returned if item.was_read or item.was_cited}
    known = {row.url: row for row in Source.objects.filter(topic=topic, url__in=used)}
    fresh = []
    for url, item in used.items():
        row = known.get(url) or Source(topic=topic, url=url, first_run=number, first_at=at)
        row.link, row.domain = item.link or item.url, domain_of(item.link or item.url)[:255]
        row.title = item.title[:500] or row.title
        row.published_at = item.published_at or row.published_at
        row.last_run, row.last_at = number, at
        row.times_read += item.was_read
        row.times_cited += item.was_cited
        fresh.append(row)
    Source.objects.bulk_create(
        fresh,
        update_conflicts=True,
        unique_fields=["topic", "url"],
        update_fields=[
            "link", "domain", "title", "published_at", "last_run", "last_at",
            "times_read", "times_cited",
        ],
    )  # fmt: skip
