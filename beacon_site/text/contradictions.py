"""Whether two statements about the same thing can't both be true.

It compares numbers, versions, dates, times, amounts and polarity ("is enabled", "is disabled"). When
in doubt, nothing is reported, because one false alarm costs more trust than a missed contradiction:
both statements need the same words besides their values, and neither may be about the past, a plan, a
condition or a single event. The words for these are English. Measured by
`python -m benchmarks.contradictions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from beacon_site.text import values
from beacon_site.text.cleaning import normal_form, one_line, without_citations
from beacon_site.text.sentences import split
from beacon_site.text.terms import query_terms

DATE, TIME, VERSION, AMOUNT, NUMBER, POLARITY = (
    "date", "time", "version", "amount", "number", "polarity",
)  # fmt: skip
MAX_LENGTH = 400  # characters of a statement; a longer sentence says several things
MAX_STATEMENTS = 40  # of one text
CLOSE = 0.15  # relative difference that "about" allows

_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s*)?|^\s*#+\s+|^\s*>\s*")
_MARKUP = re.compile(r"[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}")
_NAMED = re.compile(
    r"\b(?:[A-Z][\w.+#-]*|[a-z]+[A-Z]\w*)\s+(?:(?i:version|v|release)\.?\s*)?v?(\d+(?:\.\d+)*)"
    r"(?![\w:/-]|[.,]\d|\s*(?:%|[€$£]|percent\b))"
)
_TIME = re.compile(
    r"\b(?P<h>[01]?\d|2[0-3])(?::(?P<m>[0-5]\d))?\s*(?P<half>[ap]\.?m\b\.?)"
    r"|\b(?P<h2>[01]?\d|2[0-3]):(?P<m2>[0-5]\d)\b(?!:)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r":(?=\s)|(?i:\b(?:is|are|am|has|have|runs?|uses?|costs?|takes?|needs?|lasts?|starts?|begins?|ends?|opens?"
    r"|closes?|expires?|supports?|weighs?|contains?|gets?|sets?|allows?|listens?|fires?|keeps?|kept|limits?"
    r"|limited|builds?|prefers?|likes?|loves?|hates?|avoids?|dislikes?|wants?|works?|lives?|holds?|owns?|pays?"
    r"|earns?|requires?|can|must|should|will|does|do|would|was|were|had|did)\b)"
)
_CLAUSE = re.compile(
    r"[;(—–]|,(?=\s)|\s-\s|\b(?:because|although|though|since|so that|which|while|but)\b", re.I
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|used to|previously|formerly|former|yesterday|earlier|ago|no longer"
    r"|last (?:year|month|week|night|summer|winter|spring|autumn|fall|time)"
    r"|(?:until|till|before) (?:last|\d{4}|[a-z]+ \d{4}|january|february|march|april|may|june|july|august"
    r"|september|october|november|december))\b",
    re.I,
)
_HAPPENED = re.compile(
    r"^(?:[\w'-]+\s+){0,3}?(?:ran|paid|bought|met|went|saw|wrote|sent|got|made|took|left|came|grew|fell|rose|sold"
    r"|spent|ate|drank|slept|won|lost|found|said|told|gave|began|broke|built|\w{2,}ed)\b",
    re.I,
)
_STATES_NOW = re.compile(r"\b(?:is|are|am|has|have|must|be|can)\b", re.I)
_PLANNED = re.compile(
    r"\b(?:will|would|should|could|might|going to|plans?|planned|scheduled|expected|due|proposed?|wants?"
    r"|goals?|targets?|supposed)\b",
    re.I,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|except|without|when|whenever|only|maybe|perhaps|probably|either|or|other than|besides"
    r"|while|instead)\b",
    re.I,
)
_BOUNDS = (
    (">", re.compile(r"\b(?:at least|more than|over|above|minimum|min)\b|>=?", re.I)),
    ("<", re.compile(r"\b(?:at most|under|below|less than|fewer than|up to|within|maximum|max)\b|<=?", re.I)),
)  # fmt: skip
_ABOUT = re.compile(r"\b(?:about|around|roughly|approximately|almost|nearly|circa|ca)\b|~", re.I)
_SHORT_NOT = re.compile(r"\b(can|won|shan|[a-z]+)n['’]t\b|\bcannot\b", re.I)
_NOT = re.compile(r"\b(?:not|never|no|nor|neither)\b", re.I)
# Words that say the opposite of each other, by the word that stands for both.
_OPPOSITES = tuple(
    (name, re.compile(rf"\b(?:{yes})\b", re.I), re.compile(rf"\b(?:{no})\b", re.I))
    for name, yes, no in (
        ("likes", "likes?|loves?|prefers?|enjoys?|wants?", "dislikes?|hates?|avoids?"),
        ("enabled", "enabled|activated|(?:turned|switched) on", "disabled|deactivated|(?:turned|switched) off"),
        ("allowed", "allowed|permitted", "forbidden|banned|prohibited|disallowed"),
        ("required", "required|mandatory|compulsory", "optional|voluntary"),
        ("isopen", "(?<=is )open|(?<=are )open", "(?<=is )closed|(?<=are )closed"),
        ("ison", "(?<=is )on(?=[.]?$)", "(?<=is )off(?=[.]?$)"),
        ("public", "public", "private|confidential"),
        ("correct", "true|correct|right", "false|incorrect|wrong"),
        ("included", "included", "excluded"),
        ("available", "available|reachable", "unavailable|unreachable"),
        ("supported", "supported", "unsupported"),
        ("active", "active", "inactive"),
        ("reliable", "reliable|safe", "unreliable|unsafe"),
    )
)  # fmt: skip
# Words that say nothing about which thing is meant.
_FILLED = (
    "still now current currently already just exactly about version release service server system "
    "application app database always today total number only our my the are is set until till yet by "
    "default actually really please ever runs uses has gets costs needs takes does have"
)
_FILLERS = frozenset(query_terms(_FILLED)) | frozenset(_FILLED.split())

_Value = tuple[str, str, object]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A parsed statement: what it's about, and its values as `(kind, unit, value)`."""

    text: str
    main: str
    frame: frozenset[str]
    subject: frozenset[str]
    found: tuple[_Value, ...]
    is_positive: bool
    is_planned: bool
    is_about: bool
    limits: frozenset[str]


