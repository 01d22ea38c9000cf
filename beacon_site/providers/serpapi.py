"""SerpAPI: Google, Google News, Scholar, Jobs and Bing results over one HTTP call a page.

The key travels as a query parameter, the only way SerpAPI takes it; ServiceHttp adds it below
everything that logs, and texts that come back are scrubbed of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.http import Reply, ServiceHttp, retry_after, scrub
from beacon_site.providers.probing import ProbeResult
from beacon_site.providers.results import (
    LONGEST_SNIPPET,
    LONGEST_TITLE,
    one_line,
    parse_date,
    plain_json,
    text_of_html,
    usable_url,
)
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProfile

logger = structlog.get_logger(__name__)

VENDOR_URL = "https://serpapi.com"
ENGINES = ("google", "google_news", "google_scholar", "google_jobs", "bing")
ENGINE_NAMES = [(name, name.replace("_", " ").title()) for name in ENGINES]  # as people call them
RESULT_LISTS = ("organic_results", "news_results", "jobs_results")  # the first that is there
PAGE = 10  # results a page of Google, Scholar and Bing
MAX_PAGES = 10  # of one search: a service whose pages never end must not cost a month's quota
LARGEST_RAW = 4000  # characters of JSON kept of one result

REGIONAL = ("zh-cn", "zh-tw", "zh-hk", "pt-br", "pt-pt", "es-419")

_OFFSET = {"google": ("start", 0), "google_scholar": ("start", 0), "bing": ("first", 1)}
_PAGING = ("start", "first", "num", "count", "next_page_token")  # taken over from a `next` link
_NOT_KEPT = ("thumbnail", "favicon", "source_logo", "icon", "images", "apply_options")


class SerpApiSearch:
    """SearchProvider over SerpAPI.  It asks once: the caller decides about further tries."""

    service = "serpapi"

    def __init__(self, *, api_key: str, base_url: str = "", contact: str = "") -> None:
        """`base_url` stands in for https://serpapi.com, with or without /search.json."""
        base = (base_url or VENDOR_URL).rstrip("/")
        self._url = base.removesuffix("/search.json").removesuffix("/search") + "/search.json"
        self._key = api_key.strip()
        self._keyless = not self._key and base == VENDOR_URL
        self._http = ServiceHttp("SerpAPI", secret={"api_key": self._key}, contact=contact)

    @classmethod
    def of(cls, profile: SearchProfile) -> SerpApiSearch:
        """Return the provider that `profile` describes."""
        return cls(api_key=profile.api_key, base_url=profile.base_url, contact=profile.contact)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, further pages asked for until there are as many.

        Results without an http(s) address are left out, and those dated before
        `options.since`.  An empty list means that SerpAPI found nothing.  Raises
        ProviderUnavailable (down, slow, hourly limit) or ProviderRejected (key, request, quota).
        """
        if self._keyless:
            raise ProviderRejected(
                _("SerpAPI has no key. Set SERPAPI_API_KEY or enter the key under Settings.")
            )
        if options.engine not in ENGINES:
            raise ProviderRejected(
                _("SerpAPI has no engine “%(name)s” here. Choose among: %(names)s.")
                % {"name": options.engine, "names": ", ".join(ENGINES)}
            )
        began = time.monotonic()
        hits = self._collect(query, options)
        logger.info(
            "search answered",
            service=self.service,
            engine=options.engine,
            hits=len(hits),
            ms=round((time.monotonic() - began) * 1000),
        )
        return hits

    def _collect(self, query: str, options: SearchOptions) -> list[SearchHit]:
        hits: dict[str, SearchHit] = {}  # by address: pages overlap
        params = _parameters(query, options)
        for _page in range(MAX_PAGES):
            body = self._page(params)
            items = _results(body)
            known = len(hits)
            for item in items:
                hit = self._hit(item, rank=len(hits) + 1)
                if hit and not _older(hit, options):
                    hits.setdefault(hit.url, hit)
            following = _next_page(body, options.engine, params, len(items))
            if len(hits) >= options.limit or len(hits) == known or following is None:
                break
            params = following
        return list(hits.values())[: options.limit]

    def _page(self, params: Mapping[str, str]) -> dict[str, Any]:
        """Return one page's JSON object, an empty page included; raise for every failure."""
        reply = self._http.get(self._url, params)
        try:
            body = json.loads(reply.content)
        except (ValueError, RecursionError):
            body = None
        said = self._said(body)
        if reply.status != 200:
            raise _failure(reply, said)
        if not isinstance(body, dict):
            raise ProviderUnavailable(
                _("SerpAPI answered with something that is not JSON. Is the base URL right?")
            )
        if any(not isinstance(body.get(name, []), list) for name in RESULT_LISTS):
            raise ProviderUnavailable(_("SerpAPI answered in a shape that is not its own."))
        if said and not _results(body):
            if _is_about_account(said):
                raise ProviderRejected(_("SerpAPI refused: %(why)s") % {"why": said})
            if _status(body) == "error":
                raise ProviderUnavailable(_("SerpAPI failed: %(why)s") % {"why": said})
            logger.debug("search found nothing", service=self.service, said=said)
        return body

    def _said(self, body: object) -> str:
        """Return the service's own error text, without the key, or ""."""
        said = body.get("error") if isinstance(body, dict) else None
        if isinstance(said, dict):
            said = said.get("message")
        return one_line(scrub(said, self._key), 300) if isinstance(said, str) else ""

    def _hit(self, item: Mapping[str, Any], *, rank: int) -> SearchHit | None:
        url = usable_url(_address(item))
        # An address that carries the key would take it into the database and the report.
        if not url or scrub(url, self._key) != url:
            return None
        title = one_line(scrub(_text(item, "title"), self._key), LONGEST_TITLE)
        snippet = _text(item, "snippet", "description", "snippet_highlighted_words")
        return SearchHit(
            url=url,
            title=title or urlsplit(url).netloc,
            snippet=text_of_html(scrub(snippet, self._key), LONGEST_SNIPPET),
            service=self.service,
            rank=rank,
            published_at=_dated(item),
            raw=self._kept(item),
        )

    def _kept(self, item: Mapping[str, Any]) -> dict[str, Any]:
        kept = {
            key: value
            for key, value in item.items()
            if key not in _NOT_KEPT and not key.startswith("serpapi_")
        }
        text = scrub(json.dumps(plain_json(kept), ensure_ascii=False), self._key)
        if len(text) > LARGEST_RAW:
            return {"left_out": "larger than 4000 characters"}
        raw = json.loads(text)
        return raw if isinstance(raw, dict) else {}


