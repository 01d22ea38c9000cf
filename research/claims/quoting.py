"""Find the exact place of a quote in a stored text, ignoring differences in typography.

Data flow: stored text -> `Folded`, its normalized letters, each with its original place -> `find`
returns the span in the stored text -> `around` returns the words before and after it.

It ignores whitespace, line endings, case, kinds of quote marks and dashes, ligatures, full-width
letters, composed or separate accents, soft hyphens, and Markdown emphasis. All other differences
count.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property

from beacon_site.text.cleaning import normal_form, one_line, width

MIN_QUOTE = 12  # shorter quotes prove nothing
CONTEXT = 160  # characters shown before and after a quote

_ONE_KIND = str.maketrans("“”„«»‘’‚‛′″‐‑‒–—―−", '"""""\'\'\'\'' + "'\"" + "-------")
# Invisible characters and Markdown emphasis.
_UNSEEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff*_`"
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u093c\u094d\u09bc\u1160-\u11ff\u20d0-\u20ff\u3099\u309a"
_PIECES = re.compile(
    rf"(?P<gap>\s+)|(?P<unseen>[{_UNSEEN}]+)|(?P<plain>[!-)+-^a-~]+(?![{_MARKS}]))"
    rf"|(?P<other>[^\x00-\x7f\s{_UNSEEN}]+)|(?P<marked>.[{_MARKS}]*)",
    re.DOTALL,
)
_CLUSTER = re.compile(rf".[{_MARKS}]*", re.DOTALL)


class NormalizedText:
    """A normalized text to find quotes in. Maps each letter to its place in the stored text."""

    def __init__(self, stored: str) -> None:
        self.stored = stored

    @cached_property
    def _made(self) -> tuple[str, array[int]]:
        said: list[str] = []
        places: array[int] = array("I")
        is_gap = True  # so leading whitespace is left out
        for piece in _PIECES.finditer(self.stored):
            kind, text, start = piece.lastgroup, piece.group(), piece.start()
            if kind == "unseen":
                continue
            if kind == "gap":
                if not is_gap:
                    said.append(" ")
                    places.append(start)
                is_gap = True
                continue
            is_gap = False
            if kind == "plain":
                said.append(text.lower())
                places.extend(range(start, start + len(text)))
                continue
            for place, folded in _clusters(self.stored, start, piece.end(), text):
                said.append(folded)
                places.extend(place)
        return "".join(said), places

    @property
    def text(self) -> str:
        return self._made[0].rstrip()

    def find(self, quote: str) -> slice | None:
        """Return where `quote` occurs word for word, or None if it is missing or too short.

        Words and numbers must be whole: “costs 1” isn't found in “costs 1.5” or “costs 12”.
        """
        value = fold(quote)
        if len(one_line(quote)) < MIN_QUOTE and width(value) < MIN_QUOTE:
            return None
        return self.find_folded(value)

    def find_folded(self, value: str) -> slice | None:
        """Like `find`, for words that are already folded and long enough."""
        text, places = self._made
        at = text.find(value)
        while at >= 0:
            if _is_whole(text, at, at + len(value)):
                last = places[at + len(value) - 1]
                return slice(places[at], self._end_of(last))
            at = text.find(value, at + 1)
        return None

    def _end_of(self, place: int) -> int:
        """Return where the character at a place of the stored text ends, including accents."""
        cluster = _CLUSTER.match(self.stored, place)
        return cluster.end() if cluster else place + 1


def _clusters(stored: str, start: int, end: int, text: str) -> Iterator[tuple[Iterable[int], str]]:
    """Yield characters that aren't plain ASCII in normalized form, with their stored places."""
    folded = _as_compared(text)
    if len(folded) == len(text):
        yield range(start, end), folded
        return
    for cluster in _CLUSTER.finditer(stored, start, end):
        folded = _as_compared(cluster.group())
        yield [cluster.start()] * len(folded), folded


def _as_compared(text: str) -> str:
    # A compatibility form may contain spaces that the character itself doesn't have.
    return "".join(normal_form(text).casefold().translate(_ONE_KIND).split())


def fold(text: str) -> str:
    """Normalize words: one line, one kind of quote mark and dash, case folded."""
    return NormalizedText(text).text


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return True if a span begins and ends between words, and not inside a number."""
    before, first = text[start - 1 : start], text[start]
    last, behind = text[end - 1], text[end : end + 1]
    if _belong(before, first) or _belong(last, behind):
        return False
    if last.isdigit() and behind in (".", ",") and behind and text[end + 1 : end + 2].isdigit():
        return False
    is_inside = before in (".", ",") and bool(before) and text[start - 2 : start - 1].isdigit()
    return not (first.isdigit() and is_inside and start >= 2)


def _belong(left: str, right: str) -> bool:
    """Whether two adjacent characters belong to one word or number. A wide one is a separate word."""
    if not left or not right or not (left.isalnum() and right.isalnum()):
        return False
    if left.isdigit() and right.isdigit():
        return True
    return not (_is_wide(left) or _is_wide(right))


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def around(stored: str, span: slice) -> tuple[str, str]:
    """Return the words before and after a span, each on one line and cut between words."""
    before = stored[max(0, span.start - CONTEXT) : span.start]
    behind = stored[span.stop : span.stop + CONTEXT]
    if span.start > CONTEXT:
        head = re.search(r"\s", before)
        before = "…" + (before[head.end() :] if head else before)
    if span.stop + CONTEXT < len(stored):
        tail = re.search(r"\s\S*$", behind)
        behind = (behind[: tail.start()] if tail else behind) + "…"
    return _edge(before), _edge(behind)


def _edge(text: str) -> str:
    """Return text on one line that keeps a space at either end, so words stay apart."""
    return re.sub(r"\s+", " ", text)
