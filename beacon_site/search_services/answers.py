"""What the search services' adapters share: addresses, answers or failures, hits that are clean.

Each adapter says what its vendor writes; how that becomes hits, or one of the two failures in
words for the run's reader, is decided here, the same for all.
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

from django.utils.translation import gettext as _

from beacon_site.net.address_guard import problem_of, surplus_in
from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
)
from beacon_site.net.http import Reply, ServiceHttp, retry_after
from beacon_site.search_services.base import SearchHit, SearchOptions, SearchProvider
from beacon_site.search_services.catalogue import SearchService
from beacon_site.search_services.results import (
    LONGEST_SNIPPET,
    LONGEST_TITLE,
    one_line,
    plain_json,
    text_of_html,
    usable_url,
)

LARGEST_RAW = 4000  # characters of JSON kept of one result
LONGEST_REASON = 300  # characters of a service's own words in a message
MAX_PAGES = 10  # of one search: a service whose pages never end must not cost a month's quota


# --- where a service is -------------------------------------------------------------------------


def endpoint(name: str, base_url: str, path: str, *, also: Iterable[str] = ()) -> str:
    """Return the address of `path` at a service, whose base URL may carry (part of) it already.

    A folder before it is kept, for services behind a proxy; `also` are endings that are taken off
    like `path`.  Raises ProviderRejected, which says what is wrong with the base URL but never
    repeats it: it may hold a secret.
    """
    base = base_url.strip()
    if problem := problem_of(base) or surplus_in(base):
        raise ServiceRefused(
            _("The base URL of %(name)s is not usable. %(why)s Correct it under Settings.")
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
    """Return the failure of asking a vendor without the key that it wants."""
    return ServiceRefused(
        _("%(name)s has no key. Set %(variable)s or enter the key under Settings.")
        % {"name": service.label, "variable": service.key_variable}
    )


def _endings(path: str, also: Iterable[str]) -> list[str]:
    """Return all that a base URL may carry of `path`, the longest first: /a/b, /a."""
    names = path.strip("/").split("/")
    starts = ["/" + "/".join(names[:count]) for count in range(len(names), 0, -1)]
    return sorted({*starts, *also}, key=len, reverse=True)


# --- an answer or a failure ---------------------------------------------------------------------


def json_object(http: ServiceHttp, reply: Reply, *, keyed: bool = True) -> dict[str, Any]:
    """Return the JSON object of a good answer; raise what any other answer means.

    `keyed` says whether the service takes a key, which a refusal is then about.
    """
    body = parsed(reply)
    if reply.status != HTTPStatus.OK:
        raise failure(http, reply, said(http, body) or plain_text(http, reply), keyed=keyed)
    if not isinstance(body, dict):
        raise ProviderUnavailable(
            _("%(name)s answered with something that is not JSON. Is the base URL right?")
            % {"name": http.name}
        )
    return body


def list_of(http: ServiceHttp, body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects listed under `name`, none where there is no such list.

    Raises ProviderUnavailable where something else stands in its place.
    """
    found = body.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise odd_shape(http)
    return [item for item in found if isinstance(item, dict)]


def odd_shape(http: ServiceHttp, why: str = "") -> ProviderUnavailable:
    """Return the failure of an answer that is JSON, but not this service's; `why` is what it says."""
    told = {"name": http.name, "why": why}
    if why:
        return ProviderUnavailable(
            _("%(name)s answered in a shape that is not its own (%(why)s).") % told
        )
    return ProviderUnavailable(_("%(name)s answered in a shape that is not its own.") % told)


def parsed(reply: Reply) -> object:
    """Return the JSON that was answered, or None if it is none."""
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
    """Return a reply that is no data and no web page but a few words, on one line, or ""."""
    text = reply.content[:LARGEST_RAW].decode("utf-8", "replace").strip()
    if text.startswith(("{", "[")) or "<" in text:
        return ""
    return one_line(http.scrubbed(text), LONGEST_REASON).rstrip(".")


def failure(http: ServiceHttp, reply: Reply, why: str = "", *, keyed: bool = True) -> ProviderError:
    """Return what a status other than 200 means, in words for the run's reader."""
    status = reply.status
    told = {"name": http.name, "status": status, "why": why or _("no reason given")}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = _("%(name)s limits the rate of searches (%(why)s). Try again later.")
        return ProviderUnavailable(text % told, retry_after=retry_after(reply.headers))
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        text = _("%(name)s is not available (HTTP %(status)d: %(why)s). Try again later.")
        return ProviderUnavailable(text % told, retry_after=retry_after(reply.headers))
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and keyed:
        return refused_key(http, reply, why)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        text = _(
            "%(name)s refused the search (HTTP %(status)d: %(why)s). Beacon sends it no key: "
            "a proxy, or a rule of its operator, may stand in between."
        )
    elif 300 <= status < 400:
        text = _("%(name)s redirects elsewhere (HTTP %(status)d). Correct its base URL.")
    elif status == HTTPStatus.NOT_FOUND:
        text = _(
            "%(name)s is not at this address (HTTP %(status)d: %(why)s). Is the base URL right?"
        )
    else:
        # This is about the query; all above would meet every other one too.
        return ProviderRejected(
            _("%(name)s did not accept the search (HTTP %(status)d: %(why)s).") % told
        )
    return ServiceRefused(text % told)


def refused_key(http: ServiceHttp, reply: Reply, why: str) -> ServiceRefused:
    """Return the failure of a key that the service does not take, whatever status it says so by."""
    text = _("%(name)s refused the key (HTTP %(status)d: %(why)s). Check it under Settings.")
    told = {"name": http.name, "status": reply.status, "why": why or _("no reason given")}
    return ServiceRefused(text % told)


def used_up(http: ServiceHttp, why: str) -> ServiceRefused:
    """Return the failure of a plan that allows no more searches for now: buy, or wait long."""
    return ServiceRefused(
        _("%(name)s has no searches left on this plan (%(why)s).")
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
    """Return a clean hit, or None where no reader could open its address.

    `item` is the service's own record, kept as `raw` without the fields `leave_out`.  One whose
    address carries the key is none either: it would take the key into the database and the report.
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
    """Return at most `options.limit` hits of the pages, ranked as they come, each address once.

    Hits known to be older than `options.since` are left out.  Pages are asked for while there are
    too few hits, until one brings nothing new.
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
    """Return whether a hit is known to be older than what is asked for."""
    return bool(options.since and hit.published_at and hit.published_at < options.since)


def shortened(query: str, *, characters: int, words: int = 0) -> str:
    """Return a query that a service takes, cut after a whole word (0 words: any number)."""
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


# --- Not asking a service the same twice in a run: a planner's queries often come down to one ---


class AskedOnce:
    """The answers of one provider object, which lives for one run and is shared by its threads."""

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
        """Return what is gathered of `pages`, or was for the same `asked`; a failure is not kept.

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
    """Return the queries, in order, of which no two are the same question to `provider`.

    A service that puts a query into words of its own says so by `worded(query, options)`.  Asked
    once by the first of them, it has one vote for what it found, not one for each way of asking.
    """
    worded: Callable[[str, SearchOptions], str] | None = getattr(provider, "worded", None)
    if worded is None:
        return list(queries)
    first: dict[str, str] = {}
    for query in queries:
        first.setdefault(worded(query, options).casefold(), query)
    return list(first.values())