def statements(text: str) -> list[str]:
    """Return the statements of a note or a file's section: its lines, split into sentences."""
    results: list[str] = []
    for line in text.splitlines():
        words = plain(line)
        if words and not line.lstrip().startswith("#"):
            results += [one for one in split(words) if 4 <= len(one) <= MAX_LENGTH]
        if len(results) >= MAX_STATEMENTS:
            break
    return results[:MAX_STATEMENTS]


def plain(line: str) -> str:
    """Return the words of a line, without its item mark and markup."""
    return one_line(_MARKUP.sub("", _ITEM.sub("", line)))


def differences(old_text: str, new_text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each old statement that a new one contradicts, the kind of value that differs, and the new one."""
    new = [(one, _parsed(one)) for one in statements(new_text)]
    for old in statements(old_text):
        for statement, parsed in new:
            found = _difference(_parsed(old), parsed)
            if found:
                yield old, found, statement


def _difference(old: _Statement | None, new: _Statement | None) -> str:
    """Return the kind of value in which two statements differ, or ""."""
    if old is None or new is None or old.text.casefold() == new.text.casefold():
        return ""
    if old.is_planned != new.is_planned or old.limits != new.limits:
        return ""
    if old.subject != new.subject or not _same_frame(old.frame, new.frame):
        return ""
    ours, theirs = _values_only_in(new, old), _values_only_in(old, new)
    if old.is_positive != new.is_positive:
        if ours or theirs or len(old.frame) < 2:
            return ""
        return POLARITY
    if not old.is_positive:
        return ""
    if old.found and not ours and not theirs:
        return AMOUNT if _has_other_signs(old.main, new.main) else ""
    kinds = {one[0] for one in ours} & {one[0] for one in theirs}
    if not kinds or (DATE in kinds and len(kinds) > 1):
        return ""  # another day has another value
    for mine in ours:
        for other in theirs:
            if _is_other_value(other, mine, is_about=old.is_about or new.is_about):
                return mine[0]
    return ""


def _same_frame(old: frozenset[str], new: frozenset[str]) -> bool:
    """Whether both have the same words. One name can be short for another (Postgres, PostgreSQL)."""
    ours, theirs = new - old, old - new
    if not old or not new or len(ours) != len(theirs):
        return False
    return all(any(_is_short_for(one, other) for other in theirs) for one in ours)


def _is_short_for(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 5 and long.startswith(short)


def _values_only_in(one: _Statement, other: _Statement) -> list[_Value]:
    return [mine for mine in one.found if not any(_is_same(mine, its) for its in other.found)]


def _is_same(one: _Value, other: _Value) -> bool:
    """Return True if two values are the same, or one says it in more detail."""
    kind, _unit, mine = one
    if kind != other[0]:
        return False
    its = other[2]
    if kind == VERSION:
        return values.is_same_release(str(mine), str(its))
    if kind == DATE:
        return _is_part(str(mine).split("-"), str(its).split("-"))
    if isinstance(mine, values.Amount) and isinstance(its, values.Amount):
        return values.is_same(mine, its) or values.is_rounded(mine, its)
    return mine == its


def _has_other_signs(old: str, new: str) -> bool:
    """Return True if the same numbers have another sign or unit. An omitted unit says the same."""
    signs = [values.marks(text).count("-") for text in (old, new)]
    return signs[0] != signs[1] or values.are_other_units(old, new)


def _is_other_value(old: _Value, new: _Value, *, is_about: bool) -> bool:
    was, now = old[2], new[2]
    if isinstance(was, values.Amount) and isinstance(now, values.Amount):
        if old[1] != new[1]:  # a price can have two currencies, but not with the same number
            return {old[1], new[1]} <= values.CURRENCIES and was.value == now.value
        is_one_kind = was.unit == now.unit or not (was.unit and now.unit)
        return is_one_kind and not (is_about and was.is_near(now, CLOSE))
    return old[:2] == new[:2] and was != now


def _is_part(one: list[str], other: list[str]) -> bool:
    """Return True if a date is the other with fewer parts."""
    short, long = sorted((one, other), key=len)
    return set(short) <= set(long)


@lru_cache(maxsize=8_192)
def _parsed(text: str) -> _Statement | None:
    """Return the parsed statement, or None if it isn't one about how things are now."""
    plain = normal_form(without_citations(text)).strip()
    if plain.endswith("?") or _PAST.search(plain):
        return None
    if _HAPPENED.search(plain) and not _STATES_NOW.search(plain):
        return None
    main = _main_clause(plain)
    if _CONDITION.search(main) or _CONDITION.search(plain[len(main) :]):
        return None
    verb = _VERB.search(main)
    head = main[: verb.start()] if verb else " ".join(main.split()[:2])
    is_numbered = bool(verb) or len(main.split()) > 3
    subject = frozenset(_DIGITS.findall(head)) if is_numbered else frozenset()
    subject |= frozenset(_DESIGNATED.findall(" ".join(main.split()[:5])))
    rest, found = _values_of(main)
    rest, is_positive = _without_polarity(rest)
    limits = frozenset(name for name, pattern in _BOUNDS if pattern.search(rest))
    is_about = _ABOUT.search(rest) is not None
    for _name, pattern in _BOUNDS:
        rest = pattern.sub(" ", rest)
    is_planned = _PLANNED.search(rest) is not None
    frame = frozenset(query_terms(rest)) - _FILLERS
    units = {str(one[2].unit) for one in found if isinstance(one[2], values.Amount)}
    frame -= {term for unit in units if unit for term in query_terms(unit)}
    frame = frozenset(term for term in frame if values.plain_number(term) is None)
    if not frame:
        return None
    return _Statement(
        plain, main, frame, subject, tuple(found), is_positive, is_planned, is_about, limits
    )


_DIGITS = re.compile(r"\d+(?:\.\d+)*")
# A number that says which one, at the beginning: "The tram line 7 carries …".
_DESIGNATED = re.compile(
    r"(?i)(?<!on )(?<!at )(?<!in )(?<!to )\b(?:line|route|bus|train|flight|step|phase|stage|chapter|section|room|floor"
    r"|ticket|issue|order|invoice|build|batch|unit|team|group|level|week|day|lot|type|model|no\.?)\s+#?(\d+)"
)


def _main_clause(text: str) -> str:
    """Return the text up to the first break after its first value; without a value, all of it."""
    digit = _DIGITS.search(text)
    if digit is None:
        return text
    end = _CLAUSE.search(text, digit.end())
    lead = _CLAUSE.search(text, 0, digit.start())
    # "In 2024, rent is …": what comes before the comma says when or where.
    if end is not None and not _VERB.search(text[: end.start()]) and lead is None:
        end = _CLAUSE.search(text, end.end())
    return text[: end.start()] if end is not None else text


def _values_of(text: str) -> tuple[str, list[_Value]]:
    """Return the text without its values, and the values."""
    results: list[_Value] = []
    for match in _TIME.finditer(text):
        results.append((TIME, "", _minutes(match)))
    rest = _TIME.sub(" ", text)
    for kind, value in values.typed_values(rest):
        if kind == values.DATE:
            results.append((DATE, "", value))
    rest = values.without_dates(rest)
    for match in _NAMED.finditer(rest):
        results.append((VERSION, "", match[1]))
    rest = _NAMED.sub(lambda match: match.group()[: match.start(1) - match.start()] + " ", rest)
    for amount in values.amounts(rest.casefold()):
        kind = AMOUNT if amount.unit in values.UNITS else NUMBER
        results.append((kind, amount.unit if kind == AMOUNT else "", amount))
    return values.without_values(rest), results


def _minutes(match: re.Match[str]) -> int:
    hour, minute = int(match["h"] or match["h2"]), int(match["m"] or match["m2"] or 0)
    half = (match["half"] or "").casefold()[:1]
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return 60 * hour + minute


def _without_polarity(text: str) -> tuple[str, bool]:
    """Return the text without its negations, opposites by one name, and whether it's positive."""
    text = _SHORT_NOT.sub(
        lambda match: f"{'can' if (match[1] or 'can') in ('ca', 'can') else match[1]} not", text
    )
    is_positive = len(_NOT.findall(text)) % 2 == 0
    text = _NOT.sub(" ", text)
    for name, yes, no in _OPPOSITES:
        text, count = no.subn(f" {name} ", text)
        if count % 2:
            is_positive = not is_positive
        text = yes.sub(f" {name} ", text)
    return text, is_positive
