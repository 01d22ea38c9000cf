"""What a fork of `make up` changes in the settings that the launcher loaded."""

from __future__ import annotations

from typing import Any

import pytest
from django import conf
from django.db import connections

from beacon_site.launcher import forking


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The database's options, which are restored together with the kind of process."""
    server = connections.settings["default"]
    monkeypatch.setitem(server, "OPTIONS", dict(server["OPTIONS"]))
    monkeypatch.setattr(conf.settings, "BEACON_PROCESS", conf.settings.BEACON_PROCESS)
    return server["OPTIONS"]


@pytest.mark.parametrize(
    ("process", "limit"),
    [("web", "BEACON_STATEMENT_SECONDS"), ("worker", "BEACON_TASK_STATEMENT_SECONDS")],
)
def test_each_process_has_its_own_time_limit_for_statements(
    options: dict[str, Any], process: str, limit: str
):
    forking.become(process)

    assert f"statement_timeout={getattr(conf.settings, limit)}000" in options["options"]
    assert process == conf.settings.BEACON_PROCESS
