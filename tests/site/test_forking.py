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
    server["OPTIONS"] = dict(before)
    yield server["OPTIONS"]
    server["OPTIONS"] = before
    settings.BEACON_PROCESS = process


@pytest.mark.parametrize(
    ("process", "limit"),
    [("web", "BEACON_STATEMENT_SECONDS"), ("worker", "BEACON_TASK_STATEMENT_SECONDS")],
)
def test_each_process_has_its_own_time_limit_for_statements(
    options: dict[str, Any], settings: Any, process: str, limit: str
):
    forking.become(process)

    assert f"statement_timeout={getattr(settings, limit)}000" in options["options"]
    assert process == settings.BEACON_PROCESS
