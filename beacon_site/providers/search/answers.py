"""The shared part of the search services' adapters: keywords, URLs, answers, failures and clean hits.

Each adapter knows its vendor's format.  Turning that into hits, or into failures with readable
messages, is the same for all.
"""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
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
from beacon_site.providers.search.base import (
    BY_NAME,
    KEY,
    SearchHit,
    SearchOptions,
    SearchProfile,
    SearchProvider,
    SearchService,
)
from beacon_site.text.messages import gettext as _

MAX_ERROR_BYTES = 4000  # bytes of an error page that are searched for its text
MAX_REASON_LENGTH = 300  # characters of a service's own words in a message
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
        raise failure(
            http, reply, error_text_in(http, body) or plain_text(http, reply), keyed=keyed
        )
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
    params = {"name": http.name, "why": why}
    if why:
        return ProviderUnavailable(_("%(name)s responded in an unknown format (%(why)s).") % params)
    return ProviderUnavailable(_("%(name)s responded in an unknown format.") % params)


def parsed(reply: Reply) -> object:
    """Return the reply's JSON, or None if it isn't JSON."""
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        return None


def error_text_in(http: ServiceHttp, body: object) -> str:
    """Return the service's own error text on one line, without its key and full stop, or ""."""
    for _depth in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            break
        names = ("error", "errors", "detail", "message", "msg", "info")
        body = next((body[name] for name in names if body.get(name)), None)
    return (
        one_line(http.scrubbed(body), MAX_REASON_LENGTH).rstrip(".")
        if isinstance(body, str)
        else ""
    )


def plain_text(http: ServiceHttp, reply: Reply) -> str:
    """Return a short plain-text reply on one line, or "" if it is data or a web page."""
    text = reply.content[:MAX_ERROR_BYTES].decode("utf-8", "replace").strip()
    if text.startswith(("{", "[")) or "<" in text:
        return ""
    return one_line(http.scrubbed(text), MAX_REASON_LENGTH).rstrip(".")


def failure(http: ServiceHttp, reply: Reply, why: str = "", *, keyed: bool = True) -> ProviderError:
    """Return the failure for a status other than 200, with a message for the run's reader."""
    status = reply.status
    params = {"name": http.name, "status": status, "why": why or _("no reason given")}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = _("%(name)s rate limit reached (%(why)s). Try again later.")
        return ProviderUnavailable(text % params, retry_after=retry_after(reply.headers))
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        text = _("%(name)s isn’t available (HTTP %(status)d: %(why)s). Try again later.")
        return ProviderUnavailable(text % params, retry_after=retry_after(reply.headers))
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and keyed:
        return refused_key(http, reply, why)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        text = _(
            "%(name)s rejected the search (HTTP %(status)d: %(why)s). It doesn’t need a key, so a proxy or a rule on the server may be blocking Beacon."
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
            _("%(name)s rejected the search (HTTP %(status)d: %(why)s).") % params
        )
    return ServiceRefused(text % params)


def refused_key(http: ServiceHttp, reply: Reply, why: str) -> ServiceRefused:
    """Return the failure for a key that the service doesn't accept, with any status."""
    text = _("%(name)s rejected the key (HTTP %(status)d: %(why)s). Check it in Settings.")
    params = {"name": http.name, "status": reply.status, "why": why or _("no reason given")}
    return ServiceRefused(text % params)


def used_up(http: ServiceHttp, why: str) -> ServiceRefused:
    """Return the failure for a used-up plan, where a retry doesn't help."""
    return ServiceRefused(
        _("Your %(name)s plan has no searches left (%(why)s).")
        % {"name": http.name, "why": why or _("no reason given")}
    )


# --- hits ---------------------------------------------------------------------------------------


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


# --- repeated queries of a run ------------------------------------------------------------------


