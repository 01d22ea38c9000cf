"""Placeholders such as {{ new }} in a text that a person wrote.

It isn't a programming language: a name is replaced by a text, once, and nothing is evaluated.
Anything else between braces stays as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


def names_in(text: str) -> list[str]:
    """Return what is between each pair of double braces, in order, each once."""
    return list(dict.fromkeys(found.strip() for found in _PLACEHOLDER.findall(text)))


def count_of(text: str) -> int:
    return len(_PLACEHOLDER.findall(text))


def has_open_braces(text: str) -> bool:
    """Return True if double braces are left without their pair."""
    rest = _PLACEHOLDER.sub("", text)
    return "{{" in rest or "}}" in rest


def alone(line: str) -> str:
    """Return the name of the placeholder that is alone on its line, or an empty text."""
    match = _PLACEHOLDER.fullmatch(line.strip())
    return match[1].strip() if match else ""


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each known name replaced. Placeholders in the values are just text."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1].strip(), found[0]), text)
