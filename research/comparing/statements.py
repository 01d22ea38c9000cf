"""What a sentence states, taken apart: its numbers, its subject, its state, and the words round them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.texts.normal_form import normal_form
from memory.texts.sentences import language_of
from memory.texts.text import match_key, one_line, without_citations
from research.claims.terms import is_wide_text, terms
from research.comparing.states import ONE_HOLDER, STATES

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero gennaio janeiro",
            "february feb februar février febrero febbraio fevereiro",
            "march mar märz mars marzo março",
            "april apr avril abril aprile",
            "may mai mayo maggio maio",
            "june jun juni juin junio giugno junho",
            "july jul juli juillet julio luglio julho",
            "august aug août agosto",
            "september sep sept septembre septiembre settembre setembro",
            "october oct oktober octobre octubre ottobre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember décembre diciembre dicembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
DAY_MONTH = re.compile(
    rf"(?<![\w.])(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:de\s+)?({_MONTH})\b\.?(?:,?\s+(?:de\s+)?(\d{{4}}))?"
)
MONTH_DAY = re.compile(
    rf"\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?![.\d%])(?:,?\s+(\d{{4}}))?"
)
MONTH_YEAR = re.compile(rf"\b({_MONTH})\.?,?\s+(?:de\s+)?(\d{{4}})\b")
ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
WIDE_DATE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})[日号])?")
_IDENTIFIER = re.compile(r"\b[a-z]{2,}(?:-\d+){1,2}[\w-]*\b")
_NUMBER = re.compile(
    r"(?<![a-z0-9_.])v?(\d+(?:[.,]\d+)*)(\s*(?:%|percent\b|per cent\b|prozent\b))?"
)
_SPELLED_OUT = "two three four five six seven eight nine ten eleven twelve"
_SPELLED = {word: str(number) for number, word in enumerate(_SPELLED_OUT.split(), start=2)}
_SPELLED_WORD = re.compile(rf"\b(?:{'|'.join(_SPELLED)})\b")

# Small words that become a name by the number after them: "version 13", "line 7".
_NUMBERED = (
    "version|release|model|phase|stage|level|chapter|article|batch|line|route|flight|part|unit|type"
    "|series|class|round|section|volume|issue|season|episode|beta|candidate|number|no\\."
)
_DESIGNATED = re.compile(
    rf"\b(?:[A-Z][\w.+#&-]*|(?:(?i:{_NUMBERED}))s?)"
    r"\s+v?(\d+(?:\.\d+)*)\b(?!\s*(?:%|percent|per cent|million|billion|thousand))"
)
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-Z][\w&+#-]*")
# "2025年，…" at the head of a clause says which year's figure is meant.
_SPOKEN_OF_YEAR = re.compile(r"(?:^|[，,：:])(\d{4})年(?!\d)")
# The first word is a name if it is written like one or stands before a number or another name.
_FIRST_NAME = re.compile(r"(?:[A-Z]\w*[A-Z_]\w*|[A-Z]\w+(?=\s+(?:[A-Z]|v?\d)))")
_NOT_NAMES = frozenset(
    (
        "release",
        "candidate",
        "beta",
        "alpha",
        "version",
        "final",
        "the",
        "a",
        "in",
        "on",
        "at",
        "of",
        "for",
        "since",
        "after",
        "before",
        "and",
        "by",
    )
)


# Words that may stand before the subject's name: "The final release of PostgreSQL 17 …".
_BEFORE_NAMES = (
    "the a an of for in with final first second third major minor new version release beta "
    "candidate support database project latest current newest stable and users operators "
    "published released announced tram bus train"
)
_SMALL = frozenset(_BEFORE_NAMES.split())


@dataclass(frozen=True, slots=True)
class Stated:
    """A sentence taken apart.

    `numbers` hold dates as year, `m<month>` and `day<day>`, shares as `31%`; `subject` the numbers
    that name what is spoken of (the 13 of "Version 13 …"); `states` a state by dimension (life:
    ended); `frame` the remaining terms, each once, with a mark for every dimension; `names` the
    proper names; `is_one` says that its role has one holder ("the current release").
    """

    text: str
    key: str
    numbers: frozenset[str]
    subject: frozenset[str]
    states: tuple[tuple[str, str], ...]
    frame: tuple[str, ...]
    names: frozenset[str]
    is_one: bool
    is_wide: bool


def take_apart(sentence: str) -> Stated:
    """Return what a sentence states; citations and markup aside."""
    text = one_line(without_citations(sentence))
    folded = normal_form(text).casefold()
    found, rest = _numbers_of(folded)
    states = states_of(rest)
    marks = [f"§{dimension}" for dimension in states]
    for _dimension, _state, pattern in STATES:
        rest = pattern.sub(" ", rest)
    frame = [term for term in terms(rest, language_of(text)) if not term[0].isdigit()]
    return Stated(
        text=text,
        key=match_key(text),
        numbers=frozenset(found),
        subject=_subject(text),
        states=tuple(sorted(states.items())),
        frame=tuple(dict.fromkeys([*marks, *frame])),
        names=_names(text),
        is_one=ONE_HOLDER.search(folded) is not None,
        is_wide=is_wide_text(text),
    )


def states_of(text: str) -> dict[str, str]:
    """Return the state in each dimension; the one that is told first holds."""
    first: dict[str, tuple[int, str]] = {}
    for dimension, state, pattern in STATES:
        found = pattern.search(text)
        if found and (dimension not in first or found.start() < first[dimension][0]):
            first[dimension] = (found.start(), state)
    return {dimension: state for dimension, (_place, state) in first.items()}


def numbers(text: str) -> frozenset[str]:
    """Return the numbers, versions and parts of dates in a text, in one spelling."""
    folded = normal_form(text).casefold()
    return frozenset(_numbers_of(folded)[0])


def _numbers_of(folded: str) -> tuple[list[str], str]:
    """Return the numbers of a case-folded text, and the text without them."""
    found: list[str] = []

    def identifier(match: re.Match[str]) -> str:
        found.append(match.group())
        return " "

    def date(year: str | None, month: int, day: str | None) -> str:
        found.append(f"m{month}")
        if year:
            found.append(year)
        if day:
            found.append(f"day{int(day)}")
        return " "

    def number(match: re.Match[str]) -> str:
        plain = re.sub(r",(?=\d{3}(?!\d))", "", match[1])
        found.append(plain + ("%" if match[2] else ""))
        return " "

    def spelled(match: re.Match[str]) -> str:
        found.append(_SPELLED[match.group()])
        return " "

    rest = ISO_DATE.sub(lambda m: date(m[1], int(m[2]), m[3]), folded)
    rest = _IDENTIFIER.sub(identifier, rest)
    rest = DAY_MONTH.sub(lambda m: date(m[3], MONTHS[m[2]], m[1]), rest)
    rest = MONTH_YEAR.sub(lambda m: date(m[2], MONTHS[m[1]], None), rest)
    rest = MONTH_DAY.sub(lambda m: date(m[3], MONTHS[m[1]], m[2]), rest)
    rest = WIDE_DATE.sub(lambda m: date(m[1], int(m[2]), m[3]), rest)
    rest = _NUMBER.sub(number, rest)
    return found, _SPELLED_WORD.sub(spelled, rest)


def _subject(text: str) -> frozenset[str]:
    """Return the numbers that name the subject: those by a name before the verb is likely reached."""
    head = " ".join(text.split()[:12])
    found = _SPOKEN_OF_YEAR.findall(text)
    for match in _DESIGNATED.finditer(head):
        if match.group().split()[0].casefold().rstrip(".") in MONTHS:
            continue
        if any(word.islower() and word not in _SMALL for word in head[: match.start()].split()[1:]):
            break
        found.append(match[1])
    return frozenset(found)


def _names(text: str) -> frozenset[str]:
    found = {match.group().casefold() for match in _NAME.finditer(text)}
    first = _FIRST_NAME.match(text)
    if first is not None:
        found.add(first.group().casefold())
    return frozenset(name for name in found - _NOT_NAMES if name not in MONTHS)
