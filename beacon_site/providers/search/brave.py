"""Brave Search: web results from its own index, twenty per page and at most ten pages.

Headers report the remaining requests for the current second and month.  Only the limit per second
is worth waiting for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.net.http import Reply, ServiceHttp, retry_after
from beacon_site.net.rate_limit import MinInterval
from beacon_site.providers.search import answers
from beacon_site.providers.search.answers import parse_date
from beacon_site.providers.search.base import SearchHit, SearchOptions
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext

PACE = MinInterval("Brave", "api.search.brave.com", seconds=1)  # the limit of its smallest plan
MAX_QUERY_LENGTH, MAX_WORDS = 400, 50
PAGE = 20  # results per page at most
LAST_PAGE = 9  # `offset` counts pages, from 0
AN_HOUR = 3600  # seconds; a longer limit is the plan's quota, not a rate limit

# The languages and countries that Brave supports, by its own names.
_LANGUAGES = (
    "ar eu bn bg ca zh-hans zh-hant hr cs da nl en en-gb et fi fr gl de gu he hi hu is it jp kn ko "
    "lv lt ms ml mr nb pl pt-br pt-pt pa ro ru sr sk sl es sv ta te th tr uk vi"
)
_COUNTRIES = (
    "AR AU AT BE BR CA CL DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO CN PL PT PH RU SA ZA ES SE "
    "CH TW TR GB US"
)
LANGUAGES, COUNTRIES = frozenset(_LANGUAGES.split()), frozenset(_COUNTRIES.split())
ANYWHERE = "ALL"
_BRAVES_OWN = {"ja": "jp", "no": "nb", "nn": "nb", "pt": "pt-pt", "zh": "zh-hans"}
_TRADITIONAL = ("TW", "HK", "MO")


class BraveSearch(answers.HttpSearch):
    service = "brave"

    def _secret_headers(self, key: str) -> dict[str, str]:
        return {"X-Subscription-Token": key}

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, from as many pages as needed.

        An empty list means that Brave found nothing.  Raises ProviderUnavailable (down, slow, rate
        per second) or ProviderRejected (key, request, monthly quota).
        """
        self._check_key()
        return answers.gathered(self._pages(query, options), options)

    def _pages(self, query: str, options: SearchOptions) -> Iterator[list[SearchHit | None]]:
        url = answers.endpoint("Brave", self._base, "/res/v1/web/search")
        params = _parameters(query, options)
        for page in range(LAST_PAGE + 1):
            with PACE.turn(url):
                reply = self._http.get(url, {**params, "offset": str(page)})
            body = self._body(reply)
            web = body.get("web")
            items = answers.list_of(self._http, web, "results") if isinstance(web, dict) else []
            yield [self._hit(item) for item in items]
            asked = body.get("query")
            if isinstance(asked, dict) and asked.get("more_results_available") is False:
                break

    def _body(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON object of one page; raise for every failure."""
        why = answers.error_text_in(self._http, answers.parsed(reply))
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise _limited(self._http, reply, why)
        if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY and _is_about_key(reply):
            raise answers.refused_key(self._http, reply, why)
        body = answers.json_object(self._http, reply)
        if not {"web", "query", "type"} & body.keys():
            raise answers.odd_shape(self._http, why)  # if nothing was found, only `web` is missing
        return body

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        return self._hit_of(
            url=item.get("url"),
            title=item.get("title"),
            snippet=item.get("description"),
            published_at=parse_date(item.get("page_age")) or parse_date(item.get("age")),
        )


def _parameters(query: str, options: SearchOptions) -> dict[str, str]:
    """Return the parameters of every page; only `offset` changes."""
    params = {
        "q": answers.shortened(query, characters=MAX_QUERY_LENGTH, words=MAX_WORDS),
        "count": str(max(1, min(options.limit, PAGE))),
        "result_filter": "web",
    }
    if options.languages:
        params.update(_language(options.languages[0]))
    if options.since:
        today = max(datetime.now(UTC).date(), options.since)
        params["freshness"] = f"{options.since.isoformat()}to{today.isoformat()}"
    return params


def _language(code: str) -> dict[str, str]:
    """Return Brave's language and country for a code such as "de" or "pt-BR".

    Without a region, results come from everywhere, while Brave's default prefers the United States.
    """
    base, _sep, region = code.replace("_", "-").partition("-")
    base, region = base.lower(), region.upper()
    chinese = base == "zh" and (region in _TRADITIONAL or region == "HANT")
    named = "zh-hant" if chinese else f"{base}-{region.lower()}"
    params = {"country": region if region in COUNTRIES else ANYWHERE}
    for name in (named, _BRAVES_OWN.get(base, ""), base):
        if name in LANGUAGES:
            return {**params, "search_lang": name}
    return params


def _is_about_key(reply: Reply) -> bool:
    content = reply.content.upper()
    return b"SUBSCRIPTION_TOKEN" in content or b"X-SUBSCRIPTION-TOKEN" in content


def _limited(http: ServiceHttp, reply: Reply, why: str) -> ProviderError:
    """Return the failure for a 429: the rate limit per second, or the monthly quota."""
    waits = _used_windows(reply.headers)
    longest = max(waits, default=0)
    if longest > AN_HOUR or "quota" in why.lower():
        days = max(1, round(longest / 86400))
        reason = why or _("used up")
        if longest:
            reason = ngettext(
                "%(why)s, resets in %(days)d day", "%(why)s, resets in %(days)d days", days
            ) % {"why": reason, "days": days}
        return answers.used_up(http, reason)
    failed = answers.failure(http, reply, why)
    return ProviderUnavailable(str(failed), retry_after=retry_after(reply.headers) or longest or 1)


def _used_windows(headers: Mapping[str, str]) -> list[float]:
    """Return the seconds until each used-up limit is renewed.

    0 means no limit, since plans billed by usage have no monthly quota.
    """
    limits = _numbers(headers.get("x-ratelimit-limit", ""))
    left = _numbers(headers.get("x-ratelimit-remaining", ""))
    resets = _numbers(headers.get("x-ratelimit-reset", ""))
    if not len(limits) == len(left) == len(resets):
        return []
    found = zip(limits, left, resets, strict=True)
    return [reset for limit, rest, reset in found if limit > 0 and rest <= 0]


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
