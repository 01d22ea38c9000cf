"""Where words stand in a stored text, and the lines that hold all of them.

Words are looked for in any case, as they are or as the beginning of longer ones (a number as it is);
“words in quotes” must stand next to each other.  Only a line feed parts lines, so that whatever a line holds is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory.texts.terms import is_unspaced

LONG_LINE = 1_000  # characters; of a longer one only what stands round the words is shown
ROUND = 200  # characters on each side
MOST_WORDS = 20
_PARTS = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]|(\S+)")


@dataclass(frozen=True, slots=True)
class Words:
    """A word, or words next to each other, to be found in a text."""

    words: tuple[str, ...]  # folded
    pattern: re.Pattern[str]

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first place."""
        return self.pattern.search(text)


def patterns_of(q: str) -> list[Words]:
    """Return what must be found, each quoted phrase and each other word once."""
    found = (phrase or word for phrase, word in _PARTS.findall(q))
    wanted = list(dict.fromkeys(part.strip('"“”„«»') for part in found))
    return [_pattern(part) for part in wanted if part.strip()][:MOST_WORDS]


def _pattern(words: str) -> Words:
    said = r"\s+".join(map(re.escape, words.split()))
    first, last = words.strip()[:1], words.strip()[-1:]
    # Where words are not parted by spaces, one begins anywhere.
    begins = r"(?<![^\W_])" if first.isalnum() and not is_unspaced(first) else ""
    ends = r"(?!\d)" if last.isdigit() else ""
    pattern = re.compile(f"{begins}{said}{ends}", re.IGNORECASE)
    return Words(tuple(words.casefold().split()), pattern)


def place_of(text: str, q: str) -> int:
    """Return where the words begin: next to each other, else in one line, else any; -1 if nowhere."""
    patterns, folded_text, at = patterns_of(q), text.casefold(), 0
    known = [_is_in(folded_text, pattern) for pattern in patterns]
    if all(known):
        whole = _pattern(q).search(text) if patterns else None
        if whole is not None:
            return whole.start()
        for line, folded in _lines(text):
            firsts = _firsts(line, folded, patterns)
            if firsts:
                return at + min(firsts)
            at += len(line) + 1
    some = [pattern for pattern, is_known in zip(patterns, known, strict=True) if is_known]
    anywhere = [found.start() for pattern in some if (found := pattern.search(text))]
    return min(anywhere, default=-1)


def filtered(text: str, q: str, n: int, *, in_lines: bool) -> str:
    """Return the lines that hold all the words, at most n of them or of n characters in all."""
    patterns = patterns_of(q)
    if not patterns:
        return ""
    kept: list[str] = []
    room = n
    for piece in _pieces(text, patterns):
        kept.append(piece if in_lines else piece[:room])
        room -= 1 if in_lines else len(piece) + 1
        if room <= 0:
            break
    return "\n".join(kept)


def _pieces(text: str, patterns: list[Words]) -> Iterator[str]:
    folded = text.casefold()
    if not all(_is_in(folded, pattern) for pattern in patterns):
        return
    for line, folded_line in _lines(text):
        if not _firsts(line, folded_line, patterns):
            continue
        if len(line) <= LONG_LINE:
            yield line
        else:
            yield from _windows(line, patterns)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line, and it again in the case in which words are compared."""
    return zip(text.split("\n"), text.casefold().split("\n"), strict=True)


def _firsts(line: str, folded: str, patterns: list[Words]) -> list[int]:
    """Return where each of the words first stands in the line; nothing unless all of them do."""
    # What cannot be there is seen many times faster than a pattern would.
    if not all(_is_in(folded, pattern) for pattern in patterns):
        return []
    found = [pattern.search(line) for pattern in patterns]
    return [one.start() for one in found if one] if all(found) else []


def _is_in(folded: str, pattern: Words) -> bool:
    return all(word in folded for word in pattern.words)


def _windows(line: str, patterns: list[Words]) -> Iterator[str]:
    """Yield what stands round the first word wherever the others stand near it.

    A line may be all of eight million characters and a word stand in it a million times: what is
    asked of each place is no more than a comparison, unless all the others may be near.
    """
    others = [_Ahead(line, pattern) for pattern in patterns[1:]]
    end = reach = 0
    for found in patterns[0].pattern.finditer(line):
        if found.start() < end or found.end() + ROUND < reach:
            continue  # shown already, or another word stands further on
        start = _at_space(line, max(end, found.start() - ROUND))
        stop = min(len(line), found.end() + ROUND)
        stop = stop if stop == len(line) else max(line.rfind(" ", found.end(), stop), found.end())
        reach = max((other.end_from(start) for other in others), default=0)
        if reach <= stop:
            end = stop
            yield line[start:stop].strip()


@dataclass(slots=True)
class _Ahead:
    """Where words stand next in a line, for one who asks from ever further on."""

    line: str
    words: Words
    start: int = -1
    end: int = 0

    def end_from(self, place: int) -> int:
        """Return where the first of the words at or after `place` end; beyond reach for none."""
        if self.start < place:
            found = self.words.pattern.search(self.line, place)
            never = len(self.line) + ROUND + 1
            self.start, self.end = found.span() if found else (never, never)
        return self.end


def _at_space(line: str, start: int) -> int:
    """Return the next beginning of a word, if there is one near."""
    if start == 0:
        return 0
    space = line.find(" ", start, start + ROUND // 2)
    return start if space < 0 else space + 1
