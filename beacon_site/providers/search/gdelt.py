"""GDELT: news of the last three months in 65 languages; no key, one request every six seconds.

It often refuses requests when it's busy, even within the rate limit, and sends its refusals as
plain text with status 200.  It returns only titles, no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from typing import Any

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.http import Reply
from beacon_site.net.rate_limit import MinInterval
from beacon_site.providers.search.answers import (
    MAX_REASON_LENGTH,
    HttpSearch,
    endpoint,
    failure,
    json_object,
    keywords,
    list_of,
    odd_shape,
    one_line,
    parse_date,
    phrase,
    plain_text,
)
from beacon_site.providers.search.base import BY_NAME, SearchHit, SearchOptions
from beacon_site.text.messages import gettext as _

# GDELT asks for five seconds, but counts them on arrival, after network delays.
PACE = MinInterval("GDELT", "gdeltproject.org", seconds=6)
VENDOR_URL = BY_NAME["gdelt"].vendor_url
MAX_RECORDS = 250
REPRINTS = 3  # times as many articles as wanted, since many papers print the same agency stories
DAYS_KEPT = 90  # it refuses dates before the last three months
MIN_WORD_BYTES, MIN_PHRASE_LENGTH = 3, 5  # bytes, characters; it refuses shorter ones
MAX_QUERY_LENGTH = 240  # characters; it refuses slightly longer ones
MAX_LANGUAGES = 3

_LANGUAGES = {
    "ar": "arabic",
    "bg": "bulgarian",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "he": "hebrew",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nb": "norwegian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "th": "thai",
    "tr": "turkish",
    "uk": "ukrainian",
    "vi": "vietnamese",
    "zh": "chinese",
}
_TOO_OFTEN = re.compile(r"limit (?:your )?requests|too many requests|rate limit", re.I)
_PASSING = re.compile(r"try again|later|time(?:d )?-?out|unavailable|overload|upstream|busy", re.I)
_ESCAPE = re.compile(rb'\\(["\\/bfnrtu]?)')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_BEFORE_POINT = re.compile(r"\s+([,.;:!?%’)])")


class GdeltSearch(HttpSearch):
    service = "gdelt"

    @property
    def is_paced(self) -> bool:
        """Return True if its rate limit applies, which it doesn't to a server set by the admin."""
        return PACE.covers(self._base)

    def worded(self, query: str, options: SearchOptions) -> str:
        """Return the query for GDELT: words that an article must contain, quoted phrases, and the
        languages; "" if every word is too short for GDELT.
        """
        languages = _in_languages(options.languages)
        words = ""
        for term in filter(
            None, map(_term, keywords(query, about=options.about, languages=options.languages))
        ):
            longer = f"{words} {term}".strip()
            if len(f"{longer} {languages}") > MAX_QUERY_LENGTH:
                break
            words = longer
        return f"{words} {languages}".strip() if words else ""

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` articles, best or newest first.

        There is only one page. If many papers print a story, only the first one is returned. Raises
        ProviderUnavailable (down, slow, rate limited) or ProviderRejected (URL, request, a query
        with only short words).
        """
        url = endpoint(self._http.name, self._base, "/api/v2/doc/doc")
        worded = self.worded(query, options)
        if not worded:
            raise ProviderRejected(
                _("GDELT requires words with at least 3 letters, but “%(query)s” has none.")
                % {"query": one_line(query, MAX_REASON_LENGTH)}
            )
        params = {
            "query": worded,
            "mode": "artlist",
            "format": "json",
            "maxrecords": str(min(options.limit * REPRINTS, MAX_RECORDS)),
            "sort": "datedesc" if options.newest_first else "hybridrel",
            **_time_frame(options.since),
        }
        values = {"query": worded}  # without the time frame, whose end changes every second
        return self._once.hits(values, options, lambda: [self._page(url, params)])

    def _page(self, url: str, params: Mapping[str, str]) -> list[SearchHit]:
        with PACE.turn(url):
            reply = self._http.get(url, params)
        body = json_object(self._http, self._checked(reply), keyed=False)
        if body and "articles" not in body:  # {} means that there are none
            raise odd_shape(self._http)
        hits = [self._hit(item) for item in list_of(self._http, body, "articles")]
        # Only the first of each title, since many papers print an agency's story word for word.
        first: dict[str, SearchHit] = {}
        for hit in filter(None, hits):
            first.setdefault(hit.title.casefold(), hit)
        return list(first.values())

    def _checked(self, reply: Reply) -> Reply:
        """Return a reply that may be JSON, with its known errors fixed; raise for plain text."""
        content = reply.content.strip()
        if content.startswith((b"{", b"[", b"<")) or not content:
            escaped = _ESCAPE.sub(lambda found: found[0] if found[1] else rb"\\", content)
            return replace(reply, content=_CONTROL.sub(b" ", escaped))
        why = plain_text(self._http, reply)
        if _TOO_OFTEN.search(why):  # with status 200 or 429
            text = _("GDELT rate limit reached (%(why)s). Try again later.")
            raise ProviderUnavailable(text % {"why": why}, retry_after=PACE.seconds)
        if reply.status != HTTPStatus.OK:
            raise failure(self._http, reply, why, keyed=False)
        if _PASSING.search(why):
            text = _("GDELT isn’t available (%(why)s). Try again later.")
            raise ProviderUnavailable(text % {"why": why})
        raise ProviderRejected(_("GDELT rejected the search (%(why)s).") % {"why": why})

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        title = item.get("title")
        return self._hit_of(
            url=item.get("url"),
            title=_BEFORE_POINT.sub(r"\1", title) if isinstance(title, str) else "",
            published_at=_seen(item.get("seendate")),
        )


def _term(word: str) -> str:
    """Return a word or phrase in GDELT's syntax, or "" if it is too short."""
    plain = phrase(word)
    if " " in plain:
        return f'"{plain}"' if len(plain) >= MIN_PHRASE_LENGTH else ""
    return plain if len(plain.encode()) >= MIN_WORD_BYTES else ""


def _in_languages(codes: tuple[str, ...]) -> str:
    """Return the filter for the articles' original languages, as far as GDELT supports them."""
    known = (_LANGUAGES.get(code.lower().replace("_", "-").partition("-")[0]) for code in codes)
    names = list(dict.fromkeys(f"sourcelang:{name}" for name in known if name))[:MAX_LANGUAGES]
    return f"({' OR '.join(names)})" if len(names) > 1 else "".join(names)


def _time_frame(since: date | None) -> dict[str, str]:
    """Return the parameters of a time frame, at most as long as GDELT allows."""
    now = datetime.now(UTC)
    if since is None or since < now.date() - timedelta(days=DAYS_KEPT):
        return {"timespan": "3months"}
    return {"startdatetime": f"{since:%Y%m%d}000000", "enddatetime": f"{now:%Y%m%d%H%M%S}"}


def _seen(value: object) -> date | None:
    """Return the day when GDELT found an article, usually within an hour: 20261120T101500Z."""
    digits = value[:8] if isinstance(value, str) else ""
    return parse_date(f"{digits[:4]}-{digits[4:6]}-{digits[6:]}") if digits.isdigit() else None
