"""Finding keys and passwords in text, so that they aren't stored, searched or sent to a model.

`secret_patterns.toml` has the shapes. A person who saves a secret is asked first. In text from
agents and web pages, it's replaced by its kind, such as "[removed: GitHub token]".

Cost: a text without any of the patterns' words takes one `in` test for each word, so a note of
4 KB takes about 0.4 ms (`python -m benchmarks.secrets`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_PATTERNS = Path(__file__).with_name("secret_patterns.toml")

_WORD = re.compile(r"[\w-]")
# A key of one provider can be an example in its documentation. These mark it as one.
_EXAMPLE = re.compile(
    r"example|sample|dummy|placeholder|redacted|changeme|change[-_]me|your[-_]|my[-_]?(?:secret|password|token|key)"
    r"|xxxx|\*\*\*\*|\.\.\.|…|abcdef|1234567890|0123456789",
    re.IGNORECASE,
)
_MIN_CHARACTERS = 6  # different ones in a secret; "ghp_xxxxxxxx" has fewer
# Bits for each character of a value given to a name such as PASSWORD. English words have 2 to 3.
_MIN_ENTROPY = 2.9
# Values that aren't secrets: variables, file paths, URLs, calls, types, and versions.
_NOT_A_VALUE = re.compile(
    r"\A[$%&]|\$\{|\$\(|\A(?:[./~]|https?:|file:|env[.:]|os\.|process\.)|\A[A-Za-z_.-]+\Z|\A[0-9.,:/-]+\Z|\A#|/\w+/"
)


class Shape(NamedTuple):
    name: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    is_assigned: bool
    is_folded: bool
    starts_inside: bool


class Secret(NamedTuple):
    """A secret in a text, from `start` to before `end`."""

    kind: str
    start: int
    end: int


@cache
def shapes() -> tuple[Shape, ...]:
    tables = tomllib.loads(_PATTERNS.read_text("utf-8"))["shape"]
    return tuple(
        Shape(
            one["name"],
            tuple(one["words"]),
            re.compile(one["pattern"]),
            one.get("assigned", False),
            one.get("folded", False),
            one.get("inside", False),
        )
        for one in tables
    )


def find(text: str) -> list[Secret]:
    """Return the secrets in `text` in order. They don't overlap."""
    folded = text.lower()
    if len(folded) != len(text):  # some letters have two when lowered
        folded = "".join(one.lower()[0] for one in text)
    found = sorted(
        (
            secret
            for shape in shapes()
            if any(word in folded for word in shape.words)
            for secret in _of_shape(shape, text, folded)
        ),
        key=lambda secret: (secret.start, -secret.end),
    )
    kept: list[Secret] = []
    for secret in found:
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def _of_shape(shape: Shape, text: str, folded: str) -> Iterator[Secret]:
    group = "secret" if "secret" in shape.pattern.groupindex else 0
    for match in shape.pattern.finditer(folded if shape.is_folded else text):
        start = match.start()
        # As part of the pattern, this test would make the search several times slower.
        if start and not shape.starts_inside and _WORD.match(text[start - 1]):
            continue
        value = text[match.start(group) : match.end(group)]
        if not (_looks_assigned(value) if shape.is_assigned else _looks_real(value)):
            continue
        yield Secret(shape.name, match.start(group), match.end(group))


def _looks_real(value: str) -> bool:
    return len(set(value)) >= _MIN_CHARACTERS and _EXAMPLE.search(value) is None


def _looks_assigned(value: str) -> bool:
    if not _looks_real(value) or _NOT_A_VALUE.search(value):
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= _MIN_ENTROPY


def mask(text: str, replacement: str = "[removed: {kind}]") -> tuple[str, list[str]]:
    """Return `text` with each secret replaced by its kind, and the kinds without duplicates."""
    secrets = find(text)
    if not secrets:
        return text, []
    parts, place = [], 0
    for secret in secrets:
        parts += [text[place : secret.start], replacement.format(kind=secret.kind)]
        place = secret.end
    return "".join([*parts, text[place:]]), list(dict.fromkeys(one.kind for one in secrets))


def mask_all(value: Any, *, keep: frozenset[str]) -> tuple[Any, list[str]]:
    """Return a JSON value with its texts masked, also in names of fields, and the kinds.

    Fields of the value itself that are named in `keep` stay, and `old_…` in the items of its lists
    (patches). Deeper ones are text that someone stores, even if they have such a name.
    """
    in_items = frozenset(name for name in keep if name.startswith("old"))
    kinds: list[str] = []

    def masked(one: Any, kept: frozenset[str] = frozenset()) -> Any:
        if isinstance(one, str):
            text, found = mask(one)
            kinds.extend(found)
            return text
        if isinstance(one, dict):
            return {masked(key): field(key, inner, kept) for key, inner in one.items()}
        return [masked(inner) for inner in one] if isinstance(one, list | tuple) else one

    def field(name: str, inner: Any, kept: frozenset[str]) -> Any:
        if name in kept:
            return inner
        if kept and isinstance(inner, list | tuple):
            return [masked(item, in_items if kept is keep else frozenset()) for item in inner]
        return masked(inner)

    return masked(value, keep), list(dict.fromkeys(kinds))
