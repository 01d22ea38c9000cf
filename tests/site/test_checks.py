"""Beacon's system checks: settings and files that expose it, and tables that don't fit this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.db import DEFAULT_DB_ALIAS, connection


def exposed() -> list[str]:
    """Return the ids of Beacon's own messages of `check --deploy --tag security`."""
    found = run_checks(tags=[Tags.security], include_deployment_checks=True)
    return [message.id or "" for message in found if (message.id or "").startswith("beacon.")]


def of_the_database() -> list[str]:
    """Return what `check --tag database --database default` says."""
    found = run_checks(tags=[Tags.database], databases=[DEFAULT_DB_ALIAS])
    return [str(message) for message in found if (message.id or "").startswith("beacon.")]


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, []),
        ({"BEACON_BIND": "0.0.0.0"}, ["beacon.W001", "beacon.W002"]),
        ({"BEACON_HTTPS": True}, ["beacon.W002"]),
        (
            {"BEACON_BIND": "0.0.0.0", "BEACON_TRUST_PROXY": True, "PRODUCTION": True},
            ["beacon.W001", "beacon.W003"],
        ),
        ({"ALLOWED_HOSTS": ["*"]}, ["beacon.W004"]),
        ({"SECRET_KEY": "short"}, ["beacon.W005"]),
    ],
)
def test_settings_that_expose_beacon_are_named(
    settings: Any, fields: dict[str, Any], ids: list[str]
) -> None:
    for name, value in fields.items():
        setattr(settings, name, value)

    assert exposed() == ids


def test_a_secret_that_others_can_read_is_an_error(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    key = tmp_path / "secret_key"
    key.touch(mode=0o600)
    assert exposed() == []

    key.chmod(0o644)

    assert exposed() == ["beacon.E001"]


def test_a_database_of_this_version_with_redis_passes(db: None) -> None:
    assert of_the_database() == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            (
                "INSERT INTO django_migrations (app, name, applied)"
                " VALUES ('memory', '9999_later', now())"
            ),
            "A newer version of Beacon has changed this database. Unknown migrations: memory.9999_later.",
        ),
        (
            "ALTER TABLE memory_savedview RENAME COLUMN name TO gone",
            "All migrations have been applied, but columns are missing: memory_savedview.name.",
        ),
    ],
)
def test_tables_of_another_version_are_named(db: None, statement: str, message: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)

    (found,) = of_the_database()
    assert message in found


def test_before_its_migrations_a_database_gives_no_warning(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'research'")

    assert of_the_database() == []


def test_redis_that_does_not_answer_is_named(db: None, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    (found,) = of_the_database()
    assert "Redis isn’t responding (ConnectionError)" in found
