"""Columns for messages that people read in their own language (`beacon_site/text/messages.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast

from beacon_site.text import messages

Rows = TypeVar("Rows", bound=models.QuerySet[Any])


class MessageField(models.TextField):  # type: ignore[type-arg]
    """One message. Text from elsewhere is stored as it is."""

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, messages.Message):
            return messages.as_column(value)
        # An ordinary text that looks like a stored message
        if isinstance(value, str) and value.startswith(messages.STARTS):
            return messages.as_column(messages.Message(value, {messages.PARTS: [value]}))
        return super().get_prep_value(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return messages.from_column(value) if isinstance(value, str) else value

    def deconstruct(self) -> Any:
        """Appear as Django's own field in migrations: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


class MessagesField(models.JSONField):
    """A list or an object that contains messages."""

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(messages.stored_in(value))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return messages.loaded_in(super().from_db_value(value, expression, connection))

    def deconstruct(self) -> Any:
        """Appear as Django's own field in migrations: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


def containing(rows: models.QuerySet[Any], name: str) -> Callable[[str], Q]:
    """Return a function from a word to the condition that the text of a `MessageField` contains it.

    The text is what the reader sees, in their language. All of the rows' messages are read, once.
    """
    raw = rows.alias(raw_text=Cast(name, models.TextField()))
    is_message = Q(*(("raw_text__startswith", start) for start in messages.STARTS), _connector=Q.OR)
    texts = [(pk, text.casefold()) for pk, text in raw.filter(is_message).values_list("pk", name)]
    keys = [pk for pk, _text in texts]

    def condition(word: str) -> Q:
        found = [pk for pk, text in texts if word.casefold() in text]
        return Q(pk__in=found) | (Q(**{f"{name}__icontains": word}) & ~Q(pk__in=keys))

    return condition


def with_words(rows: Rows, words: str, *fields: str) -> Rows:
    """Keep the rows that have each of the words in one of these fields."""
    messages = {field.name for field in rows.model._meta.fields if isinstance(field, MessageField)}
    conditions = {name: containing(rows, name) for name in messages.intersection(fields)}
    for word in words.split():
        anywhere = Q()
        for name in fields:
            contains = conditions.get(name)
            anywhere |= contains(word) if contains else Q(**{f"{name}__icontains": word})
        rows = rows.filter(anywhere)
    return rows