def test(profile: SearchProfile) -> ProbeResult:
    """Try one search with limit 1, for the Settings page: the real count or the real error."""
    began = time.monotonic()
    try:
        hits = SerpApiSearch.of(profile).search("news", SearchOptions(limit=1))
    except ProviderError as exc:
        return ProbeResult(ok=False, message=str(exc), ms=_since(began))
    message = (
        _("SerpAPI answered with %(count)d result: %(title)s")
        if hits
        else _("SerpAPI answered and took the key, but found nothing for “news”.")
    )
    shown = {"count": len(hits), "title": hits[0].title if hits else ""}
    return ProbeResult(ok=True, message=message % shown, ms=_since(began), count=len(hits))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _parameters(query: str, options: SearchOptions) -> dict[str, str]:
    """Return the query parameters of the first page, the key not among them."""
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
    """Return Google's name of an interface language: a region only where Google tells them."""
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
    """Return the first list of results that is there; news stories come out of their groups."""
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
    """Return the first of the fields that holds text, a list of words joined."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and (words := [word for word in value if isinstance(word, str)]):
            return " … ".join(words)
    return ""


def _address(item: Mapping[str, Any]) -> str:
    """Return where a result leads: a job has no link of its own but places to apply at."""
    if direct := _text(item, "link", "url"):
        return direct
    for name in ("apply_options", "related_links"):
        options = item.get(name)
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and (link := _text(option, "link")):
                return link
    return _text(item, "share_link")


def _dated(item: Mapping[str, Any]) -> Any:
    """Return the day a result was published, if the service says and we understand it."""
    extensions = item.get("detected_extensions")
    posted = extensions.get("posted_at") if isinstance(extensions, dict) else None
    for value in (item.get("iso_date"), item.get("date"), item.get("published_date"), posted):
        if day := parse_date(value):
            return day
    return None


def _older(hit: SearchHit, options: SearchOptions) -> bool:
    return bool(options.since and hit.published_at and hit.published_at < options.since)


def _next_page(
    body: Mapping[str, Any], engine: str, params: Mapping[str, str], count: int
) -> dict[str, str] | None:
    """Return the parameters of the following page, or None after the last one.

    SerpAPI's own `next` link decides where there is one; only its paging parameters are taken,
    never its address.  Without one, a full page of an engine that counts offsets has a next.
    """
    pagination = body.get("serpapi_pagination")
    link = pagination.get("next") if isinstance(pagination, dict) else None
    if isinstance(link, str):
        asked = parse_qs(urlsplit(link).query)
        paging = {name: asked[name][0] for name in _PAGING if name in asked}
        return {**params, **paging} if paging else None
    if engine not in _OFFSET or pagination is not None or count < PAGE:
        return None
    name, first = _OFFSET[engine]
    return {**params, name: str(int(params.get(name, first)) + count)}


def _status(body: Mapping[str, Any]) -> str:
    metadata = body.get("search_metadata")
    status = metadata.get("status") if isinstance(metadata, dict) else ""
    return str(status).lower()


def _is_about_account(said: str) -> bool:
    lowered = said.lower()
    words = ("api key", "api_key", "run out of searches", "your account", "unsupported", "missing")
    return any(word in lowered for word in words)


def _is_out_of_searches(said: str) -> bool:
    """Tell the used-up plan (buy or wait a month) from the hourly rate (wait a while)."""
    lowered = said.lower()
    used_up = ("run out", "out of searches", "exceeded your plan", "monthly", "upgrade your plan")
    return any(word in lowered for word in used_up) and "hour" not in lowered


def _failure(reply: Reply, said: str) -> ProviderError:
    """Return the failure that a status other than 200 means, in words for the run's reader."""
    status, told = reply.status, {"status": reply.status, "why": said or _("no reason given")}
    if status in (401, 403):
        return ProviderRejected(
            _("SerpAPI refused the key (HTTP %(status)d: %(why)s). Check it under Settings.") % told
        )
    if status == 429 and _is_out_of_searches(said):
        return ProviderRejected(_("SerpAPI has no searches left on this plan (%(why)s).") % told)
    if status == 429:
        return ProviderUnavailable(
            _("SerpAPI limits the rate of searches (%(why)s). Try again later.") % told,
            retry_after=retry_after(reply.headers),
        )
    if status == 408 or status >= 500:
        return ProviderUnavailable(
            _("SerpAPI is not available (HTTP %(status)d: %(why)s). Try again later.") % told,
            retry_after=retry_after(reply.headers),
        )
    if 300 <= status < 400:
        return ProviderRejected(
            _("SerpAPI redirects elsewhere (HTTP %(status)d). Correct its base URL.") % told
        )
    return ProviderRejected(
        _("SerpAPI did not accept the search (HTTP %(status)d: %(why)s).") % told
    )
