"""A made corpus of memories for the benchmarks, and questions to it: always the same ones.

Each memory is two to four runs of words from different real texts, 20 to 60 words in all, so that
words are as frequent as in real text.  The texts are the doc strings and comments of Python's own
library; `--texts DIR` takes .txt, .md and .rst files below a folder instead.
"""

from __future__ import annotations

import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_SAID = re.compile(r'"""(.+?)"""|((?:^[ \t]*#[^\n]*\n)+)', re.DOTALL | re.MULTILINE)


def pool_of(folder: Path | None) -> list[list[str]]:
    """Return real texts as lists of words."""
    found = (text.split() for text in (_texts_below(folder) if folder else _own_texts()))
    pool = [words for words in found if len(words) >= 8]
    if not pool:
        raise SystemExit(f"no text of eight words below {folder}")
    return pool


def memories(pool: list[list[str]], size: int) -> list[str]:
    """Return `size` memories spliced from the pool."""
    chance = random.Random(11)
    made = []
    for _number in range(size):
        parts: list[str] = []
        wanted = chance.randint(20, 60)
        while len(parts) < wanted:
            source, run = chance.choice(pool), chance.randint(5, 20)
            start = chance.randrange(max(1, len(source) - run))
            parts += source[start : start + run]
        made.append(" ".join(parts[:wanted]))
    return made


def questions(texts: list[str], words: int, count: int) -> list[str]:
    """Return questions of so many different words each, all from one memory.

    Plain words only: a `-` or `:` is an operator to one engine and nothing to another.
    """
    chance = random.Random(100 + words)
    asked = []
    while len(asked) < count:
        said = chance.choice(texts).split()
        known = sorted({word for word in said if len(word) > 3 and word.isalpha()})
        if len(known) >= words:
            asked.append(" ".join(chance.sample(known, words)))
    return asked


def _own_texts() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    for path in files:
        for match in _SAID.finditer(path.read_text(errors="replace")):
            yield re.sub(r"[^\w'+.-]+", " ", match[1] or match[2])


def _texts_below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".txt", ".md", ".rst"):
            yield from path.read_text(errors="replace").split("\n\n")
