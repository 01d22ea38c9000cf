"""SearXNG: your own metasearch server, which returns JSON page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import Any

from beacon_site.net.errors import ServiceRefused
from beacon_site.net.http import Reply
from beacon_site.providers.search import answers
from beacon_site.providers.search.answers import MAX_TITLE_LENGTH, one_line, parse_date
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProfile
from beacon_site.text.messages import gettext as _

MAX_QUERY_LENGTH = 500  # characters; its engines accept no more
MAX_ENGINES = 6  # named in one warning
RANGES = ((1, "day"), (7, "week"), (31, "month"), (366, "year"))  # days in each range
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2})?")
_COMMAND = re.compile(r"(?<!\S)[!:<?]+(?=\S)")


class SearxngSearch(answers.HttpSearch):
    """If a search finds nothing, `warnings` names the engines that didn't answer."""

    service = "searxng"

    def __init__(self, profile: SearchProfile) -> None:
        super().__init__(profile)
        self.warnings: list[str] = []

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, from as many pages as needed.

        An empty list means that its engines found nothing or didn't answer (see `warnings`).
        Raises ProviderUnavailable (down, slow, rate limited) or ProviderRejected (no URL, JSON not
        enabled, request).
        """
        if not self._base:
            raise ServiceRefused(
                _(
                    "SearXNG has no URL. Enter the URL of your server in Settings, or set %(variable)s."
                )
                % {"variable": self._service.url_variable}
            )
        return answers.gathered(self._pages(query, options), options)

    def _pages(self, query: str, options: SearchOptions) -> Iterator[list[SearchHit | None]]:
        url = answers.endpoint("SearXNG", self._base, "/search")
        params = _parameters(query, options)
        for page in range(1, answers.MAX_PAGES + 1):
            body = self._body(self._http.get(url, {**params, "pageno": str(page)}))
            items = answers.list_of(self._http, body, "results")
            if page == 1 and not items:
                self._warn_of(body.get("unresponsive_engines"))
            yield [self._hit(item) for item in items]

    def _body(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON object of one page; raise for every failure."""
        if reply.status == HTTPStatus.FORBIDDEN:
            raise ServiceRefused(
                _(
                    "SearXNG rejected the search (HTTP 403). Its JSON output is probably off. Add “json” to search.formats in its settings.yml, then restart SearXNG. If that doesn’t help, a proxy in front of SearXNG may be blocking Beacon."
                )
            )
        body = answers.json_object(self._http, reply, keyed=False)
        if "results" not in body:
            raise answers.odd_shape(self._http, answers.error_text_in(self._http, body))
        return body

    def _warn_of(self, engines: object) -> None:
        """Add a warning that names the engines that didn't answer, without duplicates."""
        if not isinstance(engines, list) or not engines:
            return
        named = "; ".join(_describe_engine(engine) for engine in engines[:MAX_ENGINES])
        warning = _("SearXNG found nothing, and some of its engines didn’t respond: %(engines)s.")
        text = warning % {"engines": named}
        if text not in self.warnings:
            self.warnings.append(text)

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        return self._hit_of(
            url=item.get("url"),
            title=item.get("title"),
            snippet=item.get("content"),
            published_at=parse_date(item.get("publishedDate")),
        )


def _parameters(query: str, options: SearchOptions) -> dict[str, str]:
    """Return the parameters of every page; only `pageno` changes."""
    # SearXNG treats a word that starts with “!”, “:”, “<” or “?” as a command.
    words = _COMMAND.sub("", answers.shortened(query, characters=MAX_QUERY_LENGTH))
    params = {"q": words, "format": "json"}
    if options.languages and (language := _language(options.languages[0])):
        params["language"] = language
    if options.since and (reach := _reaching(options.since)):
        params["time_range"] = reach
    return params


def _language(code: str) -> str:
    """Return SearXNG's code for a language ("de", "zh-CN"), or "" for codes it would refuse."""
    base, _sep, region = code.replace("_", "-").partition("-")
    for name in (f"{base.lower()}-{region.upper()}", base.lower()):
        if _LANGUAGE.fullmatch(name):
            return name
    return ""


def _reaching(since: date) -> str:
    """Return the shortest time range that includes a day, or "" if none does."""
    days = (datetime.now(UTC).date() - since).days
    return next((name for reach, name in RANGES if days <= reach), "")


def _describe_engine(engine: object) -> str:
    """Return "name (reason)" of an engine that SearXNG lists as a pair or just a name."""
    parts = engine if isinstance(engine, list) else [engine]
    name, *reasons = [one_line(part, MAX_TITLE_LENGTH) for part in parts[:2]] or [""]
    return f"{name} ({reasons[0]})" if reasons and reasons[0] else name
