"""The shared part of the search services' adapters: URLs, answers, failures and clean hits.

Each adapter knows its vendor's format.  Turning that into hits, or into failures with readable
messages, is the same for all.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from beacon_site.net.address_guard import problem_of, surplus_in
from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
)
from beacon_site.net.http import Reply, ServiceHttp, retry_after
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProvider
from beacon_site.providers.search.catalogue import SearchService
from beacon_site.providers.search.results import (
    LONGEST_SNIPPET,
    LONGEST_TITLE,
    one_line,
    plain_json,
    text_of_html,
    usable_url,
)
from beacon_site.text.messages import gettext as _

LARGEST_RAW = 4000  # characters of JSON kept of one result
LONGEST_REASON = 300  # characters of a service's own words in a message
MAX_PAGES = 10  # of one search, so that a service with endless pages doesn't use up a month's quota


# --- URLs ---------------------------------------------------------------------------------------


def endpoint(name: str, base_url: str, path: str, *, also: Iterable[str] = ()) -> str:
    """Return the URL of `path` at a service, whose base URL can already contain (part of) it.

    A folder before it is kept, for services behind a proxy; `also` are endings that are removed
    like `path`.  Raises ProviderRejected with the reason, but without the base URL, which can
    contain a secret.
    """
    base = base_url.strip()
    if problem := problem_of(base) or surplus_in(base):
        raise ServiceRefused(
            _("The base URL of %(name)s isn’t valid. %(why)s Correct it in Settings.")
            % {"name": name, "why": problem}
        )
    parts = urlsplit(base)
    folder = parts.path.rstrip("/")
    for ending in _endings(path, also):
        if folder == ending or folder.endswith(ending):
            folder = folder.removesuffix(ending)
            break
    return f"{parts.scheme}://{parts.netloc}{folder.rstrip('/')}{path}"


def no_key(service: SearchService) -> ServiceRefused:
    """Return the failure for a service without its required key."""
    return ServiceRefused(
        _("%(name)s has no key. Enter the key in Settings, or set %(variable)s.")
        % {"name": service.label, "variable": service.key_variable}
    )


def _endings(path: str, also: Iterable[str]) -> list[str]:
    """Return the parts of `path` that a base URL can end with, longest first: /a/b, /a."""
    names = path.strip("/").split("/")
    starts = ["/" + "/".join(names[:count]) for count in range(len(names), 0, -1)]
    return sorted({*starts, *also}, key=len, reverse=True)


# --- answers and failures -----------------------------------------------------------------------


def json_object(http: ServiceHttp, reply: Reply, *, keyed: bool = True) -> dict[str, Any]:
    """Return the JSON object of a successful answer; raise the failure for any other.

    `keyed` means that the service needs a key, so a refusal is about the key.
    """
    body = parsed(reply)
    if reply.status != HTTPStatus.OK:
        raise failure(http, reply, said(http, body) or plain_text(http, reply), keyed=keyed)
    if not isinstance(body, dict):
        raise ProviderUnavailable(
            _("%(name)s didn’t return JSON. Check the base URL.") % {"name": http.name}
        )
    return body


def list_of(http: ServiceHttp, body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects listed under `name`, or none if it's missing.

    Raises ProviderUnavailable if it isn't a list.
    """
    found = body.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise odd_shape(http)
    return [item for item in found if isinstance(item, dict)]


def odd_shape(http: ServiceHttp, why: str = "") -> ProviderUnavailable:
    """Return the failure for JSON in an unknown format; `why` is an error text in it."""
    told = {"name": http.name, "why": why}
    if why:
        return ProviderUnavailable(_("%(name)s responded in an unknown format (%(why)s).") % told)
    return ProviderUnavailable(_("%(name)s responded in an unknown format.") % told)


def parsed(reply: Reply) -> object:
    """Return the reply's JSON, or None if it isn't JSON."""
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        return None


def said(http: ServiceHttp, body: object) -> str:
    """Return the service's own error text on one line, without its key and full stop, or ""."""
    for _depth in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            break
        names = ("error", "errors", "detail", "message", "msg", "info")
        body = next((body[name] for name in names if body.get(name)), None)
    return (
        one_line(http.scrubbed(body), LONGEST_REASON).rstrip(".") if isinstance(body, str) else ""
    )


def plain_text(http: ServiceHttp, reply: Reply) -> str:
    """Return a short plain-text reply on one line, or "" if it is data or a web page."""
    text = reply.content[:LARGEST_RAW].decode("utf-8", "replace").strip()
    if text.startswith(("{", "[")) or "<" in text:
        return ""
    return one_line(http.scrubbed(text), LONGEST_REASON).rstrip(".")


def failure(http: ServiceHttp, reply: Reply, why: str = "", *, keyed: bool = True) -> ProviderError:
    """Return the failure for a status other than 200, with a message for the run's reader."""
    status = reply.status
    told = {"name": http.name, "status": status, "why": why or _("no reason given")}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = _("%(name)s rate limit reached (%(why)s). Try again later.")
        return ProviderUnavailable(text % told, retry_after=retry_after(reply.headers))
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        text = _("%(name)s isn’t available (HTTP %(status)d: %(why)s). Try again later.")
        return ProviderUnavailable(text % told, retry_after=retry_after(reply.headers))
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and keyed:
        return refused_key(http, reply, why)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        text = _(
            "%(name)s rejected the search (HTTP %(status)d: %(why)s). It doesn’t need a key, so a "
            "proxy or a rule on the server may be blocking Beacon."
        )
    elif 300 <= status < 400:
        text = _("%(name)s redirects to another URL (HTTP %(status)d). Correct its base URL.")
    elif status == HTTPStatus.NOT_FOUND:
        text = _(
            "%(name)s wasn’t found at this URL (HTTP %(status)d: %(why)s). Check the base URL."
        )
    else:
        # This is about the query.  All failures above affect every query.
        return ProviderRejected(
            _("%(name)s didn’t accept the search (HTTP %(status)d: %(why)s).") % told
        )
    return ServiceRefused(text % told)


