"""The interface of search services, and its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from typing import Any, Protocol, cast

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.search.catalogue import CATALOGUE
from beacon_site.text.messages import gettext as _

SERVICES = tuple(service.name for service in CATALOGUE)
"""The services that a topic can use, in the order of the form."""

ADAPTERS = {service.name: service.adapter for service in CATALOGUE if service.adapter}
"""The adapter that creates each provider from its profile; its module is imported at first use.

The library isn't here, because the memory app, which has its rows, creates that provider itself.
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result: an http(s) URL with its title, as `service` returned it at `rank` (from 1).

    `raw` is the service's own record, for people who want the details.  It never contains a key.
    """

    url: str
    title: str
    snippet: str = ""
    service: str = ""
    rank: int = 0
    published_at: date | None = None
    raw: dict[str, Any] = field(default_factory=dict)


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
