"""Messages that rows can store without a language (a code and its parameters), and their numbers.

`gettext` and `ngettext` here are used like Django's, but what they return remembers the message and
its parameters, also through `%`, `+` and an exception. A `MessageField` or `MessagesField`
(`beacon_site/db/message_fields.py`) stores those, and gives the text in the reader's language. What is
done to the text otherwise (an f-string, `.join`, a slice) makes it an ordinary string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from django.utils import translation
from django.utils.formats import date_format, number_format

Stored = str | dict[str, Any]
CODE, PLURAL, COUNT, WITH, PARTS = "code", "plural", "n", "with", "parts"
KEYS = {CODE, PLURAL, COUNT, WITH, PARTS}
DECIMAL, DAY = "decimal", "day"
STARTS = tuple(json.dumps({key: ""})[:-3] for key in (CODE, PARTS))  # of what a column stores


class Message(str):
    """A text in the current language, with the form in which a row stores it."""

    stored: dict[str, Any]

    def __new__(cls, text: str, stored: dict[str, Any]) -> Message:
        message = super().__new__(cls, text)
        message.stored = stored
        return message

    def __getnewargs__(self) -> Any:
        return str.__str__(self), self.stored

    def __str__(self) -> str:
        return self  # so that an exception's message is still one

    def __mod__(self, given: Any) -> str:
        if not isinstance(given, Mapping):
            return super().__mod__(given)
        text = super().__mod__({name: _translated(value) for name, value in given.items()})
        if CODE not in self.stored:
            return text
        params = {name: _param(value) for name, value in given.items()}
        return Message(text, self.stored | {WITH: params})

    def __add__(self, other: str) -> str:
        return _added(self, other)

    def __radd__(self, other: str) -> str:
        return _added(other, self)


def gettext(message: str) -> str:
    return Message(translation.gettext(message), {CODE: message})


def ngettext(singular: str, plural: str, number: int) -> str:
    stored = {CODE: singular, PLURAL: plural, COUNT: number}
    return Message(translation.ngettext(singular, plural, number), stored)


def grouped(number: int) -> str:
    """Return 12345 as people of the current language write it: "12,345", in German "12.345"."""
    return number_format(number, force_grouping=True)


def as_column(text: Message) -> str:
    """Return what a `MessageField` stores for a message."""
    first = PARTS if PARTS in text.stored else CODE  # `from_column` recognizes it by its first key
    return json.dumps({first: text.stored[first]} | text.stored, ensure_ascii=False)


def stored(text: str) -> Stored:
    """Return what a row stores for a text: its code and parameters if it has any."""
    return text.stored if isinstance(text, Message) else text


def stored_in(value: Any) -> Any:
    """Return a JSON value with all its messages as a row stores them."""
    if isinstance(value, dict):
        return {name: stored_in(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [stored_in(one) for one in value]
    return stored(value) if isinstance(value, str) else value


def loaded_in(value: Any) -> Any:
    """Return a JSON value with the stored messages inside it in the current language."""
    if isinstance(value, dict):
        return {name: _loaded_in(one) for name, one in value.items()}
    return [_loaded_in(one) for one in value] if isinstance(value, list) else value


def _loaded_in(value: Any) -> Any:
    return loaded(value) if is_stored(value) else loaded_in(value)


def is_stored(value: Any) -> bool:
    """Return True if a JSON value has the form of a stored message."""
    if not isinstance(value, dict) or not value.keys() <= KEYS:
        return False
    return isinstance(value.get(CODE), str) or isinstance(value.get(PARTS), list)


def has_stored(value: Any) -> bool:
    """Return True if a JSON value has the form of a stored message, or contains one."""
    if isinstance(value, dict):
        return is_stored(value) or any(map(has_stored, value.values()))
    return isinstance(value, list) and any(map(has_stored, value))


def loaded(value: Any) -> str:
    """Return a stored text in the current language."""
    return Message(worded(value), value) if isinstance(value, dict) else str(value)


def from_column(text: str) -> str:
    """Return the text of a `MessageField` that was read by SQL, as the field itself does."""
    if not text.startswith(STARTS):
        return text
    try:
        return loaded(json.loads(text))
    except ValueError:  # a part of a message, cut by a query
        return text


def worded(value: Any) -> str:
    """Return the text of a stored message. One that no longer fits its parameters is shown as it is."""
    try:
        return _worded(value)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return str(value.get(CODE, ""))


def _worded(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    if PARTS in value:
        return "".join(map(_worded, value[PARTS]))
    message = str(value.get(CODE, ""))
    if PLURAL in value:
        text = translation.ngettext(message, str(value[PLURAL]), value[COUNT])
    else:
        text = translation.gettext(message) if message else ""
    if WITH not in value:
        return text
    params = value[WITH].items()
    return text % {name: _loaded_param(one) for name, one in params}


def _loaded_param(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if DAY in value:
        return _translated(date.fromisoformat(value[DAY]))
    return Decimal(value[DECIMAL]) if DECIMAL in value else _worded(value)


def _translated(value: Any) -> Any:
    """Return a day as people of the current language write it, and anything else as it is."""
    return date_format(value, "j M Y") if type(value) is date else value


def joined(between: str, texts: Iterable[str]) -> str:
    """Return what `between.join(texts)` does, as a message if one of the texts is one."""
    found = list(texts)
    text = found[0] if found else ""
    for one in found[1:]:
        text = _added(text, _added(between, one))
    return text


def _added(first: str, second: str) -> str:
    if not isinstance(first, Message) and not isinstance(second, Message):
        return first + second
    parts: list[Stored] = []
    for one in map(stored, (first, second)):
        for part in one[PARTS] if isinstance(one, dict) and PARTS in one else [one]:
            if parts and isinstance(part, str) and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return Message(str.__add__(first, second), {PARTS: parts})


def _param(value: Any) -> Any:
    if isinstance(value, Decimal):
        return {DECIMAL: str(value)}  # as a float, $5.00 would become $5.0
    if type(value) is date:
        return {DAY: value.isoformat()}
    if isinstance(value, int | float | None):
        return value
    return stored(str(value))  # also of an exception whose text is a message
