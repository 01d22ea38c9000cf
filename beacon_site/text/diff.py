"""Two texts as one diff: lines held against each other, and inside them the words that changed.

Data flow: two texts -> lines -> pairs of equal lines -> what lies between them paired by likeness
-> rows, each with its pieces.  No text is ever cut: `before(rows)` and `after(rows)` give back both
texts to the letter.  What would take long is told more coarsely instead: all work is counted
against MOST_WORK, and what is left when that is spent stands as removed and added whole.
(`difflib.HtmlDiff` took 33 s on a rewritten text of 15 KB; `reliability.md` 1.8.)
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_WORK = 500_000  # comparisons of one diff, of lines, words and pairs together
SMALL = 10_000  # cells up to which difflib looks for the longest common runs
ALIKE = 0.4  # share of common words from which a line counts as changed, not as replaced
MOST_WORDS = 4_000  # of a line; a longer one is told as removed and added
CONTEXT = 1  # unchanged lines shown on either side of a change

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# A number with its parts (16.4), one East Asian character, a word, white space, any other sign.
_WORD = re.compile(
    r"\d+(?:[.,:]\d+)+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    r"|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\s+|\W"
)
_UNSEEN = {"\n": "↵", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line: `kind` is same, old (only before) or new (only after)."""

    kind: str
    text: str

    @property
    def shown(self) -> str:
        """Return the text for a page: without its line break, unless that is what changed."""
        if self.kind == "same":
            return self.text.rstrip("\r\n")
        if self.text.strip("\r\n\t "):
            return self.text.rstrip("\r\n")
        return "".join(_UNSEEN.get(sign, sign) for sign in self.text)


@dataclass(frozen=True, slots=True)
class Row:
    """A line, or a pair of lines: `kind` is same, changed, removed, added, or gap.

    `old` and `new` are its numbers before and after, counted from 1, and 0 where it is not.  A gap
    (see `folded`) stands for `hidden` unchanged lines.
    """

    kind: str
    pieces: tuple[Piece, ...] = ()
    old: int = 0
    new: int = 0
    hidden: int = 0

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to read in it, before or after."""
        return not any(piece.text.strip() for piece in self.pieces)

    @property
    def is_empty_line(self) -> bool:
        """Whether it is an empty line that was added or removed: its sign says all there is."""
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
class _Work:
    """What may still be spent on one diff."""

    left: int = MOST_WORK

    def spend(self, cost: int) -> bool:
        """Take `cost` off; False, and nothing is taken, where there is not so much left."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


def diff(before: str, after: str) -> list[Row]:
    """Return both texts as rows, in order; see the module for how far it looks."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    work = _Work()
    rows: list[Row] = []
    for is_same, a, b, c, d in _stretches(old, new, work):
        if is_same:
            numbers = zip(range(a, b), range(c, d), strict=True)
            rows += [Row("same", (Piece("same", old[i]),), i + 1, j + 1) for i, j in numbers]
        else:
            rows += _between(old, new, (a, b, c, d), work)
    return rows


def before(rows: Iterable[Row]) -> str:
    """Return the first of the two texts."""
    return "".join(piece.text for row in rows for piece in row.before)


def after(rows: Iterable[Row]) -> str:
    """Return the second of the two texts."""
    return "".join(piece.text for row in rows for piece in row.after)


def words(old: str, new: str) -> tuple[Piece, ...]:
    """Return two sentences as one line of pieces, with the words that changed.

    Where they have little in common the old one is told whole, then the new one.
    """
    left, right = _WORD.findall(old), _WORD.findall(new)
    bags = _bag(left), _bag(right)
    if old != new and _likeness(*bags, bags[0].total() + bags[1].total()) < ALIKE:
        return tuple(Piece(kind, text) for kind, text in (("old", old), ("new", new)) if text)
    return _pieces(left, right, _Work())


def edits(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return where two lists of lines or words differ: old[a:b] stands as new[c:d]."""
    found = _stretches(old, new, _Work())
    return [(a, b, c, d) for is_same, a, b, c, d in found if not is_same]


def lines_of(text: str) -> list[str]:
    """Return the text's lines, each with its break; joined they are the text again."""
    return _LINE.findall(text)


def words_of(text: str) -> list[str]:
    """Return the text's words, signs and spaces; joined they are the text again."""
    return _WORD.findall(text)


def folded(rows: Sequence[Row], *, context: int = CONTEXT) -> list[Row]:
    """Return the rows with long unchanged runs as gaps: `context` lines stay beside each change.

    Blank lines do not count as context.  A run that hides less than two lines stays as it is.
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
    """Return the rows as two columns: what was removed stands beside what came in its place.

    An unchanged or changed row, and a gap, stands on either side.
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
    """Return the places of the rows that stand within `context` lines after (before) a change."""
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


