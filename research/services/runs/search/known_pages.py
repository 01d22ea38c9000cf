"""Read known pages again: those that current facts and the latest reports cite.

Data flow: facts and sources of the topic -> a hit for each page, in addition to those of the
searches -> read by a conditional request if the server named a version -> compared with the text
that the topic stored (`research.services.runs.reporting.rereading`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from django.db.models import Q

from beacon_site.net.fetch import PageFetcher, WebPage
from beacon_site.providers.search import sample
from beacon_site.text.canonical_urls import canonical_or_same, domain_of
from memory.models import ContentItem, LibraryDocument, Source, Topic, Trust
from memory.models.library import ADDRESS, page_of
from memory.services.library.documents import SERVICE as LIBRARY
from memory.services.library.reading import empty
from memory.services.llm import connections
from memory.services.topic_memory import KnownFact, TopicMemory
from research.models import Hit
from research.services.runs.context import inputs
from research.services.runs.context.run_context import RunContext

SERVICE = "known"  # the service of a hit that no search returned
MAX = 24  # known pages read again in one run
LATELY = 5  # the last runs in which a source was cited
_OPENABLE = ("http://", "https://", "library:")


@runtime_checkable
class ConditionalFetcher(Protocol):
    """A fetcher that can skip a page that hasn't changed."""

    def fetch_if_changed(self, url: str, *, etag: str, last_modified: str) -> WebPage | None:
        """Return the page, or None if it is still this version. Raises as fetch() does."""
        ...


def links(context: RunContext) -> list[str]:
    """Return the URLs of the pages that facts and the latest reports cite, facts first.

    A run without the library as a service doesn't read new versions of its documents either.
    """
    found = links_of(context.topic, inputs.loaded_memory(context))
    if LIBRARY in connections.search_services(context.settings.services):
        return found
    return [link for link in found if not ADDRESS.fullmatch(link)]


def links_of(topic: Topic, memory: TopicMemory | None) -> list[str]:
    """Return the pages that a run of the topic with this memory reads again."""
    if memory is None:
        return []
    found = [fact.url for fact in memory.facts if _may_open(fact.url)]
    cited = Source.objects.filter(
        topic=topic, times_cited__gt=0, last_run__gt=memory.run_count - LATELY
    ).order_by("-last_run", "-times_cited", "pk")
    found += [link for link in cited.values_list("link", flat=True)[:MAX] if _may_open(link)]
    unique: dict[str, str] = {}
    for link in found:
        unique.setdefault(page_of(link), link)
    return _as_they_are_now(topic, list(unique.values()))[:MAX]


def _may_open(link: str) -> bool:
    return sample.is_sample_url(link) or link.startswith(_OPENABLE)


def _as_they_are_now(topic: Topic, found: Sequence[str]) -> list[str]:
    """Return the URLs, with library documents in their current version, without empty ones."""
    now = {str(one.pk): one.address for one in _documents(topic, found) if one.problem != empty()}
    result = []
    for link in found:
        named = ADDRESS.fullmatch(link)
        if named is None:
            result.append(link)
        elif named.group(1) in now:
            result.append(now[named.group(1)])
    return result


def _documents(topic: Topic, found: Iterable[str]) -> Iterable[LibraryDocument]:
    """Return the documents that these URLs name and that weren't deleted."""
    keys = [named.group(1) for link in found if (named := ADDRESS.fullmatch(link))]
    documents = LibraryDocument.objects.readable_by(topic.owner).live().filter(pk__in=keys)
    return documents.defer("text")


def deleted_documents(context: RunContext, facts: Sequence[KnownFact]) -> set[str]:
    """Return the URLs of the facts whose document was deleted, if the run uses the library.

    A renamed file is another document with the same content. It may not have been read yet.
    """
    if context.is_stopping or LIBRARY not in connections.search_services(context.settings.services):
        return set()
    urls = {fact.url: named.group(1) for fact in facts if (named := ADDRESS.fullmatch(fact.url))}
    there = {page_of(one.address) for one in _documents(context.topic, urls)}
    gone = {url: key for url, key in urls.items() if page_of(url) not in there}
    documents = LibraryDocument.objects.readable_by(context.topic.owner).exclude(digest="")
    digests = {
        str(pk): digest
        for pk, digest in documents.filter(pk__in=gone.values()).values_list("pk", "digest")
    }
    renamed = documents.live().filter(digest__in=digests.values())
    still = set(renamed.values_list("digest", flat=True))
    return {url for url, key in gone.items() if digests.get(key) not in still}


def emptied_documents(context: RunContext) -> dict[str, str]:
    """Return the titles of known documents that no longer have any text, by their page.

    Those that were emptied before the last run were reported by it.
    """
    memory = inputs.loaded_memory(context)
    services = connections.search_services(context.settings.services)
    if memory is None or context.is_stopping or LIBRARY not in services:
        return {}
    titles = {fact.url: fact.title for fact in memory.facts if not fact.is_kept}
    stated = {page_of(url) for url in titles}
    cited = Source.objects.filter(topic=context.topic, times_cited__gt=0)
    titles |= dict(cited.filter(link__startswith=f"{LIBRARY}:").values_list("link", "title"))
    last = memory.last_run_at
    now_empty = {
        page_of(one.address)
        for one in _documents(context.topic, titles)
        if one.problem == empty()
        and (page_of(one.address) in stated or not last or one.updated > last)
    }
    return {page_of(url): title for url, title in titles.items() if page_of(url) in now_empty}


