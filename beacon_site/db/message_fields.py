"""Columns for messages that people read in their own language (`beacon_site/text/messages.py`)."""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from beacon_site.text import messages


class MessageField(models.TextField):  # type: ignore[type-arg]
    """One message. Text from elsewhere is stored as it is."""

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, messages.Message):
            return json.dumps(value.stored, ensure_ascii=False)
        if isinstance(value, str) and value.startswith(
            messages.STARTS
        ):  # only looks like a message
            return json.dumps({messages.PARTS: [value]}, ensure_ascii=False)
        return super().get_prep_value(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return messages.from_column(value) if isinstance(value, str) else value

    def deconstruct(self) -> Any:
        """Appear as Django's own field in migrations: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


class MessagesField(models.JSONField):
    """A list of messages."""

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, list):
            value = [messages.stored(one) for one in value]
        return super().get_prep_value(value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if isinstance(value, list):
            value = [messages.stored(one) for one in value]
        return super().get_db_prep_value(value, connection, prepared)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        value = super().from_db_value(value, expression, connection)
        return [messages.loaded(one) for one in value] if isinstance(value, list) else value

    def deconstruct(self) -> Any:
        """Appear as Django's own field in migrations: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
