"""What a fork of `make up` changes in the settings that the launcher loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from beacon_site.launcher import forking


@pytest.fixture
def options(settings: Any) -> Iterator[dict[str, Any]]:
    server = connections.settings["default"]
    before, process = server["OPTIONS"], settings.BEACON_PROCESS
    server["OPTIONS"] = {**before, "pool": {}}
    yield server["OPTIONS"]
    server["OPTIONS"] = before
    settings.BEACON_PROCESS = process


@pytest.mark.parametrize(
    ("process", "limit", "connections_of"),
    [("web", "BEACON_STATEMENT_SECONDS", 24), ("worker", "BEACON_TASK_STATEMENT_SECONDS", 40)],
)
def test_each_process_has_its_own_limits_of_the_database(
    options: dict[str, Any],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    process: str,
    limit: str,
    connections_of: int,
):
    monkeypatch.setenv("CELERY_CUSTOM_WORKER_POOL", "beacon_site.worker_threads:TaskPool")
    forking.become(process)

    assert f"statement_timeout={getattr(settings, limit)}000" in options["options"]
    assert options["pool"]["max_size"] == connections_of
    assert process == settings.BEACON_PROCESS