def add_pages(context: RunContext) -> set[str]:
    """Create a hit for each known page that no search returned. Return the canonical URLs.

    Repeatable: a run has one hit for each canonical URL.
    """
    values = {canonical_or_same(link): link for link in links(context)}
    have = set(context.run.hits.filter(url__in=values).values_list("url", flat=True))
    count = context.run.hits.count()
    titles = dict(
        Source.objects.filter(topic=context.topic, url__in=values).values_list("url", "title")
    )
    missing = [(url, link) for url, link in values.items() if url not in have]
    Hit.objects.bulk_create(
        [
            Hit(
                run=context.run,
                url=url,
                link=link,
                domain=domain_of(link)[:255],
                title=(titles.get(url) or link)[:500],
                service=SERVICE,
                place=count + number,
            )
            for number, (url, link) in enumerate(missing, start=1)
        ],
        ignore_conflicts=True,
    )
    return set(values)


def read_again(context: RunContext) -> Q:
    """Return the filter for the run's hits of known pages that are read again."""
    urls = [canonical_or_same(link) for link in links(context)]
    return Q(state=Hit.State.KNOWN, url__in=urls)


# --- reading ---


def conditional(
    hit: Hit, stored: WebPage | None, fetcher: PageFetcher, plain: Callable[[], WebPage]
) -> Callable[[], WebPage]:
    """Return a function that fetches a page again, without its body if it hasn't changed.

    `stored` is the page's last version, if its server named one (see `stored_pages`).
    """
    is_web = hit.link.startswith(("http://", "https://")) and not sample.is_sample_url(hit.link)
    if not is_web or not isinstance(fetcher, ConditionalFetcher):
        return plain
    asked = (stored.etag, stored.last_modified) if stored else ("", "")
    return partial(_if_changed, fetcher, hit.link, asked, stored)


def _if_changed(
    fetcher: ConditionalFetcher, link: str, asked: tuple[str, str], stored: WebPage | None
) -> WebPage:
    page = fetcher.fetch_if_changed(link, etag=asked[0], last_modified=asked[1])
    if page is not None:
        return page
    assert stored is not None  # noqa: S101 (nothing was asked for conditionally without it)  # nosec B101
    return stored


def stored_pages(
    context: RunContext, hits: Sequence[Hit], last: Mapping[str, ContentItem]
) -> dict[str, WebPage]:
    """Return the pages that the topic last stored, as if just fetched, by their hits' `url`.

    Only those whose server named the version. `last` is the result of `last_versions`.
    """
    sources = Source.objects.filter(topic=context.topic, url__in=[hit.url for hit in hits])
    named = {
        url: (etag, modified)
        for url, etag, modified in sources.values_list("url", "etag", "last_modified")
        if etag or modified
    }
    pages = {}
    for hit in hits:
        kept = last.get(page_of(hit.link))
        if kept is None or hit.url not in named:
            continue
        etag, modified = named[hit.url]
        pages[hit.url] = WebPage(
            url=hit.link,
            final_url=hit.link,
            title=kept.title,
            text=kept.content,
            etag=etag,
            last_modified=modified,
        )
    return pages


def known_of(context: RunContext, hits: Sequence[Hit]) -> list[Hit]:
    """Keep the hits whose page the topic knows, with library documents in any version.

    Pages of a deleted run, or of one whose memory wasn't saved, are new to the topic.
    """
    names = [page_of(hit.link) for hit in hits if hit.link.startswith("library:")]
    condition = Q(url__in=[hit.url for hit in hits])
    for name in names:
        condition |= Q(link__startswith=f"{name}/")
    rows = Source.objects.filter(condition, topic=context.topic).values_list("url", "link")
    urls, known = set(), set()
    for url, link in rows:
        urls.add(url)
        known.add(page_of(link))
    return [hit for hit in hits if hit.url in urls or page_of(hit.link) in known]


def new_versions(context: RunContext, hits: Sequence[Hit]) -> list[Hit]:
    """Keep the hits that are new versions of library documents that the topic knows."""
    hits = [hit for hit in hits if hit.link.startswith("library:")]
    return known_of(context, hits) if hits else []


def last_versions(context: RunContext, hits: Sequence[Hit]) -> dict[str, ContentItem]:
    """Return the last text that earlier runs of the topic read of each page, by the page's name."""
    return {name: items[0] for name, items in versions(context, hits).items()}


def versions(context: RunContext, hits: Sequence[Hit]) -> dict[str, list[ContentItem]]:
    """Return the last two texts that earlier runs of the topic read of each page, the later first.

    Texts of another part of the page aren't versions of the same text.
    """
    parts = {page_of(hit.link): hit.part for hit in hits}
    condition = Q(url__in=[hit.url for hit in hits])
    for hit in hits:
        name = page_of(hit.link)
        if name.startswith("library:"):
            condition |= Q(url__startswith=f"{name}/")
    earlier = Hit.objects.filter(
        condition,
        run__topic=context.topic,
        content_item__isnull=False,
        content_item__trashed_at=None,
    )
    earlier = earlier.exclude(run=context.run).exclude(content_item__trust=Trust.QUARANTINED)
    found: dict[str, list[ContentItem]] = {}
    for hit in earlier.select_related("content_item").order_by("-pk"):
        item = hit.content_item
        if hit.part != parts.get(page_of(hit.link), ""):
            continue
        if item is not None and item.content and item.trashed_at is None:
            texts = found.setdefault(page_of(hit.link), [])
            if len(texts) < 2 and all(other.content != item.content for other in texts):
                texts.append(item)
    return found
