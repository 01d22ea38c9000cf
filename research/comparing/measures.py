"""Measured things in text without spaces: what stands before a number, and its unit after it.

Chinese and Japanese sentences about one quantity share few words and a long run of characters
(`国内固态电池出货量为7.8吉瓦时`), so the run decides, not the share of the words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from memory.texts.normal_form import normal_form

# So many characters in one run before the number name the same quantity.
SHARED_RUN = 6
# Enough if the new sentence repeats the old value beside its own ("from 0.2 to 1").
SHARED_SHORT_RUN = 3
SHARED_NAME = 4
_BEFORE = 26
_MEASURE = re.compile(
    r"(?<![\d.])(\d+(?:[.,]\d+)*)\s*(%|[\u3040-\u30ff\u4e00-\u9fff]{1,2}|[a-z]{1,4}\b)"
)
_YEAR = re.compile(r"(?:19|20)\d\d年")
_DATED = re.compile(r"\d{1,2}[月日号]")
_DIGITS = re.compile(r"[\d.]+")
_YEARS_BEGIN = 0xE000


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with its unit and what stands before it; a year in `before` is one character."""

    value: str
    unit: str
    before: str


def measures(text: str) -> list[Measure]:
    """Return the measured numbers of a text; dates are none."""
    text = normal_form(text).casefold()
    text = _YEAR.sub(lambda match: chr(_YEARS_BEGIN + int(match.group()[:4])), text)
    text = _DATED.sub("", text)
    return [
        Measure(
            match[1].replace(",", ""),
            match[2],
            _DIGITS.sub("", text[: match.start()])[-_BEFORE:],
        )
        for match in _MEASURE.finditer(text)
    ]


def same_measure(new: str, old: str) -> bool:
    """Whether `new` gives another value than `old` for a quantity that both name."""
    ours, theirs = measures(new), measures(old)
    for left in theirs:
        same_unit = [right for right in ours if right.unit == left.unit]
        named = [right for right in same_unit if _names_the_same(right.before, left.before)]
        if named and any(right.value != left.value for right in named):
            return True
        repeated = [right for right in same_unit if right.value == left.value]
        if len(same_unit) > len(repeated) > 0 and _tells_of_change(new, old, repeated[0], left):
            return True
    return False


def _names_the_same(new: str, old: str) -> bool:
    run, before_new, before_old = _shared(new, old)
    if _is_year(before_new) and _is_year(before_old) and before_new != before_old:
        return False
    return len(run) >= SHARED_RUN


def _tells_of_change(new: str, old: str, ours: Measure, theirs: Measure) -> bool:
    return (
        len(_shared(ours.before, theirs.before)[0]) >= SHARED_SHORT_RUN
        and len(_shared(new, old)[0]) >= SHARED_NAME
    )


def _shared(new: str, old: str) -> tuple[str, str, str]:
    """Return the longest run of letters that both hold, and the character before it in each."""
    best = ("", "", "")
    # Punctuation parts the runs; a year stays, to be looked at as the character before.
    for ours in re.split(r"[^\w\ue000-\uf8ff]+", new):
        for theirs in re.split(r"[^\w\ue000-\uf8ff]+", old):
            left, right = _bare(ours), _bare(theirs)
            found = SequenceMatcher(None, left, right, autojunk=False).find_longest_match()
            run = left[found.a : found.a + found.size]
            if len(run) > len(best[0]):
                before = left[found.a - 1 : found.a] if found.a else ""
                best = (run, before, right[found.b - 1 : found.b] if found.b else "")
    return best


def _bare(text: str) -> str:
    return _DIGITS.sub("", text)


def _is_year(char: str) -> bool:
    return bool(char) and "\ue000" <= char <= "\uf8ff"
