"""Blame: the version of each line of a file, stored with every version.

Blame is a list of runs `[lines, version]` from the top. A moved line counts as new, and so do lines
that the bounded diff of a very large change can't match (`beacon_site.text.diff`). A restored
version brings its own blame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from beacon_site.text.diff import edits
from memory.core.file_format import lines_of

Runs = list[list[int]]


class BlamedFile(Protocol):
    """A file, or one version of it, with its blame."""

    content: str
    blame: Runs
    version: int


@dataclass(frozen=True, slots=True)
class BlameLine:
    """A line of a file, counted from 1, and its version."""

    number: int
    text: str
    version: int


def carried(blame: Sequence[Sequence[int]], old_text: str, new_text: str, version: int) -> Runs:
    """Return the blame of `new_text`, which is version `version` and follows `old_text`."""
    old, new = lines_of(old_text), lines_of(new_text)
    were = _versions(blame, len(old), max(1, version - 1))
    now: list[int] = []
    at = 0
    for a, b, _c, d in edits(old, new):
        now += were[at:a]
        now += [version] * (d - len(now))
        at = b
    now += were[at:]
    return _runs(now)


def lines_blamed(file: BlamedFile) -> list[BlameLine]:
    """Return the lines of a file with their versions."""
    lines = lines_of(file.content)
    versions = _versions(file.blame, len(lines), file.version)
    pairs = zip(lines, versions, strict=True)
    return [BlameLine(number, line, one) for number, (line, one) in enumerate(pairs, start=1)]


def _versions(blame: Sequence[Sequence[int]], count: int, otherwise: int) -> list[int]:
    """Return the version of each of `count` lines, with `otherwise` for lines outside the runs."""
    versions = [version for number, version in blame for _line in range(number)][:count]
    return versions + [otherwise] * (count - len(versions))


def _runs(versions: Iterable[int]) -> Runs:
    return [[len(list(same)), version] for version, same in groupby(versions)]
