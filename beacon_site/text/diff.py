"""Diffs of two texts, by lines and by the changed words inside them, and merges of two changes.

Data flow: two texts -> lines -> pairs of equal lines -> similar lines between them paired
-> rows, each with its pieces.  No text is lost: `before(rows)` and `after(rows)` return both texts
exactly.  The work is limited to MAX_WORK; whatever is left then is shown as removed and added.
(`difflib.HtmlDiff` took 33 s for a rewritten text of 15 KB.)

A merge: base, mine, theirs -> lines -> changes of each side -> hunks of changes that touch -> one
side's change, the same change, words merged inside the lines, or a conflict.  No word of either side
is lost: a conflict keeps base, mine and theirs, and `Merge.text` accepts a choice.
(`merge3` is GPL and `three-merge` hasn't changed since 2020, so this is our own code.)
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from beacon_site.text.cleaning import plain_lines

MAX_WORK = 500_000  # comparisons of one diff, of lines, words and pairs together
SMALL = 10_000  # cells up to which difflib searches for the longest common runs
ALIKE = 0.4  # share of common words above which a line is changed, not replaced
MAX_WORDS = 4_000  # of a line; a longer one is shown as removed and added
CONTEXT = 1  # unchanged lines shown on either side of a change

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# A number with its parts (16.4), one East Asian character, a word, white space, any other character.
_WORD = re.compile(
    r"\d+(?:[.,:]\d+)+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    r"|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\s+|\W"
)
_UNSEEN = {"\n": "↵", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: `kind` is same, old (only before) or new (only after)."""

    kind: str
    text: str

    @property
    def shown(self) -> str:
        """Return the text for a page, without its line break unless that changed."""
        if self.kind == "same":
            return self.text.rstrip("\r\n")
        if self.text.strip("\r\n\t "):
            return self.text.rstrip("\r\n")
        return "".join(_UNSEEN.get(sign, sign) for sign in self.text)


@dataclass(frozen=True, slots=True)
class Row:
    """A line, or a pair of lines: `kind` is same, changed, removed, added, or gap.

    `old` and `new` are its line numbers before and after, from 1, or 0 if it isn't there.  A gap
    (see `folded`) replaces `hidden` unchanged lines.
    """

    kind: str
    pieces: tuple[Piece, ...] = ()
    old: int = 0
    new: int = 0
    hidden: int = 0

    @property
    def is_blank(self) -> bool:
        """Return True if it is blank before and after."""
        return not any(piece.text.strip() for piece in self.pieces)

    @property
    def is_empty_line(self) -> bool:
        """Return True if it is an added or removed empty line, so that only its sign is visible."""
        only = self.kind in ("removed", "added") and len(self.pieces) == 1
        return only and not self.pieces[0].text.strip("\r\n")

    @property
    def before(self) -> list[Piece]:
        """Return the pieces of the line as it was."""
        return [piece for piece in self.pieces if piece.kind != "new"]

    @property
    def after(self) -> list[Piece]:
        """Return the pieces of the line as it is now."""
        return [piece for piece in self.pieces if piece.kind != "old"]


@dataclass(slots=True)
class _DiffBudget:
    """The work left for one diff."""

    left: int = MAX_WORK

    def spend(self, cost: int) -> bool:
        """Subtract `cost`; False, without subtracting, if less is left."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


def diff(before: str, after: str) -> list[Row]:
    """Return both texts as rows, in order, within the limits described in the module."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    work = _DiffBudget()
    rows: list[Row] = []
    for is_same, a, b, c, d in _stretches(old, new, work):
        if is_same:
            numbers = zip(range(a, b), range(c, d), strict=True)
            rows += [Row("same", (Piece("same", old[i]),), i + 1, j + 1) for i, j in numbers]
        else:
            rows += _between(old, new, (a, b, c, d), work)
    return rows


def plain_diff(before: str, after: str) -> list[Row]:
    """Return the rows of two Markdown texts without their marks, unless that would hide a change."""
    rows, exact = diff(plain_lines(before), plain_lines(after)), diff(before, after)
    changes, exactly = (sum(row.kind != "same" for row in one) for one in (rows, exact))
    return rows if changes >= exactly else exact


