"""What Beacon asks of a search service, and the plain data that goes in and comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from typing import Any, Protocol, cast

from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderRejected
from beacon_site.search_services.catalogue import CATALOGUE

SERVICES = tuple(service.name for service in CATALOGUE)
"""The services that a topic may name, in the order in which they are offered."""

ADAPTERS = {service.name: service.adapter for service in CATALOGUE if service.adapter}
"""What makes each provider from its profile; the module is imported when it is first asked for.

The library has no line: its rows belong to memory, which makes that provider itself.
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result: an http(s) address with its title, as `service` returned it at `rank` (from 1).

    `raw` is the service's own record, for the person who asks why; it never holds a key.
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
    """How to search.  What a service cannot do it leaves out.

    `since` drops hits that are known to be older; `languages` are codes such as "en" or "zh",
    the first one leading; `engine` is SerpAPI's; `batch` is the sample's, `feeds` the topic's;
    `about` is what all the queries are about and `last_asked` when that was asked before: the
    library, which ranks by words alone, would else answer the words that are only how it is asked.
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
        """Whether the newest is wanted, not the best: in a time frame, and when asked again.

        The best of a question that was asked before are what was found then.
        """
        return self.since is not None or self.last_asked is not None


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """One configured service.  An empty `base_url` is the vendor's own address."""

    service: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    contact: str = ""


class SearchProvider(Protocol):
    """A service that can be searched."""

    service: str

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, best first; an empty list means none found.

        Raises ProviderUnavailable if the caller may try again later, ProviderRejected if not.
        """
        ...


def get_search(profile: SearchProfile) -> SearchProvider:
    """Return the provider of `profile.service`; make one per run and share it among its queries.

    Raises ProviderRejected for a service that has no adapter here (see ADAPTERS).
    """
    place = ADAPTERS.get(profile.service)
    if place is None:
        raise ProviderRejected(
            _("There is no search service “%(name)s” to reach. Choose among: %(names)s.")
            % {"name": profile.service, "names": ", ".join(ADAPTERS)}
        )
    module, name = place.split(":")
    make = getattr(import_module(module), name)
    return cast("SearchProvider", make(profile))
