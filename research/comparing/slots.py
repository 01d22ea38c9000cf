"""A sentence with what is compared of it: terms, names, amounts, moments and hints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from memory.texts.normal_form import normal_form
from memory.texts.text import match_key, one_line, without_citations
from research.claims.terms import STOP_WORDS, terms
from research.comparing.amounts import Amount, amounts
from research.comparing.cues import cues
from research.comparing.moments import Moment, moments
from research.comparing.statements import MONTHS, states_of

_NAME = re.compile(r"\b(?:[A-ZÄÖÜÉ][\w'’-]*[\w]|[a-z]*\d*[A-Z]\w*)")
_LATIN = re.compile(r"[^\W\d_]{4,}")
# A number that names: phase 2, version 8.1, Pebblestone 6, RZ-301.
_DESIGNATED = re.compile(
    r"\b(?:[A-Z][a-zA-Z]+|(?i:phase|version|release|article|flight|round|branch|line|route|type|level|lot"
    r"|stage|bill|chapter|model|series|part))[ -]\d{1,3}(?:\.\d+|\.x)*\b(?![,.]?\d)"
    r"(?!\s*(?:%|percent|points|million|billion|thousand|euros|dollars|people))"
)
# A letter that names: line K, unit B.
_LETTERED = re.compile(
    r"\b(?i:line|unit|block|group|class|type|terminal|route|tower|hall|section|wing)\s[A-Z]\b(?!['’.]\w)"
)
_ACRONYM = re.compile(r"\b[A-Z]{2,}(?:-[\dA-Z]+)+\b|\bv?\d+\.\d+\.\d+\b|\b\d+-\d+\b")
_NOT_NAMES = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december the a an in on at of for by since after before and but they he she it its "
    "his her their this that these those there here we i our as from with two three four five six seven nine ten all "
    "one no not up what if when while under over at up each both half some many more most ms mr mrs dr fc sv "
    "about nearly around roughly almost some just another than only every until within "
    "der die das den im am ein eine le la les du de des un une company people"
)
_NO_NAMES = frozenset(_NOT_NAMES.split())
_ALIASES = {"us": "united states", "american": "united states", "usa": "united states"}
# The first word of a sentence, and whether a name goes on after it.
_START = re.compile(r"(?:^|[.!?:;]\s+|[\"“„])\W*([A-ZÄÖÜÉ][\w'’-]*)(\s+[A-Z]\w+)?")


@dataclass(frozen=True, slots=True)
class Slots:
    """What one sentence tells, apart; `grams` are the beginnings of its words (cognates, cases)."""

    text: str
    folded: str
    terms: tuple[str, ...]
    grams: frozenset[str]
    names: frozenset[str]
    openers: frozenset[str]
    amounts: tuple[Amount, ...]
    moments: tuple[Moment, ...]
    designated: frozenset[str]
    bare: str
    key: str
    states: dict[str, str]
    cues: dict[str, float]
    on: date | None


def slots(sentence: str, on: date | None = None) -> Slots:
    """Take a sentence apart; `on` is the day of its page."""
    text = normal_form(one_line(without_citations(sentence)))
    folded = text.casefold()
    found, rest = moments(folded, on)
    starts = {_bare(m[1]) for m in _START.finditer(text) if not m[2]}
    names = {_bare(name) for name in [*_NAME.findall(text), *_ACRONYM.findall(text)]} - _NO_NAMES
    names |= {part for name in names & _ALIASES.keys() for part in _ALIASES[name].split()}
    codes = [m.group().casefold() for m in _DESIGNATED.finditer(text) if _can_name(m)]
    codes += [code.casefold() for code in _LETTERED.findall(text)]
    for code in [*codes, *(code.casefold() for code in _ACRONYM.findall(text))]:
        rest = rest.replace(code, " ")
    words = [term for term in terms(rest) if not term[0].isdigit() and term != "§"]
    return Slots(
        text=text,
        folded=folded,
        terms=tuple(dict.fromkeys(words)),
        grams=frozenset(word[:5] for word in _LATIN.findall(rest)),
        names=frozenset(name for name in names - starts if len(name) > 1 or name.isdigit()),
        openers=frozenset(starts - _NO_NAMES),
        amounts=tuple(amounts(rest)),
        moments=tuple(found),
        designated=frozenset(code.replace("-", " ") for code in codes),
        bare=" ".join(re.sub(r"[\d§]+", " ", rest).split()),
        key=match_key(text),
        states=states_of(folded),
        cues=cues(folded),
        on=on,
    )


def _can_name(found: re.Match[str]) -> bool:
    """Whether the word before a number is one that numbers are a name with: not "In 12 days"."""
    word = re.split(r"[ -]", found.group())[0].casefold()
    return word not in _NO_NAMES and word not in STOP_WORDS and word not in MONTHS


def _bare(name: str) -> str:
    return re.sub(r"['’]s?$", "", name.casefold())
