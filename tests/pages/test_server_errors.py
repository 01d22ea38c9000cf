"""What a page answers while something under it is broken."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client

from research import home_page


@pytest.mark.parametrize(
    ("error", "cause", "status", "says"),
    [
        (OperationalError, psycopg.OperationalError, 503, "The database does not answer"),
        (OperationalError, psycopg.errors.AdminShutdown, 503, "The database does not answer"),
        (InterfaceError, psycopg.InterfaceError, 503, "The database does not answer"),
        (OperationalError, psycopg.errors.DeadlockDetected, 500, "Beacon made a mistake"),
        (ValueError, KeyError, 500, "Beacon made a mistake"),
    ],
)
def test_a_database_that_is_gone_is_told_apart_from_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
    client_of: Any,
    alice: Any,
    error: Any,
    cause: Any,
    status: int,
    says: str,
):
    def broken(*_given: Any, **_more: Any) -> None:
        raise error("no") from cause("no")

    monkeypatch.setattr(home_page, "context", broken)
    browser: Client = client_of(alice)
    browser.raise_request_exception = False

    answer = browser.get("/")

    assert answer.status_code == status
    assert says in answer.content.decode()
    assert bool(answer.headers.get("Retry-After")) == (status == 503)
