"""Changing what stands in a search field: chips and facets edit the query, nothing else of it.

What was typed stays as it was typed, so that a word or an operator nobody knows is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_VALUE = r"(?:\"[^\"]*\"|[^\s,\"]+)"
_TOKEN = re.compile(
    rf"(?P<name>[A-Za-z]+):(?P<values>{_VALUE}(?:,{_VALUE})*)"
    rf"|-[A-Za-z]+:{_VALUE}(?:,{_VALUE})*"
    r"|-?\"[^\"]*\""
    r"|\S+"
)
_NEEDS_QUOTES = re.compile(r"[\s,\"]")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    field: str = ""  # of an operator that is not negated
    values: tuple[str, ...] = ()


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(found.group(), found["name"].casefold(), _split(found["values"]))
        if found["name"]
        else _Token(found.group())
        for found in _TOKEN.finditer(text)
    ]


def _split(values: str) -> tuple[str, ...]:
    return tuple(value.strip('"') for value in re.findall(_VALUE, values))


def _written(field: str, values: Iterable[str]) -> str:
    quoted = (
        '"{}"'.format(value.replace('"', "")) if _NEEDS_QUOTES.search(value) else value
        for value in values
    )
    return f"{field}:{','.join(quoted)}"


def values_of(text: str, field: str) -> tuple[str, ...]:
    """Return the values that the text asks of an operator, negated ones left out."""
    found = (value for token in _tokens(text) if token.field == field for value in token.values)
    return tuple(dict.fromkeys(found))


def with_values(text: str, field: str, values: Iterable[str]) -> str:
    """Return the text with one operator in front in place of all of this field."""
    rest = [token.text for token in _tokens(text) if token.field != field]
    wanted = list(dict.fromkeys(values))
    return " ".join([_written(field, wanted), *rest] if wanted else rest)


def toggled(text: str, field: str, value: str) -> str:
    """Return the text with the value asked for as well, or no longer if it was."""
    now = values_of(text, field)
    wanted = [one for one in now if one != value] if value in now else [*now, value]
    return with_values(text, field, wanted)


def with_choice(text: str, field: str, value: str, among: Collection[str]) -> str:
    """Return the text with this one of the values `among`; "" takes them all out."""
    parts = [_written(field, [value])] if value else []
    for token in _tokens(text):
        kept = [one for one in token.values if one not in among]
        if token.field != field or len(kept) == len(token.values):
            parts.append(token.text)
        elif kept:
            parts.append(_written(field, kept))
    return " ".join(parts)
