"""The search services: what each is for, what it needs, and how much it is used.

Settings, forms, pages, documentation and adapters read this table.  It doesn't import adapters.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

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
        """Whether Settings → Models and search has a URL, and perhaps a key, for it."""
        return bool(self.url_variable)


_HERE = "beacon_site.providers.search."

CATALOGUE = (
    SearchService(
        "serpapi",
        "SerpAPI",
        _("Google, News, Scholar, Jobs and Bing"),
        needs=KEY,
        adapter=_HERE + "serpapi:SerpApiSearch",
        vendor_url="https://serpapi.com",
        key_variable="SERPAPI_API_KEY",
        url_variable="SERPAPI_BASE_URL",
    ),
    SearchService(
        "tavily",
        "Tavily",
        _("web search for agents"),
        needs=KEY,
        adapter=_HERE + "tavily:TavilySearch",
        vendor_url="https://api.tavily.com",
        key_variable="TAVILY_API_KEY",
        url_variable="TAVILY_BASE_URL",
    ),
    SearchService(
        "brave",
        "Brave",
        _("web search with its own index"),
        needs=KEY,
        adapter=_HERE + "brave:BraveSearch",
        vendor_url="https://api.search.brave.com",
        key_variable="BRAVE_API_KEY",
        url_variable="BRAVE_BASE_URL",
    ),
    SearchService(
        "searxng",
        "SearXNG",
        _("a metasearch server that you host"),
        needs=ADDRESS,
        adapter=_HERE + "searxng:SearxngSearch",
        url_variable="SEARXNG_BASE_URL",
    ),
    SearchService(
        "wikipedia",
        "Wikipedia",
        _("encyclopedia articles in the topic’s language"),
        adapter=_HERE + "wikipedia:WikipediaSearch",
        vendor_url="https://en.wikipedia.org",
        url_variable="WIKIPEDIA_BASE_URL",
    ),
    SearchService(
        "arxiv",
        "arXiv",
        _("research papers, limited to one query every 3 seconds"),
        adapter=_HERE + "arxiv:ArxivSearch",
        vendor_url="https://export.arxiv.org",
        url_variable="ARXIV_BASE_URL",
        queries_a_run=3,
    ),
    SearchService(
        "hackernews",
        "Hacker News",
        _("links and discussions about technology"),
        adapter=_HERE + "hackernews:HackerNewsSearch",
        vendor_url="https://hn.algolia.com",
        url_variable="HACKERNEWS_BASE_URL",
    ),
    SearchService(
        "gdelt",
        "GDELT",
        _("world news, limited to one query every 6 seconds, and often unavailable"),
        adapter=_HERE + "gdelt:GdeltSearch",
        vendor_url="https://api.gdeltproject.org",
        url_variable="GDELT_BASE_URL",
        queries_a_run=2,
        # It refuses often (providers.md 4), so only topics that select it use it.
        usual=False,
    ),
    SearchService(
        "feeds",
        "Feeds",
        _("RSS and Atom feeds listed in the topic"),
        adapter=_HERE + "feeds:feed_search",
    ),
    SearchService("library", _("Library"), _("your own documents")),
    SearchService(
        "sample",
        _("Sample"),
        _("bundled articles about PostgreSQL, available offline"),
        adapter=_HERE + "sample:SampleSearch",
        usual=False,
    ),
)
BY_NAME = {service.name: service for service in CATALOGUE}
