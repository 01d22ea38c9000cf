"""Tests of backups begin with the same accounts and the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.models import User
from memory.services.files.saving import append_to
from memory.services.notes.saving import write_note
from tests.research.factories import make_hits, make_report, make_run, make_topic

UNUSUAL = "tab\there, \\N, \\., “quotes”, a\r\nb, 電池, 💾\nCOPY x FROM stdin;\n\\.\n\\restrict x"


@pytest.fixture
def full(alice: User, bob: User) -> User:
    """Two accounts with a little of everything, and texts that a dump could trip over."""
    topic = make_topic(alice)
    run = make_run(topic)
    make_report(run)
    make_hits(run, 3)
    write_note(alice, "log", UNUSUAL, by=alice.actor, ttl_days=30, stability="volatile")
    write_note(bob, "log", "Bob's car is red.", by=bob.actor, ttl_days=30, stability="volatile")
    append_to(alice, "episodes/2026-02.md", "## Tea\n- Summary: likes tea\n", by=alice.actor)
    return alice


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the backup goes."""
    return tmp_path / "beacon.backup"
