"""What tests of memory share: a scripted embedder, and a database that compares vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection

from memory.models import accounts
from tests.memory.embedding_cast import drop_vectors, use
from tests.memory.reflection_cast import Reflect, reflect_for
from tests.providers.fakes import FakeEmbedder

ALIKE = {"car": "automobile", "auto": "automobile"}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[FakeEmbedder]:
    """The one embedder there is; an outside one."""
    settings.BEACON_EMBEDDINGS = "auto"
    monkeypatch.setattr(accounts, "ON_ACCOUNT_CREATE", [])  # accounts begin without notes
    made = FakeEmbedder(alike=ALIKE, dimensions=24)
    use(monkeypatch, made)
    cache.clear()
    yield made
    cache.clear()


@pytest.fixture
def extension(db: None, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A database that compares vectors, until the test is over."""
    call_command("vectors")
    assert "vector 0." in capsys.readouterr().out
    yield
    if not connection.in_atomic_block:  # nothing rolls it back, and other tests begin without
        drop_vectors()


@pytest.fixture
def reflect(alice: Any, monkeypatch: pytest.MonkeyPatch) -> Reflect:
    """Reflect on Alice's talk about trains."""
    return reflect_for(alice, monkeypatch)
