"""Concurrent clients: one change per version is accepted, and nothing is stored twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from memory.models import Note, Observation
from tests.api.cast import Program

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = 6


def at_once(send: Callable[[int], Any]) -> list[int]:
    """Send this many requests at once and return their statuses, sorted."""

    def one(number: int) -> int:
        try:
            return int(send(number).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sorted(pool.map(one, range(AT_ONCE)))


def test_of_many_changes_of_one_version_one_is_taken(agent: Program) -> None:
    key = agent.post("/notes", {"content": "It rains."}).json()["id"]
    statuses = at_once(
        lambda n: agent.patch(f"/notes/{key}", {"content": f"Change {n}"}, If_Match='"1"')
    )

    assert statuses == [200] + [412] * (AT_ONCE - 1)
    assert Note.objects.get(pk=key).version == 2


def test_the_same_observation_at_once_is_one(agent: Program) -> None:
    batch = {"findings": ["The bridge is closed."], "source": "GOAL:roads"}

    assert at_once(lambda _n: agent.post("/observations", batch)) == [201] * AT_ONCE
    assert Observation.objects.count() == 1


def test_a_note_is_superseded_once(agent: Program) -> None:
    key = agent.post("/notes", {"content": "It rains."}).json()["id"]
    statuses = at_once(lambda n: agent.post(f"/notes/{key}/supersede", {"content": f"New {n}"}))

    assert statuses.count(201) == 1
    assert set(statuses) <= {201, 409, 422}
    assert Note.objects.filter(content__startswith="New").count() == 1
