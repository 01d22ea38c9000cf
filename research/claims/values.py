"""What kind of value a cell or a phrase holds, and which values two sentences do not share."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from memory.texts.normal_form import normal_form

DATE, VERSION, PERCENT, AMOUNT, NUMBER, STATUS, LINK, LIST, TEXT, NONE = (
    "date", "version", "percent", "amount", "number", "status", "link", "list", "text", "",
)  # fmt: skip
TYPED = frozenset((DATE, VERSION, PERCENT, AMOUNT, NUMBER, STATUS))
MOST_STATUS_WORDS = 5
LONGEST = 300  # characters of a value

# January to December, in the languages whose dates are read.
_MONTH_NAMES = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz maerz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)
MONTHS = {name: n for n, names in enumerate(_MONTH_NAMES, start=1) for name in names.split()}
_MONTH = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er)?"
_DATE = re.compile(
    rf"\b(?P<y1>\d{{4}})[-/.](?P<m1>\d{{1,2}})(?:[-/.](?P<d1>\d{{1,2}}))?\b(?![.\d])"
    rf"|\b(?P<d2>\d{{1,2}})[./](?P<m2>\d{{1,2}})[./](?P<y2>\d{{4}}|(?<=\d\d[./]\d\d[./])\d{{2}})\b(?![.\d])"
    rf"|\b(?P<d3>{_DAY})\.?\s+(?:of\s+|de\s+)?(?P<n3>{_MONTH})(?:,?\s+(?:de\s+)?(?P<y3>\d{{4}}))?\b"
    rf"|\b(?P<n4>{_MONTH})\s+(?P<d4>{_DAY})\b(?:,?\s+(?P<y4>\d{{4}}))?"
    rf"|\b(?P<n5>{_MONTH}),?\s+(?:de\s+)?(?P<y5>\d{{4}})\b"
    rf"|\b(?P<q6>[QH][1-4])[ /-]?(?P<y6>\d{{4}})\b"
    rf"|(?P<y7>\d{{4}})年(?:(?P<m7>\d{{1,2}})月(?:(?P<d7>\d{{1,2}})日)?)?|(?P<m8>\d{{1,2}})月(?P<d8>\d{{1,2}})日"
    # A bare year needs a word or a sign beside it: 1960 cells are no date.
    r"|(?:(?<=\bin )|(?<=\bof )|(?<=\bim )|(?<=\ben )|(?<=\bby )|(?<=\bde )|(?<=since )|(?<=until )|(?<=from )|(?<=year )"
    r"|(?<=Jahr )|(?<=seit )|(?<=depuis )|(?<=\())(?P<y9>(?:19|20)\d\d)\b(?![.,]\d|\s?%)"
    r"|\b(?P<y0>(?:19|20)\d\d)\b(?=\s*(?:$|[;:)\]–—-]|[.,](?!\d)))",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"\bv?\d+(?:\.\d+)+(?:[-.]?(?:alpha|beta|rc|dev|pre|post|patch|p|b|a|M|SNAPSHOT|lts|final|ga|ea)[-.]?\d*)*[\w+-]*"
    r"|\bv\d+\b|\b\d+\.x\b|\b(?:alpha|beta|rc|candidate)\s?\d+\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    r"[-+−]?\d+(?:[.,]\d+)?\s*(?:%|percent\b|per cent\b|Prozent\b|pour cent\b|por ciento\b)"
)
_CURRENCY = r"(?:[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY|CNY|元|円|원)"
_AMOUNT = re.compile(
    rf"{_CURRENCY}\s?\d[\d.,' ]*(?:\s?(?:[kMB]\b|million|billion|Mio|Mrd)\b)?"
    rf"|\d[\d.,']*\s?(?:[kMB]\b\s?)?(?:{_CURRENCY}|(?:k|M|G|T)i?B\b|[kMGT]?Wh?\b|kg\b|km\b|mm\b|cm\b|°C|ms\b|GHz\b|MHz\b"
    r"|million\b|billion\b|Millionen\b|Milliarden\b|days?\b|hours?\b|weeks?\b|months?\b|years?\b|Tage\b|Monate\b|Jahre\b"
    r"|jours\b|mois\b|ans\b|días\b|meses\b|años\b|天|年|个月|小时|万|亿)"
)
_NUMBER = re.compile(r"(?<![A-Za-z_.\d])[-+−]?\d+(?:[.,' ]\d{3}(?!\d))*(?:[.,]\d+)?(?![A-Za-z_\d])")
_DIGIT = re.compile(r"\d")
_LINK = re.compile(r"https?://\S+|\bwww\.\S+")
_ORDER = (
    (DATE, _DATE),
    (PERCENT, _PERCENT),
    (AMOUNT, _AMOUNT),
    (VERSION, _VERSION),
    (NUMBER, _NUMBER),
)


def kind_of(value: str) -> str:
    """Return the kind of a whole value: a date with a weekday before it is a date."""
    text = value.strip()
    if not text or text in "-–—":
        return NONE
    if _LINK.fullmatch(text):
        return LINK
    rest = text
    found: list[str] = []
    # Every value has a digit, and a long text isn't a value.
    if _DIGIT.search(text) and len(text) <= LONGEST:
        for kind, pattern in _ORDER:
            rest, count = pattern.subn(" ", rest)
            found += [kind] * count
    words = [word for word in re.findall(r"[^\W\d_]+", rest) if len(word) > 1]
    if found and len(words) <= 2:
        return found[0] if len(found) <= 2 else LIST
    if not found and len(text.split()) <= MOST_STATUS_WORDS and len(text) <= 60:
        return STATUS
    return TEXT


def is_sign(value: str) -> bool:
    """Whether a value consists of signs alone, such as ✅, 🚫 or +; a dash is an empty cell."""
    text = value.strip()
    return bool(text) and text not in "-–—" and not any(map(str.isalnum, text))


def typed_values(text: str) -> Counter[tuple[str, str]]:
    """Return the dates, versions, amounts and numbers of a sentence, each with its kind.

    A date is the same value however it is written: `2025-11-13`, `13 November 2025`, `13.11.2025`.
    """
    return Counter(_typed_values(text)) if _DIGIT.search(text) else Counter()


@lru_cache(maxsize=4_096)
def _typed_values(text: str) -> Counter[tuple[str, str]]:
    rest = _LINK.sub(" ", normal_form(text))
    found: Counter[tuple[str, str]] = Counter()
    for kind, pattern in _ORDER:
        for match in pattern.finditer(rest):
            value = "-".join(_date_parts(match)) if kind == DATE else _canonical(match.group())
            found[kind, value] += 1
        rest = pattern.sub(" ", rest)
    return found


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text in one spelling, dates by their parts: `2025`, `m11`, `d13`."""
    found: set[str] = set()
    for kind, value in typed_values(text):
        if kind == DATE:
            found.update(value.split("-"))
        else:
            found.update(re.findall(r"\d+(?:\.\d+)*", value.replace(",", "").replace("'", "")))
    return frozenset(found)