def refused_key(http: ServiceHttp, reply: Reply, why: str) -> ServiceRefused:
    """Return the failure for a key that the service doesn't accept, with any status."""
    text = _("%(name)s rejected the key (HTTP %(status)d: %(why)s). Check it in Settings.")
    told = {"name": http.name, "status": reply.status, "why": why or _("no reason given")}
    return ServiceRefused(text % told)


def used_up(http: ServiceHttp, why: str) -> ServiceRefused:
    """Return the failure for a used-up plan, where a retry doesn't help."""
    return ServiceRefused(
        _("Your %(name)s plan has no searches left (%(why)s).")
        % {"name": http.name, "why": why or _("no reason given")}
    )


# --- hits ---------------------------------------------------------------------------------------


def hit_of(
    http: ServiceHttp,
    service: str,
    item: Mapping[str, Any],
    *,
    url: object,
    title: object,
    snippet: object = "",
    published_at: date | None = None,
    leave_out: Iterable[str] = (),
) -> SearchHit | None:
    """Return a clean hit, or None if readers can't open its URL.

    `item` is the service's own record, kept as `raw` without the fields `leave_out`.  A URL that
    contains the key gives None too, since the key would end up in the database and the report.
    """
    address = usable_url(url)
    if not address or http.scrubbed(address) != address:
        return None
    text = title if isinstance(title, str) else ""
    summary = snippet if isinstance(snippet, str) else ""
    return SearchHit(
        url=address,
        title=one_line(http.scrubbed(text), LONGEST_TITLE) or urlsplit(address).netloc,
        snippet=text_of_html(http.scrubbed(summary), LONGEST_SNIPPET),
        service=service,
        published_at=published_at,
        raw=_kept(http, item, frozenset(leave_out)),
    )


def gathered(
    pages: Iterable[Iterable[SearchHit | None]], options: SearchOptions
) -> list[SearchHit]:
    """Return at most `options.limit` hits of the pages, in their order, each URL once.

    Hits known to be older than `options.since` are left out.  Pages are requested while there are
    too few hits, until one has nothing new.
    """
    hits: dict[str, SearchHit] = {}
    for page in pages:
        known = len(hits)
        for hit in page:
            if hit is not None and not is_older(hit, options) and hit.url not in hits:
                hits[hit.url] = replace(hit, rank=len(hits) + 1)
        if len(hits) >= options.limit or len(hits) == known:
            break
    return list(hits.values())[: options.limit]


def is_older(hit: SearchHit, options: SearchOptions) -> bool:
    """Return whether a hit is known to be older than `options.since`."""
    return bool(options.since and hit.published_at and hit.published_at < options.since)


def shortened(query: str, *, characters: int, words: int = 0) -> str:
    """Return the query cut to a service's limits, after a whole word (0 words: any number)."""
    kept = query.split()[: words or None]
    while kept and len(" ".join(kept)) > characters:
        kept.pop()
    return " ".join(kept) or query.strip()[:characters]


def _kept(http: ServiceHttp, item: Mapping[str, Any], leave_out: frozenset[str]) -> dict[str, Any]:
    shown = {key: value for key, value in item.items() if key not in leave_out}
    text = http.scrubbed(json.dumps(plain_json(shown), ensure_ascii=False))
    if len(text) > LARGEST_RAW:
        return {"left_out": f"larger than {LARGEST_RAW} characters"}
    raw = json.loads(text)
    return raw if isinstance(raw, dict) else {}


# --- repeated queries of a run ------------------------------------------------------------------


class AnswerCache:
    """The answers of one provider object, which exists for one run and is shared by its threads."""

    def __init__(self) -> None:
        self._answers: dict[str, list[SearchHit]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def hits(
        self,
        asked: Mapping[str, str],
        options: SearchOptions,
        pages: Callable[[], Iterable[Iterable[SearchHit | None]]],
    ) -> list[SearchHit]:
        """Return the hits of `pages`, or the earlier ones for the same `asked`; failures aren't kept.

        A second thread with the same question waits for the answer to the first.
        """
        order = (options.limit, options.since, options.newest_first)
        key = repr((sorted(asked.items()), order)).casefold()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = gathered(pages(), options)
            return list(self._answers[key])


def distinct(provider: SearchProvider, queries: Sequence[str], options: SearchOptions) -> list[str]:
    """Return the queries, in order, without those that are the same question to `provider`.

    A service that rewrites queries has `worded(query, options)`.  If several queries become the
    same, only the first is asked, so that its hits don't count several times.
    """
    worded: Callable[[str, SearchOptions], str] | None = getattr(provider, "worded", None)
    if worded is None:
        return list(queries)
    first: dict[str, str] = {}
    for query in queries:
        first.setdefault(worded(query, options).casefold(), query)
    return list(first.values())
