"""The points in time that a sentence names, those reckoned from the day of its page included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from research.comparing.amounts import plain_number
from research.comparing.statements import (
    DAY_MONTH,
    ISO_DATE,
    MONTH_DAY,
    MONTH_YEAR,
    MONTHS,
    WIDE_DATE,
)

_BARE_MONTH = re.compile(rf"\b(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b")
_YEAR = re.compile(
    r"(?<![\d.,])(?:1[5-9]|20)\d\d(?![\d.,]\d|\d|%)"
    r"(?!\s*(?:million|percent|euros?|dollars?|people|tonnes|metres|kilometres|kilograms|meters|mah|cells))"
)
_LAST_MONTH = re.compile(r"\blast month\b|上个?月|le mois dernier|im letzten monat")
_YEARS = re.compile(r"\b(?:(this|last) year|([\w-]+) years ago)\b|(今年|去年)")
_BEFORE_MONTH = re.compile(
    r"\b(?:in|of|by|since|until|mid|end|last|this|to|im|and|from|late|early|ende|en|depuis)[\s-]+$"
)
_AMBIGUOUS = frozenset(("may", "march", "mar", "sept", "mai", "set", "ott", "ago"))


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as far as it is told; 0 stands for what is not."""

    year: int = 0
    month: int = 0
    day: int = 0

    def agrees(self, other: Moment) -> bool:
        """Whether both tell something in common, and nothing that differs."""
        pairs = (
            (self.year, other.year),
            (self.month, other.month),
            (self.day, other.day),
        )
        told = [(a, b) for a, b in pairs if a and b]
        return bool(told) and all(a == b for a, b in told)

    def since(self, page: date | None) -> tuple[int, int, int]:
        """Return what sorts it among others; without a year it is the last one before `page`."""
        if self.year or page is None:
            return self.year, self.month, self.day
        return page.year - (self.month > page.month), self.month, self.day


def moments(folded: str, page: date | None) -> tuple[list[Moment], str]:
    """Return the moments of a case-folded text and the text without them.

    "Last month" and "two years ago" are reckoned from the day of the page, where that is known.
    """
    found: list[Moment] = []

    def take(year: str | None, month: int, day: str | None) -> str:
        found.append(Moment(int(year or 0), month, int(day or 0)))
        return " § "

    def bare(match: re.Match[str]) -> str:
        word, before = match.group(), match.string[: match.start()]
        if word in _AMBIGUOUS and not _BEFORE_MONTH.search(before):
            return word
        return take(None, MONTHS[word], None)

    def year(match: re.Match[str]) -> str:
        found.append(Moment(int(match.group())))
        return " § "

    rest = ISO_DATE.sub(lambda m: take(m[1], int(m[2]), m[3]), folded)
    rest = DAY_MONTH.sub(lambda m: take(m[3], MONTHS[m[2]], m[1]), rest)
    rest = MONTH_YEAR.sub(lambda m: take(m[2], MONTHS[m[1]], None), rest)
    rest = MONTH_DAY.sub(lambda m: take(m[3], MONTHS[m[1]], m[2]), rest)
    rest = WIDE_DATE.sub(lambda m: take(m[1], int(m[2]), m[3]), rest)
    rest = _BARE_MONTH.sub(bare, rest)
    rest = _YEAR.sub(year, rest)
    return [*found, *(_reckoned(rest, page) if page else [])], rest


def _reckoned(folded: str, page: date) -> list[Moment]:
    """Return the moments that are told by how far they lie from the day of the page."""
    found = []
    if _LAST_MONTH.search(folded):
        found.append(Moment(page.year - (page.month == 1), (page.month - 2) % 12 + 1))
    for match in _YEARS.finditer(folded):
        if match[2] is not None:
            ago = plain_number(match[2])
        else:
            ago = 0.0 if "this" in match.group() or match[3] == "今年" else 1.0
        if ago is not None and ago < page.year:
            found.append(Moment(page.year - int(ago)))
    return found