def _date_parts(match: re.Match[str]) -> list[str]:
    """Return year, month and day of a date as far as it names them: `2025`, `m11`, `d13`."""
    groups = {name[0]: value for name, value in match.groupdict().items() if value}
    parts = []
    if year := groups.get("y"):
        parts.append(year if len(year) == 4 else f"20{year}")
    if "q" in groups:
        parts.append(groups["q"].casefold())
    month = groups.get("m") or MONTHS.get(groups.get("n", "").casefold().rstrip("."))
    if month:
        parts.append(f"m{int(month)}")
    if day := groups.get("d"):
        parts.append(f"d{int(re.sub(r'[^0-9]', '', day))}")
    return parts


def without_dates(text: str) -> str:
    """Return a text without its dates."""
    return _DATE.sub(" ", text)


def without_values(text: str) -> str:
    """Return a text without its dates, amounts, versions and numbers."""
    for _kind, pattern in _ORDER:
        text = pattern.sub(" ", text)
    return text


def frame_of(text: str) -> str:
    """Return a sentence with its values replaced by their kinds: what sentences of one frame share."""
    rest = _LINK.sub(" ", normal_form(text).casefold())
    for kind, pattern in _ORDER if _DIGIT.search(rest) else ():
        rest = pattern.sub(f" <{kind}> ", rest)
    return " ".join(re.findall(r"<\w+>|[^\W\d_]+", rest))


def changed_kinds(before: str, after: str) -> set[str]:
    """Return the kinds of which both texts hold values, and not the same."""
    old, new = typed_values(before), typed_values(after)
    gone, come = old - new, new - old
    return {kind for kind, _v in gone} & {kind for kind, _v in come}


def latest_date(found: Counter[tuple[str, str]]) -> tuple[int, ...]:
    """Return year, month and day of the latest date among values; empty for none with a year."""
    dates = [value for kind, value in found if kind == DATE and value[:4].isdigit()]
    return max((tuple(map(int, re.findall(r"\d+", value))) for value in dates), default=())


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, which sort as versions do."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:6])


def _canonical(value: str) -> str:
    # A comma or apostrophe between thousands isn't part of a number.
    plain = re.sub(r"(?<=\d)[,'](?=\d{3}(?!\d))", "", value.casefold())
    return " ".join(plain.split()).strip(" .")