def before(rows: Iterable[Row]) -> str:
    """Return the first of the two texts."""
    return "".join(piece.text for row in rows for piece in row.before)


def after(rows: Iterable[Row]) -> str:
    """Return the second of the two texts."""
    return "".join(piece.text for row in rows for piece in row.after)


def word_pieces(old: str, new: str) -> tuple[Piece, ...]:
    """Return two sentences as one line of pieces, with the words that changed.

    If they have little in common, the old one is followed by the new one.
    """
    left, right = _WORD.findall(old), _WORD.findall(new)
    bags = _bag(left), _bag(right)
    if old != new and _likeness(*bags, bags[0].total() + bags[1].total()) < ALIKE:
        return tuple(Piece(kind, text) for kind, text in (("old", old), ("new", new)) if text)
    return _pieces(left, right, _DiffBudget())


def edits(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return where two lists of lines or words differ: old[a:b] became new[c:d]."""
    found = _stretches(old, new, _DiffBudget())
    return [(a, b, c, d) for is_same, a, b, c, d in found if not is_same]


def lines_of(text: str) -> list[str]:
    """Return the text's lines with their breaks; joined, they are the text."""
    return _LINE.findall(text)


def words_of(text: str) -> list[str]:
    """Return the text's words, other characters and spaces; joined, they are the text."""
    return _WORD.findall(text)


def folded(rows: Sequence[Row], *, context: int = CONTEXT) -> list[Row]:
    """Return the rows with gaps for long unchanged runs, except `context` lines around each change.

    Blank lines don't count as context.  A gap hides at least two lines.
    """
    kept = _near_a_change(rows, context) | _near_a_change(rows, context, backwards=True)
    shown: list[Row] = []
    hidden: list[Row] = []
    for place, row in enumerate([*rows, Row("end")]):
        if row.kind == "same" and place not in kept:
            hidden.append(row)
            continue
        telling = sum(not one.is_blank for one in hidden)
        shown += [Row("gap", hidden=telling)] if telling > 1 else hidden
        hidden = []
        shown.append(row)
    return shown[:-1]


def sided(rows: Iterable[Row]) -> list[tuple[Row | None, Row | None]]:
    """Return the rows as two columns, with removed lines beside the added ones that replace them.

    An unchanged or changed row, and a gap, is on both sides.
    """
    columns: list[tuple[Row | None, Row | None]] = []
    removed: list[Row] = []
    added: list[Row] = []
    for row in [*rows, Row("end")]:
        if row.kind in ("removed", "added"):
            (removed if row.kind == "removed" else added).append(row)
            continue
        columns += itertools.zip_longest(removed, added)
        removed, added = [], []
        columns.append((row, row))
    return columns[:-1]


def _near_a_change(rows: Sequence[Row], context: int, *, backwards: bool = False) -> set[int]:
    """Return the indexes of the rows within `context` lines after (before) a change."""
    places = range(len(rows) - 1, -1, -1) if backwards else range(len(rows))
    kept: set[int] = set()
    left = 0
    for place in places:
        if rows[place].kind != "same":
            left = context
        elif left > 0:
            kept.add(place)
            left -= not rows[place].is_blank
    return kept


# --- equal lines or words -----------------------------------------------------------------------------

_Stretch = tuple[bool, int, int, int, int]


def _stretches(old: Sequence[str], new: Sequence[str], work: _DiffBudget) -> Iterator[_Stretch]:
    """Yield the equal and the different stretches, in order: old[a:b] and new[c:d]."""
    a = c = 0
    for i, j, size in _runs(sorted(_same(old, new, work))):
        if a < i or c < j:
            yield False, a, i, c, j
        yield True, i, i + size, j, j + size
        a, c = i + size, j + size
    if a < len(old) or c < len(new):
        yield False, a, len(old), c, len(new)


def _runs(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join consecutive pairs into runs, each with its start and length."""
    begin: tuple[int, int] | None = None
    size = 0
    for i, j in pairs:
        if begin is not None and (i, j) == (begin[0] + size, begin[1] + size):
            size += 1
            continue
        if begin is not None:
            yield (*begin, size)
        begin, size = (i, j), 1
    if begin is not None:
        yield (*begin, size)


def _same(old: Sequence[str], new: Sequence[str], work: _DiffBudget) -> list[tuple[int, int]]:
    """Return the index pairs of equal items, both ascending.

    Common beginnings and ends come first.  If little is left, difflib compares it.  Otherwise items
    that are unique on both sides split the rest, and each part is compared in turn.
    """
    pairs: list[tuple[int, int]] = []
    parts = [(0, len(old), 0, len(new))]
    while parts:
        a, b, c, d = parts.pop()
        while a < b and c < d and old[a] == new[c]:
            pairs.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            pairs.append((b, d))
        if a == b or c == d:
            continue
        if (b - a) * (d - c) <= SMALL and work.spend((b - a) * (d - c)):
            matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
            pairs += [
                (a + i + n, c + j + n)
                for i, j, size in matcher.get_matching_blocks()
                for n in range(size)
            ]
        elif work.spend(b - a + d - c):
            parts += _parted(old, new, (a, b, c, d), pairs)
    return pairs


def _parted(
    old: Sequence[str],
    new: Sequence[str],
    part: tuple[int, int, int, int],
    pairs: list[tuple[int, int]],
) -> list[tuple[int, int, int, int]]:
    """Split old[a:b] and new[c:d] at items that are unique on both sides, if there are any."""
    a, b, c, d = part
    anchors = _rising(_once_in_both(old[a:b], new[c:d]))
    results = []
    for i, j in anchors:
        pairs.append((a + i, c + j))
    if anchors:
        ends = [(-1, -1), *anchors, (b - a, d - c)]
        for (i, j), (k, m) in itertools.pairwise(ends):
            results.append((a + i + 1, a + k, c + j + 1, c + m))
    return results


def _once_in_both(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    counts, others = Counter(old), Counter(new)
    place = {text: j for j, text in enumerate(new)}
    return [
        (i, place[text])
        for i, text in enumerate(old)
        if counts[text] == 1 and others[text] == 1 and text.strip()
    ]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs whose second indexes ascend like the first."""
    tails: list[int] = []  # the smallest second index that ends a subsequence of each length
    at: list[int] = []  # the pair with that index
    behind: list[int] = []  # the pair before each pair, or -1
    for number, (_i, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        behind.append(at[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        at[length : length + 1] = [number]
    chosen = []
    number = at[-1] if at else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = behind[number]
    return chosen[::-1]


# --- different lines --------------------------------------------------------------------------------


def _between(
    old: Sequence[str], new: Sequence[str], part: tuple[int, int, int, int], work: _DiffBudget
) -> Iterator[Row]:
    """Yield the rows of different lines: similar pairs, otherwise removed, then added lines."""
    a, b, c, d = part
    left: list[list[str]] = []
    right: list[list[str]] = []
    if (
        0 < 2 * (b - a) * (d - c) <= work.left
    ):  # otherwise nothing can be paired, and no words are needed
        left = [_WORD.findall(line) for line in old[a:b]]
        right = [_WORD.findall(line) for line in new[c:d]]
    i = j = 0
    for k, m in [*_similar_lines(left, right, work), (b - a, d - c)]:
        for n in range(i, k):
            yield Row("removed", (Piece("old", old[a + n]),), old=a + n + 1)
        for n in range(j, m):
            yield Row("added", (Piece("new", new[c + n]),), new=c + n + 1)
        if k < b - a and m < d - c:
            yield Row("changed", _pieces(left[k], right[m], work), a + k + 1, c + m + 1)
        i, j = k + 1, m + 1


def _similar_lines(
    left: Sequence[Sequence[str]], right: Sequence[Sequence[str]], work: _DiffBudget
) -> list[tuple[int, int]]:
    """Return the index pairs of similar lines, both ascending, with the highest total similarity."""
    total = sum(map(len, left)) * len(right) + sum(map(len, right)) * len(left)
    longest = max(map(len, [*left, *right]), default=0)
    if not left or not right or longest > MAX_WORDS or not work.spend(total):
        return []
    bags = [_bag(words) for words in left], [_bag(words) for words in right]
    best = [[0.0] * (len(right) + 1) for _row in range(len(left) + 1)]
    others = [(bag, bag.total()) for bag in bags[1]]
    likeness = [
        [
            _likeness(one, other, total + more)
            if 2 * min(total, more) >= ALIKE * (total + more)
            else 0.0  # lengths so different that the similarity can't reach ALIKE
            for other, more in others
        ]
        for one, total in [(bag, bag.total()) for bag in bags[0]]
    ]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            paired = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= ALIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def _bag(words: Sequence[str]) -> Counter[str]:
    """Return a line's words, or its other characters if it has no letters or digits."""
    return Counter([word for word in words if word[0].isalnum()]) or Counter(words)


def _likeness(one: Counter[str], other: Counter[str], total: int) -> float:
    """Return the share of common words of two lines, 0 to 1; `total` is the number of words of both."""
    shared = one.keys() & other.keys()
    return 2 * sum(min(one[word], other[word]) for word in shared) / total if shared else 0.0


def _pieces(old: Sequence[str], new: Sequence[str], work: _DiffBudget) -> tuple[Piece, ...]:
    """Return the words of two lines as pieces; white space between two changes belongs to them."""
    pieces: list[Piece] = []
    was: list[str] = []
    became: list[str] = []
    for is_same, a, b, c, d in [*_stretches(old, new, work), (True, 0, 0, 0, 0)]:
        text = "".join(old[a:b])
        if not is_same:
            was.append(text)
            became.append("".join(new[c:d]))
        elif text and not text.strip() and was and b < len(old) and d < len(new):
            was.append(text)
            became.append(text)
        else:
            pieces += [Piece("old", "".join(was))] if any(was) else []
            pieces += [Piece("new", "".join(became))] if any(became) else []
            pieces += [Piece("same", text)] if text else []
            was, became = [], []
    return tuple(pieces)


_Edit = tuple[int, int, int, int]


_EMPHASIS = re.compile(r"(\*\*|__|(?<![\w*])[*_])(?=\S)([^*_\n]+)(?<=\S)\1(?![\w*])")


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

    @property
    def shown(self) -> Part:
        """Return it without the marks of bold and italic text, unless the sides differ only in them."""
        base, mine, theirs = (
            _EMPHASIS.sub(r"\2", text) for text in (self.base, self.mine, self.theirs)
        )
        is_same = len({base, mine, theirs}) == len({self.base, self.mine, self.theirs})
        return Part(self.kind, base, mine, theirs) if is_same else self

    @property
    def mine_marked(self) -> list[Piece]:
        """Return my side; its pieces of kind `new` aren't in the base."""
        return [piece for piece in word_pieces(self.base, self.mine) if piece.kind != "old"]

    @property
    def theirs_marked(self) -> list[Piece]:
        """Return their side; its pieces of kind `new` aren't in the base."""
        return [piece for piece in word_pieces(self.base, self.theirs) if piece.kind != "old"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of two changes of one text, as parts in order."""

    parts: tuple[Part, ...]

    @property
    def conflicts(self) -> list[Part]:
        """Return the parts in which both sides changed the same words."""
        return [part for part in self.parts if part.kind == "conflict"]

    def hunks(self, chosen: Mapping[int, str]) -> list[tuple[int, Part, str]]:
        """Return each place that both changed, with its number and the selected side."""
        return [(n, part, chosen.get(n, "mine")) for n, part in enumerate(self.conflicts)]

    def text(self, choices: Mapping[int, str] | None = None) -> str:
        """Return the merged text; `choices` names a side for each conflict by its number.

        A conflict without a choice is resolved as mine.
        """
        chosen = choices or {}
        parts = []
        number = 0
        for part in self.parts:
            parts.append(part.text(chosen.get(number, "mine")))
            number += part.kind == "conflict"
        return "".join(parts)


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
    if any(word.kind == "conflict" for word in words):
        return part
    merged = "".join(word.merged for word in words)
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
