"""Patterns that decide whether a reported item is a true change, independent of markup and date formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

# The first letters of the months in English, German, French and Spanish; the longer ones come first.
_MONTHS = {
    "jan": 1, "ene": 1, "jän": 1, "feb": 2, "fév": 2, "fev": 2, "mar": 3, "mär": 3, "mrz": 3,
    "apr": 4, "avr": 4, "abr": 4, "may": 5, "mai": 5, "juin": 6, "jun": 6, "juil": 7, "jul": 7,
    "aug": 8, "aoû": 8, "ago": 8, "sep": 9, "oct": 10, "okt": 10, "nov": 11, "dec": 12, "dez": 12,
    "déc": 12, "dic": 12,
}  # fmt: skip
_NAME = r"(juin|juil|[a-zäéû]{3})[a-zäéû]*\.?"
_WRITTEN = (
    re.compile(
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.|er)?(?: of| de)? {_NAME}(?: de)?,? (?P<year>\d{{4}})\b"
    ),
    re.compile(rf"\b{_NAME} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})\b"),
    re.compile(rf"\b(?P<year>\d{{4}})-{_NAME}-(?P<day>\d{{1,2}})\b"),
)
_NUMBERS = (
    re.compile(r"\b(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})\b"),
    re.compile(r"(?P<year>\d{4})年(?P<month>\d{1,2})月(?P<day>\d{1,2})日"),
)
_SHORT = 3  # Letters: "xr" must be a word, while "raisonnable" may continue.


def tells(text: str, patterns: tuple[str, ...]) -> bool:
    """Return whether all parts of any pattern are in the text."""
    seen = folded(text)
    return any(
        all(_part(part).search(seen) for part in pattern.split(" & ")) for pattern in patterns
    )


@lru_cache(maxsize=4_096)
def folded(text: str) -> str:
    """The text without markup and case, with its dates repeated as YYYY-MM-DD."""
    plain = folded_plain(text)
    return " ".join([plain, *_dates(plain)])


def folded_plain(text: str) -> str:
    """The text without markup, case and line breaks."""
    plain = re.sub(r"[*`\[\]]", "", text).replace("’", "'").casefold()
    return " ".join(plain.split())


def _dates(text: str) -> Iterator[str]:
    for form in _WRITTEN:
        for found in form.finditer(text):
            month = _MONTHS.get(found[1] if found[1] in _MONTHS else found[2])
            if month:
                yield f"{found['year']}-{month:02}-{int(found['day']):02}"
    for form in _NUMBERS:
        for found in form.finditer(text):
            yield f"{found['year']}-{int(found['month']):02}-{int(found['day']):02}"


@lru_cache(maxsize=4_096)
def _part(part: str) -> re.Pattern[str]:
    # "18.3" is in neither "18.30", "18.3.1" nor "118.3".
    wanted = folded_plain(part)
    is_short = len(wanted) <= _SHORT and wanted.isascii() and wanted.isalpha()
    before = r"(?<!\d)(?<!\d\.)" if wanted[0].isdigit() else r"\b" if is_short else ""
    after = r"(?!\d)(?!\.\d)" if wanted[-1].isdigit() else r"\b" if is_short else ""
    return re.compile(before + re.escape(wanted) + after)
