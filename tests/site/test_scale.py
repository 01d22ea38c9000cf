"""Claims of docs/dev/queries.md: one database for many owners, and workers on many hosts."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.test import Client

from benchmarks import hot_queries


def owned_tables() -> set[str]:
    """Return the tables whose rows belong to one person each."""
    models = (
        model for model in apps.get_models() if model._meta.app_label in ("memory", "research")
    )
    return {
        model._meta.db_table
        for model in models
        if any(field.name == "owner" for field in model._meta.concrete_fields)
    }


def test_every_hot_query_names_the_owner_or_rows_by_their_keys(alice: Any) -> None:
    client = Client()
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    tables, heard = owned_tables(), 0
    for name, act in hot_queries.acts(alice, client).items():
        with hot_queries.heard(name) as said:
            act()
        for one in said:
            if any(f'"{table}"' in one.sql or f" {table} " in one.sql for table in tables):
                heard += 1
                assert one.names_the_owner or one.sql.startswith("INSERT"), (name, one.sql)
    assert heard > 30
