"""JSON values under keys with several parts, kept in the scratchpad of a token's agent.

People see and correct the values on Beacon's Scratchpad page, with their history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

# In a key, they separate parts or escape other characters.
_SPECIAL = frozenset("/%")


def key_of(parts: Sequence[str]) -> str:
    """Return the key of these parts: readable, and different for different parts.

    Slashes, and characters that Beacon removes from keys, become %-escapes.
    """
    return "/".join(_part(one) for one in parts)


def parts_of(key: str) -> tuple[str, ...]:
    """Return the parts of a key."""
    return tuple(unquote(one, errors="surrogatepass") for one in key.split("/"))


def _part(text: str) -> str:
    ends = {0, len(text) - 1}
    return "".join(
        char
        if char.isprintable() and char not in _SPECIAL and not (n in ends and char in " .")
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for n, char in enumerate(text)
    )


def dumped(value: Any) -> str:
    """Return a value as JSON that people can read, and that Beacon stores without a change."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return "".join(
        char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
    )


def loaded(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if a person has broken the JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def words_in(value: Any) -> Iterable[str]:
    """Yield the words of all texts in a value, in lower case."""
    if isinstance(value, str):
        for word in value.lower().split():
            yield word.strip(".,;:!?()[]{}\"'“”‘’")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from words_in(str(name))
            yield from words_in(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from words_in(one)
    elif value is not None:
        yield str(value).lower()
