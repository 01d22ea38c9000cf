"""The search services that Beacon knows: what each is for, what it needs, and how far it is asked.

One table that settings, forms, pages, documentation and adapters read; plain data, no imports of
adapters.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

KEY, ADDRESS = "key", "address"
"""What a service may need before it can be asked; "" is nothing at all."""


@dataclass(frozen=True, slots=True)
class SearchService:
    """One service.

    `adapter` is "module:name" of what makes its provider from a profile, its class as a rule (""
    for the library, whose rows belong to memory).  `vendor_url` is its own origin, which
    `url_variable` replaces; `key_variable` holds its key.  `queries_a_run` bounds how many of a
    run's queries it is asked, best first, for its own limits would make a run wait (None: all).
    `usual` says that a topic which names no service asks it, once it is set up.
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
        """Whether Settings, Connections has an address, and perhaps a key, for it."""
        return bool(self.url_variable)


_HERE = "beacon_site.search_services."

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
        _("web search made for agents"),
        needs=KEY,
        adapter=_HERE + "tavily:TavilySearch",
        vendor_url="https://api.tavily.com",
        key_variable="TAVILY_API_KEY",
        url_variable="TAVILY_BASE_URL",
    ),
    SearchService(
        "brave",
        "Brave",
        _("web search by an index of its own"),
        needs=KEY,
        adapter=_HERE + "brave:BraveSearch",
        vendor_url="https://api.search.brave.com",
        key_variable="BRAVE_API_KEY",
        url_variable="BRAVE_BASE_URL",
    ),
    SearchService(
        "searxng",
        "SearXNG",
        _("a metasearch server that you run"),
        needs=ADDRESS,
        adapter=_HERE + "searxng:SearxngSearch",
        url_variable="SEARXNG_BASE_URL",
    ),
    SearchService(
        "wikipedia",
        "Wikipedia",
        _("encyclopaedia articles, in the topic's language"),
        adapter=_HERE + "wikipedia:WikipediaSearch",
        vendor_url="https://en.wikipedia.org",
        url_variable="WIKIPEDIA_BASE_URL",
    ),
    SearchService(
        "arxiv",
        "arXiv",
        _("research papers, asked one query every three seconds"),
        adapter=_HERE + "arxiv:ArxivSearch",
        vendor_url="https://export.arxiv.org",
        url_variable="ARXIV_BASE_URL",
        queries_a_run=3,
    ),
    SearchService(
        "hackernews",
        "Hacker News",
        _("what engineers link to and discuss"),
        adapter=_HERE + "hackernews:HackerNewsSearch",
        vendor_url="https://hn.algolia.com",
        url_variable="HACKERNEWS_BASE_URL",
    ),
    SearchService(
        "gdelt",
        "GDELT",
        _("news of the world, asked one query every six seconds, as far as it answers"),
        adapter=_HERE + "gdelt:GdeltSearch",
        vendor_url="https://api.gdeltproject.org",
        url_variable="GDELT_BASE_URL",
        queries_a_run=2,
        # providers.md 4: it refuses often, so it is asked only where a topic names it.
        usual=False,
    ),
    SearchService(
        "feeds",
        "Feeds",
        _("RSS and Atom; the topic names them"),
        adapter=_HERE + "feeds:feed_search",
    ),
    SearchService("library", _("Library"), _("your own documents")),
    SearchService(
        "sample",
        _("Sample"),
        _("bundled articles on PostgreSQL; needs no network"),
        adapter=_HERE + "sample:SampleSearch",
        usual=False,
    ),
)
BY_NAME = {service.name: service for service in CATALOGUE}