# --- which lines (or words) are the same --------------------------------------------------------------

_Stretch = tuple[bool, int, int, int, int]


def _stretches(old: Sequence[str], new: Sequence[str], work: _Work) -> Iterator[_Stretch]:
    """Yield what is the same and what is not, in order: old[a:b] against new[c:d]."""
    a = c = 0
    for i, j, size in _runs(sorted(_same(old, new, work))):
        if a < i or c < j:
            yield False, a, i, c, j
        yield True, i, i + size, j, j + size
        a, c = i + size, j + size
    if a < len(old) or c < len(new):
        yield False, a, len(old), c, len(new)


def _runs(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join pairs that follow one another into runs: where each begins, and its length."""
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


def _same(old: Sequence[str], new: Sequence[str], work: _Work) -> list[tuple[int, int]]:
    """Return the places of what is the same in both, both rising.

    Common ends first; then difflib where little is left, else what stands once on either side
    parts the rest, and each part is looked at in turn.
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
    """Part old[a:b] and new[c:d] at what stands once in either; none where there is no such."""
    a, b, c, d = part
    anchors = _rising(_once_in_both(old[a:b], new[c:d]))
    found = []
    for i, j in anchors:
        pairs.append((a + i, c + j))
    if anchors:
        ends = [(-1, -1), *anchors, (b - a, d - c)]
        for (i, j), (k, m) in itertools.pairwise(ends):
            found.append((a + i + 1, a + k, c + j + 1, c + m))
    return found


def _once_in_both(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    counts, others = Counter(old), Counter(new)
    place = {text: j for j, text in enumerate(new)}
    return [
        (i, place[text])
        for i, text in enumerate(old)
        if counts[text] == 1 and others[text] == 1 and text.strip()
    ]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest choice of pairs whose second places rise as the first do."""
    tails: list[int] = []  # the least second place that ends a choice of each length
    at: list[int] = []  # which pair that is
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


# --- what is not the same ---------------------------------------------------------------------------


def _between(
    old: Sequence[str], new: Sequence[str], part: tuple[int, int, int, int], work: _Work
) -> Iterator[Row]:
    """Yield the rows of lines that differ: pairs that are alike, else removed, then added."""
    a, b, c, d = part
    left: list[list[str]] = []
    right: list[list[str]] = []
    if (
        0 < 2 * (b - a) * (d - c) <= work.left
    ):  # else nothing can be paired, and no words are needed
        left = [_WORD.findall(line) for line in old[a:b]]
        right = [_WORD.findall(line) for line in new[c:d]]
    i = j = 0
    for k, m in [*_alike(left, right, work), (b - a, d - c)]:
        for n in range(i, k):
            yield Row("removed", (Piece("old", old[a + n]),), old=a + n + 1)
        for n in range(j, m):
            yield Row("added", (Piece("new", new[c + n]),), new=c + n + 1)
        if k < b - a and m < d - c:
            yield Row("changed", _pieces(left[k], right[m], work), a + k + 1, c + m + 1)
        i, j = k + 1, m + 1


def _alike(
    left: Sequence[Sequence[str]], right: Sequence[Sequence[str]], work: _Work
) -> list[tuple[int, int]]:
    """Return which lines are versions of one another, both places rising, most alike in all."""
    total = sum(map(len, left)) * len(right) + sum(map(len, right)) * len(left)
    longest = max(map(len, [*left, *right]), default=0)
    if not left or not right or longest > MOST_WORDS or not work.spend(total):
        return []
    bags = [_bag(words) for words in left], [_bag(words) for words in right]
    best = [[0.0] * (len(right) + 1) for _row in range(len(left) + 1)]
    others = [(bag, bag.total()) for bag in bags[1]]
    likeness = [
        [
            _likeness(one, other, total + more)
            if 2 * min(total, more) >= ALIKE * (total + more)
            else 0.0  # of very different lengths: whatever they say, it cannot come to ALIKE
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
    """Return a line's words; of one without letters and digits, its signs."""
    return Counter([word for word in words if word[0].isalnum()]) or Counter(words)


def _likeness(one: Counter[str], other: Counter[str], total: int) -> float:
    """Return the share of words that two lines have in common, 0 to 1; `total` counts all of both."""
    shared = one.keys() & other.keys()
    return 2 * sum(min(one[word], other[word]) for word in shared) / total if shared else 0.0


def _pieces(old: Sequence[str], new: Sequence[str], work: _Work) -> tuple[Piece, ...]:
    """Return the words of two lines as one; white space between two changes goes with them."""
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
