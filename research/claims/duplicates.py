"""Pages that repeat another page: wire copies and mirrors with small edits."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

from research.claims import values
from research.claims.terms import is_wide_text

# Runs of so many words (or wide characters) are compared.
SHINGLE = 5
WIDE_SHINGLE = 8
# At least this share of the smaller page's runs stands in the other one.
ALIKE = 0.6
# A short notice inside a long article isn't a copy of it.
SMALLEST_SHARE = 0.5
FEWEST_SHINGLES = 8
LONGEST = 60_000
_WORD = re.compile(r"\w+")


class Page(Protocol):
    """What is compared: a numbered page with its text, and its date if that is known."""

    @property
    def number(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def published_at(self) -> date | None: ...


def near_duplicates(
    pages: Sequence[Page], marks_of: Mapping[int, set[int]] | None = None
) -> dict[int, int]:
    """Return the number of each page that repeats another -> the number of the one it repeats.

    `marks_of` holds the shingles of those pages, by number, for which they were made before.

    The earliest is kept, by date and then by number; pages without a date come last.  A kept
    page is never itself a copy, so the answer needs no following.
    """
    kept: dict[int, set[int]] = {}
    titles: dict[int, Counter[tuple[str, str]]] = {}
    holding: defaultdict[int, list[int]] = defaultdict(list)
    copies: dict[int, int] = {}
    for page in sorted(pages, key=lambda page: (page.published_at or date.max, page.number)):
        marks = (marks_of or {}).get(page.number) or shingles(page.text)
        if len(marks) < FEWEST_SHINGLES:
            continue
        titles[page.number] = values.typed_values(getattr(page, "title", ""))
        original = _original(page.number, marks, kept, holding, titles)
        if original is not None:
            copies[page.number] = original
            continue
        kept[page.number] = marks
        for mark in marks:
            holding[mark].append(page.number)
    return copies


def _original(
    page: int,
    marks: set[int],
    kept: dict[int, set[int]],
    holding: dict[int, list[int]],
    titles: dict[int, Counter[tuple[str, str]]],
) -> int | None:
    shared: defaultdict[int, int] = defaultdict(int)
    for mark in marks:
        for number in holding.get(mark, ()):
            shared[number] += 1
    for number, count in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        small, large = sorted((len(marks), len(kept[number])))
        # "Announcing 1.97.1" isn't a copy of "Announcing 1.96.1": release posts are templates.
        if titles[page] and titles[number] and titles[page] != titles[number]:
            continue
        if count >= ALIKE * small and small >= SMALLEST_SHARE * large:
            return number
    return None


def shingles(text: str) -> set[int]:
    """Return a checksum of each run of words (or of wide characters) of a text."""
    words = _WORD.findall(text[:LONGEST].casefold())
    if is_wide_text(text[:2_000]):
        run = "".join(words)
        return {_checksum(run[n : n + WIDE_SHINGLE]) for n in range(len(run) - WIDE_SHINGLE + 1)}
    return {_checksum(" ".join(words[n : n + SHINGLE])) for n in range(len(words) - SHINGLE + 1)}


def _checksum(run: str) -> int:
    # Python's own hash of text differs from process to process; this one does not.
    return zlib.crc32(run.encode("utf-8", "surrogatepass"))
