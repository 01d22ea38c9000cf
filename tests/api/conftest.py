"""The programs that tests of the API send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.cast import Program


@pytest.fixture
def agent(alice: Any) -> Program:
    """An agent of Alice's: it appends."""
    return Program(alice, "read", "write")


@pytest.fixture
def person(alice: Any) -> Program:
    """A program of Alice's that acts as her."""
    return Program(alice, "admin", name="console")


@pytest.fixture
def stranger(bob: Any) -> Program:
    """An agent of Bob's, who owns nothing here."""
    return Program(bob, "read", "write")
