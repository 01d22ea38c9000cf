"""What a fork of `make up` changes in the settings that the launcher loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django import conf
from django.db import connections

from beacon_site.launcher import forking


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The database's options, which are restored together with the kind of process."""
    server = connections.settings["default"]
    monkeypatch.setitem(server, "OPTIONS", {**server["OPTIONS"]})
    monkeypatch.setattr(conf.settings, "BEACON_PROCESS", conf.settings.BEACON_PROCESS)
    monkeypatch.setitem(conf.settings.LOGGING["root"], "level", "WARNING")
    level = logging.getLogger().level
    yield server["OPTIONS"]
    logging.getLogger().setLevel(level)


@pytest.mark.parametrize(
    ("process", "limit", "connections_of"),
    [("web", "BEACON_STATEMENT_SECONDS", 24), ("worker", "BEACON_TASK_STATEMENT_SECONDS", 40)],
)
def test_each_process_has_its_own_limits_of_the_database(
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    process: str,
    limit: str,
    connections_of: int,
):
    monkeypatch.setenv("CELERY_CUSTOM_WORKER_POOL", "beacon_site.worker_threads:TaskPool")
    forking.become(process)

    assert f"statement_timeout={getattr(conf.settings, limit)}000" in options["options"]
    assert options["pool"]["max_size"] == connections_of
    assert options["pool"]["min_size"] == 0  # no connection at rest
    assert process == conf.settings.BEACON_PROCESS
    assert conf.settings.LOGGING["root"]["level"] == "INFO"
    assert logging.getLogger().level == logging.INFO
