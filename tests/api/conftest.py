"""The clients of the API tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.cast import Program


@pytest.fixture
def agent(alice: Any) -> Program:
    """Alice's agent, which appends."""
    return Program(alice, "read", "write")


@pytest.fixture
def person(alice: Any) -> Program:
    """Alice's client, which acts as her."""
    return Program(alice, "admin", name="console")


@pytest.fixture
def stranger(bob: Any) -> Program:
    """Bob's agent. Bob owns nothing here."""
    return Program(bob, "read", "write")
