"""Merging two changes of one text; changes that don't overlap merge automatically.

Data flow: base, mine, theirs -> lines -> changes of each side -> hunks of changes that touch
-> one side's change, the same change, words merged inside the lines, or a conflict.  No word of
either side is lost: a conflict keeps base, mine and theirs, and `Merge.text` accepts a choice.
(`merge3` is GPL and `three-merge` hasn't changed since 2020, so this is our own code.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from beacon_site.text.diff import edits, lines_of, words_of

Choice = Literal["mine", "theirs", "both"]
_Edit = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the text: `kind` is same, mine, theirs, agreed, merged, or conflict.

    `merged` is the result, unless it is a conflict.
    """

    kind: str
    base: str
    mine: str
    theirs: str
    merged: str = ""

    def text(self, choice: str = "mine") -> str:
        """Return its text; in a conflict, the side named by `choice`."""
        if self.kind != "conflict":
            return self.merged
        if choice != "both":
            return self.theirs if choice == "theirs" else self.mine
        gap = "" if not self.theirs or self.theirs.endswith("\n") else "\n"
        return self.theirs + gap + self.mine


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of two changes of one text, as parts in order."""

    parts: tuple[Part, ...]

    @property
    def conflicts(self) -> list[Part]:
        """Return the parts in which both sides changed the same words."""
        return [part for part in self.parts if part.kind == "conflict"]

    def text(self, choices: Mapping[int, str] | None = None) -> str:
        """Return the merged text; `choices` names a side for each conflict by its number.

        A conflict without a choice is resolved as mine.
        """
        chosen = choices or {}
        said = []
        number = 0
        for part in self.parts:
            said.append(part.text(chosen.get(number, "mine")))
            number += part.kind == "conflict"
        return "".join(said)


def merge(base: str, mine: str, theirs: str) -> Merge:
    """Merge two changes of `base` by lines, and inside a line by words."""
    parts = []
    for part in _merged(lines_of(base), lines_of(mine), lines_of(theirs)):
        parts.append(_by_words(part) if part.kind == "conflict" else part)
    return Merge(tuple(parts))


def _by_words(part: Part) -> Part:
    """Return a conflict of lines as merged if different words changed, otherwise unchanged."""
    sides = [words_of(text) for text in (part.base, part.mine, part.theirs)]
    words = _merged(*sides)
    if any(one.kind == "conflict" for one in words):
        return part
    merged = "".join(one.merged for one in words)
    return Part("merged", part.base, part.mine, part.theirs, merged)


def _merged(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[Part]:
    """Return the parts of two changes of `base`; changes that touch form one hunk."""
    ours, others = edits(base, mine), edits(base, theirs)
    parts: list[Part] = []
    at = 0
    for lo, hi in _hunks(base, [*ours, *others]):
        parts += _unchanged(base, at, lo)
        sides = _side(base, mine, ours, lo, hi), _side(base, theirs, others, lo, hi)
        parts.append(_hunk("".join(base[lo:hi]), *sides))
        at = hi
    return parts + _unchanged(base, at, len(base))


def _unchanged(base: Sequence[str], begin: int, end: int) -> list[Part]:
    text = "".join(base[begin:end])
    return [Part("same", text, text, text, text)] if text else []


def _hunk(base: str, mine: str, theirs: str) -> Part:
    """Return a hunk that one side changed, or both changed in the same way or differently."""
    if mine == theirs:
        return Part("agreed", base, mine, theirs, mine)
    if theirs == base:
        return Part("mine", base, mine, theirs, mine)
    if mine == base:
        return Part("theirs", base, mine, theirs, theirs)
    return Part("conflict", base, mine, theirs)


def _hunks(base: Sequence[str], changes: list[_Edit]) -> list[tuple[int, int]]:
    """Return the changed ranges of the base, with touching changes joined."""
    hunks: list[tuple[int, int]] = []
    for a, b, _c, _d in sorted(changes):
        if hunks and _touches(base, hunks[-1][1], a):
            hunks[-1] = (hunks[-1][0], max(hunks[-1][1], b))
        else:
            hunks.append((a, b))
    return hunks


def _touches(base: Sequence[str], end: int, begin: int) -> bool:
    """Whether two changes belong together, because at most spaces of one line are between them.

    “5 euro” is one statement, so changing it to “6 euro” and to “5 dollars” is a conflict.
    """
    between = "".join(base[end:begin])
    return begin <= end or not ("\n" in between or between.strip())


def _side(base: Sequence[str], side: Sequence[str], changes: list[_Edit], lo: int, hi: int) -> str:
    """Return one side's text for base[lo:hi]."""
    inside = [edit for edit in changes if lo <= edit[0] and edit[1] <= hi]
    if not inside:
        return "".join(base[lo:hi])
    first, last = inside[0], inside[-1]
    return "".join(side[first[2] - (first[0] - lo) : last[3] + (hi - last[1])])
