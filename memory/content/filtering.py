"""Where words stand in a stored text, and the lines that hold all of them.

Words are looked for in any case, as they are or as the beginning of longer ones (a number as it is);
“words in quotes” must stand next to each other.  Only a line feed parts lines, so that whatever a line holds is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.recall.terms import is_unspaced

LONG_LINE = 1_000  # characters; of a longer one only what stands round the words is shown
ROUND = 200  # characters on each side
MOST_WORDS = 20
_PARTS = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]|(\S+)")


def patterns_of(q: str) -> list[re.Pattern[str]]:
    """Return what must be found, each quoted phrase and each other word once."""
    found = (phrase or word for phrase, word in _PARTS.findall(q))
    wanted = list(dict.fromkeys(part.strip('"“”„«»') for part in found))
    return [_pattern(part) for part in wanted if part.strip()][:MOST_WORDS]


def _pattern(words: str) -> re.Pattern[str]:
    said = r"\s+".join(map(re.escape, words.split()))
    first, last = words.strip()[:1], words.strip()[-1:]
    # Where words are not parted by spaces, one begins anywhere.
    begins = r"(?<![^\W_])" if first.isalnum() and not is_unspaced(first) else ""
    ends = r"(?!\d)" if last.isdigit() else ""
    return re.compile(f"{begins}{said}{ends}", re.IGNORECASE)


def place_of(text: str, q: str) -> int:
    """Return where the words begin: next to each other, else in one line, else any; -1 if nowhere."""
    whole = _pattern(q).search(text) if q.split() else None
    if whole is not None:
        return whole.start()
    patterns = patterns_of(q)
    at = 0
    for line in text.split("\n"):
        firsts = [pattern.search(line) for pattern in patterns]
        if patterns and all(firsts):
            return at + min(found.start() for found in firsts if found)
        at += len(line) + 1
    anywhere = [found.start() for pattern in patterns if (found := pattern.search(text))]
    return min(anywhere, default=-1)


def filtered(text: str, q: str, n: int, *, in_lines: bool) -> str:
    """Return the lines that hold all the words, at most n of them or of n characters in all."""
    patterns = patterns_of(q)
    kept: list[str] = []
    room = n
    for piece in _pieces(text, patterns):
        kept.append(piece if in_lines else piece[:room])
        room -= 1 if in_lines else len(piece) + 1
        if room <= 0:
            break
    return "\n".join(kept)


def _pieces(text: str, patterns: list[re.Pattern[str]]) -> Iterator[str]:
    if not patterns:
        return
    for line in text.split("\n"):
        if all(pattern.search(line) for pattern in patterns):
            if len(line) <= LONG_LINE:
                yield line
            else:
                yield from _windows(line, patterns)


def _windows(line: str, patterns: list[re.Pattern[str]]) -> Iterator[str]:
    """Yield what stands round the first word wherever the others stand near it."""
    end = 0
    for found in patterns[0].finditer(line):
        if found.start() < end:
            continue  # shown already
        start = _at_space(line, max(end, found.start() - ROUND))
        stop = min(len(line), found.end() + ROUND)
        stop = stop if stop == len(line) else max(line.rfind(" ", found.end(), stop), found.end())
        piece = line[start:stop]
        if all(pattern.search(piece) for pattern in patterns):
            end = stop
            yield piece.strip()


def _at_space(line: str, start: int) -> int:
    """Return the next beginning of a word, if there is one near."""
    if start == 0:
        return 0
    space = line.find(" ", start, start + ROUND // 2)
    return start if space < 0 else space + 1
