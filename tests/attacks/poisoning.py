"""Rows in which all text that people or machines can write is hostile.

It is written past the product's own ways in, which clean much of it: what shows a row must not
rely on who wrote it.  Columns lose their lengths for the while of a test, so that each holds many
payloads; the test's transaction takes all of it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import connection, models

from beacon_site.text.cleaning import clean
from tests.attacks.payloads import Payload

# What the product chooses or makes itself, and by which it finds rows again.
KEPT = frozenset(
    [
        "slug",
        "key",
        "path",
        "place",
        "folder",
        "record_type",
        "left_type",
        "right_type",
        "actor",
        "by",
        "source",
        "scope",
        "digest",
        "hash",
        "fingerprint",
        "token_hash",
        "language",
        "languages",
        "time_zone",
        "cron",
        "password",
        "session_key",
        "engine",
        "depth",
        "worker",
        "services",
        "service",
        "status",
        "kind",
        "act",
        "page",
        "about",
        "subject_type",
        "subject_id",
        "role",
        "method",
        "decided_by",
        "resolved_by",
        "email",
        "username",
        "secret",
        "stamp",
        "refused",
        "lexeme",
        "media_type",
        "input_hash",
        "written_by",
        "compared_by",
        "judged_by",
        "scopes",
        "read_trust",
        "address",
        "base_url",
        "run_step",
        "values",
        "record_ids",
        "topic_ids",
        "purpose",
        "model",
        "related_to",
        "options",
        "profile",
        "prices",
        "settings",
    ]
)
KEPT_MODELS = frozenset(("SearchSpace", "SearchEntry", "SearchTerm", "Embedding", "EmbeddingDue",
                         "PublishDue", "Worker", "CallReservation", "ReviewLevel"))  # fmt: skip
KEPT_NAMES = {"Step": {"name"}, "Connection": {"name"}, "RefusedSource": {"name"}}
IN_JSON = KEPT | {
    "id", "pk", "state", "type", "at", "name", "reading", "position", "level", "subject", "place",
    "sensitivity", "trust", "category", "stability", "lock", "owner", "topic", "run", "way",
    "previous", "current", "arrow", "shape", "tool_call_id", "function", "style",
}  # fmt: skip
ADDRESSES = frozenset(("url", "link", "domain"))
WORDS = (models.CharField, models.TextField, models.JSONField, ArrayField)
PLAIN = re.compile(r"[\w.:+-]{0,40}", re.ASCII)  # a day, an id, a number: not words


class Poison:
    """A batch of payloads. Each place starts with a different one."""

    def __init__(self, payloads: Sequence[Payload]) -> None:
        self.words = [one for one in payloads if not one.is_address]
        self.addresses = [one for one in payloads if one.is_address]
        self.turn = count()

    def text(self, *, one_line: bool = False) -> str:
        """Return the whole batch as one text that Postgres can store."""
        return self._joined(self.words or self.addresses, " " if one_line else "\n\n")

    def address(self) -> str:
        """Return a URL followed by others: only the first one is the target."""
        return self._joined(self.addresses or self.words, " ")

    def _joined(self, payloads: Sequence[Payload], between: str) -> str:
        turn = next(self.turn)
        at = turn % len(payloads)
        texts = [one.text for one in (*payloads[at:], *payloads[:at])]
        text = between.join([*texts, str(turn)])  # no two are the same
        return clean(" ".join(text.split()) if between == " " else text)[0]

    def rows(self) -> None:
        """Poison every row of both apps."""
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no trigger refuses
            cursor.execute(
                "UPDATE pg_attribute SET atttypmod = -1 FROM pg_class c WHERE attrelid = c.oid "
                "AND c.relkind = 'r' AND atttypid = 'varchar'::regtype "
                "AND (relname LIKE 'memory_%' OR relname LIKE 'research_%')"
            )
            for model in _models():
                self._poison(model)
            cursor.execute("SET LOCAL session_replication_role = DEFAULT")

    def _poison(self, model: Any) -> None:
        for row in model._base_manager.all():
            given: dict[str, Any] = {}
            for field in fields_of(model):
                given[field.name] = self._value(field, getattr(row, field.name))
            if any(field.name == "sensitivity" for field in model._meta.concrete_fields):
                given["sensitivity"] = "normal"  # what is masked could do no harm
            if given:
                model._base_manager.filter(pk=row.pk).update(**given)

    def _value(self, field: models.Field[Any, Any], value: Any) -> Any:
        if isinstance(field, models.JSONField):
            return self._in_json(value, field.name)
        if isinstance(field, ArrayField):
            is_text = isinstance(field.base_field, models.CharField | models.TextField)
            return [self.text(one_line=True) for _n in range(2)] if is_text else value
        if field.name in ADDRESSES:
            return self.address()
        return self.text(one_line=isinstance(field, models.CharField))

    def _in_json(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: self._in_json(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self._in_json(one, key) for one in value]
        if not isinstance(value, str) or key in IN_JSON or PLAIN.fullmatch(value):
            return value
        return self.address() if key in ADDRESSES else self.text()


def fields_of(model: Any) -> Iterator[models.Field[Any, Any]]:
    """Yield the columns of a model with text by people, machines or pages."""
    kept = KEPT | KEPT_NAMES.get(model.__name__, set())
    for field in model._meta.concrete_fields:
        is_ours = field.choices or field.primary_key or field.name in kept
        if isinstance(field, WORDS) and not is_ours:
            yield field


def _models() -> Iterator[Any]:
    for app in ("memory", "research"):
        for model in apps.get_app_config(app).get_models():
            if model.__name__ not in KEPT_MODELS:
                yield model
