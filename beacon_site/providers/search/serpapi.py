"""SerpAPI: Google, Google News, Scholar, Jobs and Bing results, with one HTTP call per page.

SerpAPI accepts the key only as a query parameter.  ServiceHttp adds it below everything that logs,
and removes it from returned texts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import structlog

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable, ServiceRefused
from beacon_site.providers.search import answers
from beacon_site.providers.search.answers import parse_date
from beacon_site.providers.search.base import SearchHit, SearchOptions
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

ENGINES = ("google", "google_news", "google_scholar", "google_jobs", "bing")
ENGINE_NAMES = [(name, name.replace("_", " ").title()) for name in ENGINES]  # for people
RESULT_LISTS = ("organic_results", "news_results", "jobs_results")  # the first that exists
OWN = (*RESULT_LISTS, "search_metadata")  # JSON without any of these isn't SerpAPI's
PAGE = 10  # results per page of Google, Scholar and Bing

REGIONAL = ("zh-cn", "zh-tw", "zh-hk", "pt-br", "pt-pt", "es-419")

_OFFSET = {"google": ("start", 0), "google_scholar": ("start", 0), "bing": ("first", 1)}
_PAGING = ("start", "first", "num", "count", "next_page_token")  # copied from a `next` link


class SerpApiSearch(answers.HttpSearch):
    service = "serpapi"

    def _secret_parameters(self, key: str) -> dict[str, str]:
        return {"api_key": key}

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, from as many pages as needed.

        Results without an http(s) URL, or dated before `options.since`, are left out.  An empty
        list means that SerpAPI found nothing.  Raises ProviderUnavailable (down, slow, hourly
        limit) or ProviderRejected (key, request, quota).
        """
        self._check_key()
        if options.engine not in ENGINES:
            raise ProviderRejected(
                _("Beacon doesn’t support the SerpAPI engine “%(name)s”. Use one of: %(names)s.")
                % {"name": options.engine, "names": ", ".join(ENGINES)}
            )
        began = time.monotonic()
        hits = answers.gathered(self._pages(query, options), options)
        logger.info(
            "search answered",
            service=self.service,
            engine=options.engine,
            hits=len(hits),
            ms=round((time.monotonic() - began) * 1000),
        )
        return hits

    def _pages(self, query: str, options: SearchOptions) -> Iterator[list[SearchHit | None]]:
        url = answers.endpoint("SerpAPI", self._base, "/search.json", also=("/search",))
        following: dict[str, str] | None = _parameters(query, options)
        for _page in range(answers.MAX_PAGES):
            if following is None:
                break
            body = self._page(url, following)
            items = _results(body)
            yield [self._hit(item) for item in items]
            following = _next_page(body, options.engine, following, len(items))

    def _page(self, url: str, params: Mapping[str, str]) -> dict[str, Any]:
        """Return one page's JSON object, an empty page included; raise for every failure."""
        reply = self._http.get(url, params)
        text = answers.error_text_in(self._http, answers.parsed(reply))
        if reply.status == 429 and _is_out_of_searches(text):
            raise answers.used_up(self._http, text)
        body = answers.json_object(self._http, reply)
        if any(not isinstance(body.get(name, []), list) for name in RESULT_LISTS):
            raise answers.odd_shape(self._http)
        if text and not _results(body):
            if _is_about_account(text):
                raise ServiceRefused(_("SerpAPI rejected the search: %(why)s") % {"why": text})
            if _status(body) == "error":
                raise ProviderUnavailable(_("SerpAPI failed: %(why)s") % {"why": text})
            logger.debug("search found nothing", service=self.service, said=text)
        elif not any(name in body for name in OWN):
            raise answers.odd_shape(self._http)
        return body

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        return self._hit_of(
            url=_address(item),
            title=_text(item, "title"),
            snippet=_text(item, "snippet", "description", "snippet_highlighted_words"),
            published_at=_dated(item),
        )


