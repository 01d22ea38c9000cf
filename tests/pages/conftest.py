"""What most tests of pages begin with: Alice's browser, her topic, and its second run.

A test file that needs another of that name has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from memory.accounts import sign_ins
from memory.models import Topic, User
from research.models import Run
from tests.research.factories import make_second_run, make_topic


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    """Alice's browser."""
    return client_of(alice)


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the clock of the limits per minute in one minute, however long the test takes."""
    clock = SimpleNamespace(time=lambda: 6e8, monotonic=time.monotonic)
    monkeypatch.setattr(sign_ins, "time", clock)


@pytest.fixture
def topic(alice: User) -> Topic:
    """Alice's topic, not researched yet."""
    return make_topic(alice)


@pytest.fixture
def run(topic: Topic) -> Run:
    """Run #2 with a delta of all kinds."""
    return make_second_run(topic)
