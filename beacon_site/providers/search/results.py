"""Cleaning the URLs, one-line texts and dates that services return."""

from __future__ import annotations

import html
import math
import re
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

LONGEST_URL = 2048  # characters; the fetcher refuses longer ones (reliability.md 2)
LONGEST_TITLE = 300
LONGEST_SNIPPET = 1000
LARGEST_HTML = 20_000  # characters of markup read for one snippet

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
    if not url or len(url) > LONGEST_URL or _UNSAFE.search(url) or " " in url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:  # such as a bracket that is never closed
        return ""
    return url if usable else ""


def host_in(url: str) -> str:
    """Return the host of an untrusted URL for logs, "" if it can't be parsed."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as a bracket that is never closed
        return ""


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
    words = _TAG.sub(" ", _NO_WORDS.sub(" ", value[:LARGEST_HTML]))
    return one_line(html.unescape(words), limit)


def plain_json(value: object, *, depth: int = 5) -> object:
    """Return `value` as JSON that Postgres can store: no NUL or lone surrogates, not too deep."""
    if isinstance(value, str):
        return _UNSAFE.sub(" ", value[:LONGEST_URL])
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {
            _UNSAFE.sub(" ", str(key)): plain_json(item, depth=depth - 1)
            for key, item in list(value.items())[:40]
        }
    if isinstance(value, list):
        return [plain_json(item, depth=depth - 1) for item in value[:20]]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # Python accepts NaN and Infinity in JSON, but Postgres doesn't
    return value if value is None or isinstance(value, bool | int | float) else str(value)


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