def _parameters(query: str, options: SearchOptions) -> dict[str, str]:
    """Return the query parameters of the first page, without the key."""
    params = {"engine": options.engine, "q": query}
    google = options.engine != "bing"
    if options.languages and google:
        params["hl"] = _hl(options.languages[0])
        if options.engine in ("google", "google_scholar"):
            params["lr"] = "|".join(f"lang_{_lr(code)}" for code in options.languages)
    elif options.languages and "-" in options.languages[0]:
        params["mkt"] = options.languages[0]
    if options.since and options.engine == "google":
        day = options.since
        params["tbs"] = f"cdr:1,cd_min:{day.month}/{day.day}/{day.year}"
    elif options.since and options.engine == "google_scholar":
        params["as_ylo"] = str(options.since.year)
    return params


def _hl(code: str) -> str:
    """Return Google's code for an interface language, with a region only where Google has one."""
    code = code.lower().replace("_", "-")
    if code == "zh":
        return "zh-cn"
    return code if code in REGIONAL else code.partition("-")[0]


def _lr(code: str) -> str:
    base, _sep, region = code.replace("_", "-").partition("-")
    if base.lower() == "zh":
        return f"zh-{region.upper() or 'CN'}"
    return base.lower()


def _results(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the first list of results that exists, with grouped news stories flattened."""
    for name in RESULT_LISTS:
        found = body.get(name)
        if isinstance(found, list) and found:
            return [item for entry in found for item in _ungrouped(entry)]
    return []


def _ungrouped(entry: object) -> Iterator[Mapping[str, Any]]:
    """Yield the entry itself, or for a Google News story its highlight and its articles."""
    if not isinstance(entry, dict):
        return
    stories = entry.get("stories")
    inner = [entry.get("highlight"), *(stories if isinstance(stories, list) else [])]
    articles = [item for item in inner if isinstance(item, dict)]
    if entry.get("link") or not articles:
        yield entry
    yield from articles


def _text(item: Mapping[str, Any], *names: str) -> str:
    """Return the first field with text; a list is joined."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and (words := [word for word in value if isinstance(word, str)]):
            return " … ".join(words)
    return ""


def _address(item: Mapping[str, Any]) -> str:
    """Return a result's URL. A job has no URL itself, but it has links to apply."""
    if direct := _text(item, "link", "url"):
        return direct
    for name in ("apply_options", "related_links"):
        options = item.get(name)
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and (link := _text(option, "link")):
                return link
    return _text(item, "share_link")


def _dated(item: Mapping[str, Any]) -> Any:
    """Return the day a result was published, if the service reports it in a known format."""
    extensions = item.get("detected_extensions")
    posted = extensions.get("posted_at") if isinstance(extensions, dict) else None
    for value in (item.get("iso_date"), item.get("date"), item.get("published_date"), posted):
        if day := parse_date(value):
            return day
    return None


def _next_page(
    body: Mapping[str, Any], engine: str, params: Mapping[str, str], count: int
) -> dict[str, str] | None:
    """Return the parameters of the next page, or None after the last one.

    They come from SerpAPI's `next` link, of which only the paging parameters are used, never the
    URL.  Without that link, a full page of an engine with offsets has a next page.
    """
    pagination = body.get("serpapi_pagination")
    link = pagination.get("next") if isinstance(pagination, dict) else None
    if isinstance(link, str):
        groups = parse_qs(link.partition("?")[2].partition("#")[0])
        paging = {name: groups[name][0] for name in _PAGING if name in groups}
        return {**params, **paging} if paging else None
    if engine not in _OFFSET or pagination is not None or count < PAGE:
        return None
    name, first = _OFFSET[engine]
    return {**params, name: str(int(params.get(name, first)) + count)}


def _status(body: Mapping[str, Any]) -> str:
    metadata = body.get("search_metadata")
    status = metadata.get("status") if isinstance(metadata, dict) else ""
    return str(status).lower()


def _is_about_account(text: str) -> bool:
    lowered = text.lower()
    words = ("api key", "api_key", "run out of searches", "your account", "unsupported", "missing")
    return any(word in lowered for word in words)


def _is_out_of_searches(text: str) -> bool:
    """Return whether the plan is used up, instead of the hourly limit, which passes soon."""
    lowered = text.lower()
    used_up = ("run out", "out of searches", "exceeded your plan", "monthly", "upgrade your plan")
    return any(word in lowered for word in used_up) and "hour" not in lowered
