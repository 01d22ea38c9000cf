"""Wikipedia, or any MediaWiki: full-text search over the Action API.

Articles have no publication date, only the time of their last edit.  That only filters a time frame:
an article that hasn't been edited since then has nothing newer and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import Reply, retry_after
from beacon_site.net.rate_limit import MaxConcurrent
from beacon_site.providers.search.answers import (
    MAX_REASON_LENGTH,
    HttpSearch,
    endpoint,
    json_object,
    list_of,
    odd_shape,
    one_line,
    parse_date,
    quoted_keywords,
)
from beacon_site.providers.search.base import BY_NAME, SearchHit, SearchOptions
from beacon_site.text.messages import gettext as _

PACE = MaxConcurrent("Wikipedia", "wikipedia.org", count=3)
VENDOR_URL = BY_NAME["wikipedia"].vendor_url  # of one language; others have their own subdomain
MAX_PER_PAGE = 50
MAX_PAGES = 3
MAXLAG = 5.0  # seconds a database can lag; Wikimedia asks bots to wait above that
_PASSING = ("maxlag", "ratelimited", "readonly", "internal_api_error", "too-busy", "backend-error")
_API, _PLAIN_API = "/w/api.php", "/api.php"


class WikipediaSearch(HttpSearch):
    """The profile's URL is one wiki for all languages; without it, the languages select the wiki."""

    service = "wikipedia"

    def worded(self, query: str, options: SearchOptions) -> str:
        """Return the words that are searched for `query`; an article must contain all of them."""
        return quoted_keywords(query, options)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` articles, best first.

        The first language of the options selects the Wikipedia.  Raises ProviderUnavailable
        (down, slow, rate limited, lagging databases) or ProviderRejected (URL, request).
        """
        api = self._api(options)
        params = {
            "action": "query",
            "list": "search",
            "srsearch": self.worded(query, options),
            "srlimit": str(MAX_PER_PAGE if options.since else min(options.limit, MAX_PER_PAGE)),
            "srprop": "snippet|timestamp|wordcount",
            "format": "json",
            "formatversion": "2",
            "maxlag": f"{MAXLAG:g}",
        }
        if not params["srsearch"]:
            return []
        values = {**params, "api": api}
        return self._once.hits(values, options, lambda: self._pages(api, params, options))

    def _api(self, options: SearchOptions) -> str:
        base = self._base
        if base.rstrip("/") == VENDOR_URL:
            base = f"https://{_wiki_of(options.languages)}.wikipedia.org"
        # A wiki with another setup than Wikipedia has its api.php in another folder.
        plain = base.rstrip("/").endswith(_PLAIN_API) and not base.rstrip("/").endswith(_API)
        return endpoint(self._http.name, base, _PLAIN_API if plain else _API, also=("/wiki",))

    def _pages(
        self, api: str, params: Mapping[str, str], options: SearchOptions
    ) -> Iterator[list[SearchHit | None]]:
        offset: object = 0
        for _number in range(MAX_PAGES):
            body = self._page(api, {**params, "sroffset": str(offset)})
            found = body.get("query")
            if not isinstance(found, dict):
                raise odd_shape(self._http)
            yield [self._hit(item, api, options) for item in list_of(self._http, found, "search")]
            following = body.get("continue")
            offset = following.get("sroffset") if isinstance(following, dict) else None
            if not isinstance(offset, int):
                return

    def _page(self, api: str, params: Mapping[str, str]) -> dict[str, Any]:
        with PACE.turn(api):
            reply = self._http.get(api, params)
        body = json_object(self._http, reply, keyed=False)
        if error := body.get("error"):  # with status 200
            raise self._refusal(error if isinstance(error, dict) else {}, reply)
        return body

    def _refusal(self, error: Mapping[str, Any], reply: Reply) -> ProviderError:
        code = str(error.get("code", ""))
        params = {
            "name": self._http.name,
            "why": one_line(error.get("info"), MAX_REASON_LENGTH) or code or _("no reason given"),
        }
        if code == "maxlag":
            return ProviderUnavailable(
                _("%(name)s is too busy for automated requests (%(why)s). Try again later.")
                % params,
                retry_after=max(retry_after(reply.headers) or 0.0, MAXLAG),
            )
        if any(word in code for word in _PASSING):
            return ProviderUnavailable(
                _("%(name)s isn’t available (%(why)s). Try again later.") % params,
                retry_after=retry_after(reply.headers),
            )
        return ProviderRejected(_("%(name)s rejected the search (%(why)s).") % params)

    def _hit(self, item: Mapping[str, Any], api: str, options: SearchOptions) -> SearchHit | None:
        edited = parse_date(item.get("timestamp"))
        if options.since and edited and edited < options.since:
            return None
        return self._hit_of(
            url=_link(item, api),
            title=item.get("title"),
            snippet=item.get("snippet"),
        )


def _wiki_of(languages: tuple[str, ...]) -> str:
    """Return the subdomain of the Wikipedia in the first language: "zh" for "zh-CN"."""
    code = languages[0].lower().replace("_", "-").partition("-")[0] if languages else ""
    return code if re.fullmatch("[a-z]{2,3}", code) else "en"


def _link(item: Mapping[str, Any], api: str) -> str:
    """Return a page's URL as Wikipedia writes it, so that each page is one source."""
    title, number = item.get("title"), item.get("pageid")
    if not api.endswith(_API) and isinstance(number, int):
        return f"{api.removesuffix(_PLAIN_API)}/index.php?curid={number}"
    if not isinstance(title, str) or not title.strip():
        return ""
    root = api.removesuffix(_API).removesuffix(_PLAIN_API)
    return f"{root}/wiki/{quote(title.strip().replace(' ', '_'), safe='/:@!$*(),;~')}"
