"""The search services: what each is for and needs, their interface, and its data.

Settings, forms, pages, documentation and adapters read `CATALOGUE`. No adapter is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from typing import Protocol, cast

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from beacon_site.net.errors import ProviderRejected
from beacon_site.text.messages import gettext as _

KEY, ADDRESS = "key", "address"
"""What a service can need before it works; "" means nothing."""


@dataclass(frozen=True, slots=True)
class SearchService:
    """One service.

    `adapter` is the "module:name" that creates its provider from a profile, usually a class (""
    for the library, whose rows belong to the memory app).  `vendor_url` is its own origin, which
    `url_variable` replaces; `key_variable` is the variable of its key.  `queries_a_run` limits how
    many of a run's queries it gets, best first, since its rate limit would make a run wait (None:
    all).  `usual` means that topics without selected services use it once it is set up.
    """

    name: str
    label: str | Promise
    about: str | Promise
    needs: str = ""
    adapter: str = ""
    vendor_url: str = ""
    key_variable: str = ""
    url_variable: str = ""
    queries_a_run: int | None = None
    usual: bool = True

    @property
    def is_set_up_in_settings(self) -> bool:
        """Return True if Settings → Models and search has a URL, and perhaps a key, for it."""
        return bool(self.url_variable)


_HERE = "beacon_site.providers.search."

CATALOGUE = (
    SearchService(
        "serpapi",
        "SerpAPI",
        gettext_lazy("Google (web, News, Scholar and Jobs) and Bing"),
        needs=KEY,
        adapter=_HERE + "serpapi:SerpApiSearch",
        vendor_url="https://serpapi.com",
        key_variable="SERPAPI_API_KEY",
        url_variable="SERPAPI_BASE_URL",
    ),
    SearchService(
        "tavily",
        "Tavily",
        gettext_lazy("web search designed for AI agents"),
        needs=KEY,
        adapter=_HERE + "tavily:TavilySearch",
        vendor_url="https://api.tavily.com",
        key_variable="TAVILY_API_KEY",
        url_variable="TAVILY_BASE_URL",
    ),
    SearchService(
        "brave",
        "Brave",
        gettext_lazy("web search with its own index"),
        needs=KEY,
        adapter=_HERE + "brave:BraveSearch",
        vendor_url="https://api.search.brave.com",
        key_variable="BRAVE_API_KEY",
        url_variable="BRAVE_BASE_URL",
    ),
    SearchService(
        "searxng",
        "SearXNG",
        gettext_lazy("a metasearch server that you host"),
        needs=ADDRESS,
        adapter=_HERE + "searxng:SearxngSearch",
        url_variable="SEARXNG_BASE_URL",
    ),
    SearchService(
        "wikipedia",
        "Wikipedia",
        gettext_lazy("encyclopedia articles in the topic’s language"),
        adapter=_HERE + "wikipedia:WikipediaSearch",
        vendor_url="https://en.wikipedia.org",
        url_variable="WIKIPEDIA_BASE_URL",
    ),
    SearchService(
        "arxiv",
        "arXiv",
        gettext_lazy("research papers, limited to one query every 3 seconds"),
        adapter=_HERE + "arxiv:ArxivSearch",
        vendor_url="https://export.arxiv.org",
        url_variable="ARXIV_BASE_URL",
        queries_a_run=3,
    ),
    SearchService(
        "hackernews",
        "Hacker News",
        gettext_lazy("links and discussions about technology"),
        adapter=_HERE + "hackernews:HackerNewsSearch",
        vendor_url="https://hn.algolia.com",
        url_variable="HACKERNEWS_BASE_URL",
    ),
    SearchService(
        "gdelt",
        "GDELT",
        gettext_lazy("world news, limited to one query every 6 seconds, and often unavailable"),
        adapter=_HERE + "gdelt:GdeltSearch",
        vendor_url="https://api.gdeltproject.org",
        url_variable="GDELT_BASE_URL",
        queries_a_run=2,
        # It refuses many requests, so only topics that select it use it.
        usual=False,
    ),
    SearchService(
        "feeds",
        "Feeds",
        gettext_lazy("RSS and Atom feeds listed in the topic"),
        adapter=_HERE + "feeds:feed_search",
    ),
    SearchService("library", gettext_lazy("Library"), gettext_lazy("your own documents")),
    SearchService(
        "sample",
        gettext_lazy("Sample"),
        gettext_lazy("bundled articles about PostgreSQL, available offline"),
        adapter=_HERE + "sample:SampleSearch",
        usual=False,
    ),
)
BY_NAME = {service.name: service for service in CATALOGUE}

SERVICES = tuple(service.name for service in CATALOGUE)
"""The services that a topic can use, in the order of the form."""

ADAPTERS = {service.name: service.adapter for service in CATALOGUE if service.adapter}
"""The adapter that creates each provider from its profile; its module is imported at first use.

The library isn't here, because the memory app, which has its rows, creates that provider itself.
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result: an http(s) URL with its title, as `service` returned it at `rank` (from 1)."""

    url: str
    title: str
    snippet: str = ""
    service: str = ""
    rank: int = 0
    published_at: date | None = None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search.  A service ignores options that it doesn't support.

    `since` drops hits that are known to be older.  `languages` are codes such as "en" or "zh", the
    main one first.  `engine` is SerpAPI's, `batch` the sample's, `feeds` the topic's.  `about` is
    the subject of all queries and `last_asked` the time of the previous search for it.  The library
    ranks only by words, and uses them to ignore words that don't belong to the subject.
    """

    limit: int = 10
    since: date | None = None
    languages: tuple[str, ...] = ()
    engine: str = "google"
    batch: int = 1
    feeds: tuple[str, ...] = ()
    about: str = ""
    last_asked: datetime | None = None

    @property
    def newest_first(self) -> bool:
        """Whether to sort by date instead of relevance: in a time frame, and for a repeated search.

        The most relevant hits of a repeated search are those of the previous one.
        """
        return self.since is not None or self.last_asked is not None


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """One configured service.  An empty `base_url` means the vendor's own URL."""

    service: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    contact: str = ""


class SearchProvider(Protocol):
    """A service that can be searched."""

    service: str

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, best first; an empty list means none found.

        Raises ProviderUnavailable if a later retry can help, ProviderRejected if not.
        """
        ...


def get_search(profile: SearchProfile) -> SearchProvider:
    """Return the provider of `profile.service`; create one per run and share it among its queries.

    Raises ProviderRejected for a service without an adapter (see ADAPTERS).
    """
    place = ADAPTERS.get(profile.service)
    if place is None:
        raise ProviderRejected(
            _("“%(name)s” isn’t a search service. Use one of: %(names)s.")
            % {"name": profile.service, "names": ", ".join(ADAPTERS)}
        )
    module, name = place.split(":")
    make = getattr(import_module(module), name)
    return cast("SearchProvider", make(profile))