class AnswerCache:
    """The answers of one provider object, which exists for one run and is shared by its threads."""

    def __init__(self) -> None:
        self._answers: dict[str, list[SearchHit]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def hits(
        self,
        values: Mapping[str, str],
        options: SearchOptions,
        pages: Callable[[], Iterable[Iterable[SearchHit | None]]],
    ) -> list[SearchHit]:
        """Return the hits of `pages`, or the earlier ones for the same `values`; failures aren't kept.

        A second thread with the same question waits for the answer to the first.
        """
        order = (options.limit, options.since, options.newest_first)
        key = repr((sorted(values.items()), order)).casefold()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = gathered(pages(), options)
            return list(self._answers[key])


class HttpSearch:
    """The shared part of SearchProviders over HTTP.  They don't retry; that is up to the caller."""

    service: str

    def __init__(self, profile: SearchProfile) -> None:
        """The profile's URL replaces the service's own."""
        self._service = BY_NAME[self.service]
        key = profile.api_key.strip()
        self._base = profile.base_url.strip() or self._service.vendor_url
        self._lacks_key = self._service.needs == KEY and not key
        self._http = ServiceHttp(
            str(self._service.label),
            secret=self._secret_parameters(key),
            secret_headers=self._secret_headers(key),
            contact=profile.contact,
        )
        self._once = AnswerCache()

    def _secret_parameters(self, key: str) -> dict[str, str]:
        return {}

    def _secret_headers(self, key: str) -> dict[str, str]:
        return {}

    def _check_key(self) -> None:
        """Raise ServiceRefused without the key that the service needs. Other servers may need none."""
        if self._lacks_key and self._base == self._service.vendor_url:
            raise no_key(self._service)

    def _hit_of(
        self, *, url: object, title: object, snippet: object = "", published_at: date | None = None
    ) -> SearchHit | None:
        """Return a clean hit, or None if readers can't open its URL.

        A URL that contains the key gives None too, since the key would end up in the database and
        the report.
        """
        http, address = self._http, usable_url(url)
        if not address or http.scrubbed(address) != address:
            return None
        text = title if isinstance(title, str) else ""
        summary = snippet if isinstance(snippet, str) else ""
        return SearchHit(
            url=address,
            title=one_line(http.scrubbed(text), MAX_TITLE_LENGTH) or urlsplit(address).netloc,
            snippet=text_of_html(http.scrubbed(summary), MAX_SNIPPET_LENGTH),
            service=self.service,
            published_at=published_at,
        )


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


# --- cleaning what services return ---


MAX_URL_LENGTH = 2048  # characters; the fetcher refuses longer ones
MAX_TITLE_LENGTH = 300
MAX_SNIPPET_LENGTH = 1000
MAX_HTML_LENGTH = 20_000  # characters of markup read for one snippet

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_WORDS = re.compile(r"<(script|style|svg)\b[^<>]*>.*?(?:</\1\s*>|$)", re.I | re.S)
# The text can end inside a tag, since callers cut it; "a < b" isn't a tag.
_TAG = re.compile(r"<[^<>]*>|</?[A-Za-z][\w:-]*(?:\s[^<>]*=[^<>]*)?$|</?$|<!--[^<>]*$")
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_US = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")
_EAST = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")
_MONTH_FIRST = re.compile(r"\b([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b")
_DAY_FIRST = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\.?\s+([A-Za-z]{3,9})\.?,?\s+(\d{4})\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_DAYS_OF = {
    **dict.fromkeys(("second", "seconds", "sec", "secs", "minute", "minutes", "min", "mins"), 0.0),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h", "stunde", "stunden", "heure"), 1 / 24),
    **dict.fromkeys(("heures", "hora", "horas", "小时", "小時", "時間"), 1 / 24),
    **dict.fromkeys(("minuten", "minutos", "分钟", "分鐘", "分"), 0.0),
    **dict.fromkeys(("day", "days", "d", "tag", "tage", "tagen", "jour", "jours"), 1.0),
    **dict.fromkeys(("día", "días", "dia", "dias", "天", "日"), 1.0),
    **dict.fromkeys(("week", "weeks", "wk", "wks", "woche", "wochen", "semaine"), 7.0),
    **dict.fromkeys(("semaines", "semana", "semanas", "周", "週", "週間", "星期"), 7.0),
    **dict.fromkeys(("month", "months", "mo", "monat", "monate", "monaten", "mois"), 30.0),
    **dict.fromkeys(("mes", "meses", "个月", "個月", "か月", "ヶ月"), 30.0),
    **dict.fromkeys(("year", "years", "yr", "yrs", "jahr", "jahre", "jahren", "an", "ans"), 365.0),
    **dict.fromkeys(("año", "años", "ano", "anos", "年"), 365.0),
}
_AGO = (
    re.compile(r"(\d+|an?|one)\+?\s*([a-zà-ÿ]+)\s+(?:ago|atrás)\b", re.I),
    re.compile(r"\b(?:vor|hace|há|il y a)\s+(\d+)\s*([a-zà-ÿ]+)", re.I),
    re.compile(r"(\d+)\s*([^\W\d_a-z]{1,2}?)\s*前"),
)


def usable_url(value: object) -> str:
    """Return `value` if it is an http(s) URL with a host that readers can open, else ""."""
    if not isinstance(value, str):
        return ""
    url = value.strip()
    if not url or len(url) > MAX_URL_LENGTH or _UNSAFE.search(url) or " " in url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:  # such as a bracket that is never closed
        return ""
    return url if usable else ""


def one_line(value: object, limit: int) -> str:
    """Return `value` as one clean line of at most `limit` characters; "" if it isn't text."""
    if not isinstance(value, str):
        return ""
    text = " ".join(_UNSAFE.sub(" ", value[: limit * 4]).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def text_of_html(value: object, limit: int) -> str:
    """Return the words of a short piece of HTML as one line of at most `limit` characters."""
    if not isinstance(value, str):
        return ""
    words = _TAG.sub(" ", _NO_WORDS.sub(" ", value[:MAX_HTML_LENGTH]))
    return one_line(html.unescape(words), limit)


def parse_date(value: object, *, today: date | None = None) -> date | None:
    """Return the day of a text such as "3 days ago", "Mar 4, 2025", ISO or RFC 822.

    Dates with slashes have the month first, as SerpAPI writes them.  None for other texts and for
    days in the future, which are advertising or errors.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        return None
    today = today or datetime.now(UTC).date()
    try:
        found = _absolute(value) or _relative(value, today) or _rfc822(value)
    except (ValueError, OverflowError):
        return None
    return found if found and found <= today + timedelta(days=1) else None


def _absolute(text: str) -> date | None:
    if match := _ISO.search(text) or _EAST.search(text):
        return date(*(int(part) for part in match.groups()))
    if match := _US.search(text):
        month, day, year = (int(part) for part in match.groups())
        return date(year, month, day)
    if (match := _MONTH_FIRST.search(text)) and (number := _month(match[1])):
        return date(int(match[3]), number, int(match[2]))
    if (match := _DAY_FIRST.search(text)) and (number := _month(match[2])):
        return date(int(match[3]), number, int(match[1]))
    return None


def _month(word: str) -> int:
    """Return 1 to 12, or 0 for a word that isn't an English month."""
    short = word[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0


def _relative(text: str, today: date) -> date | None:
    lowered = text.strip().lower()
    if lowered in ("just now", "now", "today", "heute", "hoy", "今天", "今日"):
        return today
    if lowered.startswith(("yesterday", "gestern", "ayer", "hier", "昨天", "昨日")):
        return today - timedelta(days=1)
    for pattern in _AGO:
        if (match := pattern.search(lowered)) and (days := _DAYS_OF.get(match[2])) is not None:
            count = int(match[1]) if match[1].isdigit() else 1
            return today - timedelta(days=int(count * days))
    return None


def _rfc822(text: str) -> date | None:
    return parsedate_to_datetime(text).date()


# --- keywords of a query ---
# arXiv, GDELT, Hacker News and Wikipedia require every word of a query, and would find nothing for
# "postgres replication latest news since 2026-11-01". So dates and words such as "latest news" are
# removed, and the service's date filter is used instead.


MAX_WORDS = 8  # of one query; services that require all words find nothing for more

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»')
_WORD = re.compile(r"[^\W_]+(?:[.'’&+-]+[^\W_]+)*[+#]*")
_MONTH = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar|rero)?|mar(?:ch|zo)?|märz|février|enero"
    "|apr(?:il)?|avril|abril|may|mai|mayo|jun(?:e|i|io)?|juin|jul(?:y|i|io)?|juillet"
    "|aug(?:ust)?|août|agosto|sep(?:t(?:ember|embre|iembre)?)?|oct(?:ober|obre|ubre)?|okt(?:ober)?"
    "|nov(?:ember|embre|iembre)?|dec(?:ember)?|dez(?:ember)?|décembre|diciembre"
)
_YEAR = r"(?:19|20)\d\d"
_DATES = re.compile(
    rf"(?<![\w-]){_YEAR}-\d\d?(?:-\d\d?)?(?![\d-])\s*(?:以来|以降|이후)?"
    rf"|\b(?:{_MONTH})\.?\s+(?:\d\d?,?\s+)?{_YEAR}\b"
    rf"|\b\d\d?\.?\s+(?:{_MONTH})\.?\s+{_YEAR}\b"
    rf"|{_YEAR}\s*[年년](?:\s*\d\d?\s*[月월])?(?:\s*\d\d?\s*[日일])?\s*(?:以来|以降|이후)?"
    rf"|(?<![\w-]){_YEAR}(?![\w-])",
    re.I,
)
_FUNCTION_WORDS = {
    "en": """a about an and andnot any are as at be been between by can did do does for from had has
    have how in into is it its near not of on onto or our over since than that the their these they
    this those to under until versus vs was we were what when where which who whose why will with
    within you your""",
    "de": """als am an auf aus bei beim bis das dem den der des die durch ein eine einem einen einer
    es für gegen gibt hat ist im in mit nach oder seit sich sind über um und vom von vor war warum
    was welche welcher wenn wer wie wird wo zu zum zur""",
    "fr": """à au aux avec ce ces dans de depuis des du elle en entre est et il la le les leur ou où
    par pas pour quand que quel quelle quelles quels qui sans se son sont sur un une vers""",
    "es": """a al como con cómo cuál cuándo de del desde dónde el en entre es esta este hasta la las
    lo los más o para por que qué quién se ser si sin sobre son su un una y""",
}
_WAYS_OF_ASKING = {
    "en": """announced announcement announcements article articles change changes comparison
    correction corrections critical criticism current currently development developments latest news
    number numbers paper papers problem problems recent recently release released releases report
    reports research statistics study studies today update updated updates""",
    "de": """aktuell aktuelle ankündigung bericht entwicklung entwicklungen forschung kritik meldung
    meldungen nachrichten neu neue neues neueste neuesten neuigkeiten probleme statistik studie
    studien stand vergleich veröffentlichung zahlen änderungen""",
    "fr": """actualité actualités annonce annonces changements chiffres comparaison critique
    critiques dernier derniers dernière dernières développements étude études nouveautés nouvelle
    nouvelles problèmes recherche sortie statistiques""",
    "es": """anuncio anuncios cambios cifras comparación crítica críticas estadísticas estudio
    estudios investigación lanzamiento noticia noticias novedades problemas últimas últimos""",
    "zh": "最新 最新进展 发布 公告 研究 论文 质疑 问题 数据 统计 新闻 变化 更正 更新 以来",
    "ja": "最新 発表 リリース 研究 論文 批判 課題 統計 データ ニュース 変更 訂正 更新 以降",
    "ko": "최신 발표 출시 연구 논문 비판 문제 통계 수치 뉴스 변화 정정 업데이트 이후",
}
_BARE = frozenset(_FUNCTION_WORDS["en"].split())  # removed even if they are in the title
_ALWAYS = ("en", "zh", "ja", "ko")  # no other language has words with these spellings


def _words_of(languages: Iterable[str]) -> frozenset[str]:
    """Return the words to remove in these languages; “die”, for example, is a filler only in German."""
    codes = {*_ALWAYS, *(code.lower().replace("_", "-").partition("-")[0] for code in languages)}
    texts = [texts.get(code, "") for texts in (_FUNCTION_WORDS, _WAYS_OF_ASKING) for code in codes]
    return frozenset(" ".join(texts).split())


def keywords(query: str, *, about: str = "", languages: Iterable[str] = ()) -> list[str]:
    """Return the keywords of `query`, in order and without duplicates; quoted phrases stay whole.

    `languages` are the possible languages of the query besides English.  Words that are also in
    `about`, the title of the research, are kept, so "World Cup 2026" keeps its year.  If nothing
    would be left, all words are kept.
    """
    words = _subject(query, about, _words_of(languages)) or _distinct(_WORD.findall(query))
    return words[:MAX_WORDS]


def quoted_keywords(query: str, options: SearchOptions) -> str:
    """Return the keywords of `query` with phrases in quotes, for a service that requires all words."""
    words = keywords(query, about=options.about, languages=options.languages)
    return " ".join(f'"{word}"' if " " in word else word for word in words)


def phrase(term: str) -> str:
    """Return a keyword as plain words, because hyphens and dots are operators of some services."""
    return " ".join(re.findall(r"[^\W_]+", term))


def _subject(query: str, about: str, empty: frozenset[str]) -> list[str]:
    kept = {word.casefold() for word in _WORD.findall(about)} - _BARE
    phrases: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        words = _WORD.findall(next(filter(None, match.groups())))
        phrases.append(" ".join(words))
        return f" \0{len(phrases) - 1}\0 " if words else " "

    def undated(match: re.Match[str]) -> str:
        return match[0] if match[0].strip().casefold() in about.casefold() else " "

    text = _DATES.sub(undated, _QUOTED.sub(put_aside, query.replace("\0", " ")))
    terms: list[str] = []
    for piece in re.split(r"(\0\d+\0)", text):
        if piece.startswith("\0"):
            terms.append(phrases[int(piece.strip("\0"))])
            continue
        terms += [
            word
            for word in _WORD.findall(piece)
            if word.casefold() in kept or word.casefold() not in empty
        ]
    return _distinct(terms)


def _distinct(terms: list[str]) -> list[str]:
    first: dict[str, str] = {}
    for term in terms:
        first.setdefault(term.casefold(), term)
    return list(first.values())
