"""Lock waits, long pauses and deadlocks are explained or retried."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.test import Client
from django.urls import reverse

from beacon_site.db.errors import BUSY, DEADLOCK, TOO_LONG, failure_of, retried
from memory.models import Note
from memory.notes import services as notes
from tests.api.cast import Program, problem

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def held(alice: Any) -> Iterator[Note]:
    """A note whose row another connection holds, as a process that was stopped would.

    This one waits for locks as processes that serve do, only not for as long.
    """
    note = notes.write_note(alice, "log", "It rains.", by=alice.actor)
    other = connection.copy()
    with other.cursor() as cursor, connection.cursor() as ours:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM memory_note WHERE id = %s FOR UPDATE", [note.pk])
        ours.execute("SET lock_timeout = '300ms'")
        yield note
    other.close()
    connection.close()


def test_a_program_that_waits_too_long_for_a_lock_is_told_when_to_come_again(
    alice: Any, held: Note
):
    person = Program(alice, "admin")
    answer = person.patch(f"/notes/{held.pk}", {"content": "It snows."}, If_Match='"1"')

    assert "didn’t finish in time" in problem(answer, 503)["detail"]
    assert answer["Retry-After"] == "5"


def test_a_person_who_waits_too_long_for_a_lock_is_told_so(alice: Any, client_of: Any, held: Note):
    browser: Client = client_of(alice)
    browser.raise_request_exception = False

    answer = browser.post(reverse("memory:record-trash", args=["note", held.pk]))

    assert answer.status_code == 503
    assert "Another change is in progress" in answer.content.decode()


def test_a_transaction_that_pauses_for_too_long_is_ended_and_explained(db: None):
    try:
        with (
            pytest.raises(DatabaseError) as met,
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '200ms'")
            time.sleep(1)
            cursor.execute("SELECT 1")
    finally:
        connection.close()

    assert failure_of(met.value) is TOO_LONG
    assert (TOO_LONG.status, BUSY.status, DEADLOCK.status) == (503, 503, 409)


def crossing(alice: Any, tries: list[int]) -> list[Any]:
    """Let two transactions wait for each other, each tried as `retried` does."""
    both = [notes.write_note(alice, "log", text, by=alice.actor) for text in ("One.", "Two.")]
    together = threading.Barrier(2)

    def lock(order: list[Note]) -> Any:
        first = True

        def act() -> str:
            nonlocal first
            tries.append(1)
            Note.objects.select_for_update().get(pk=order[0].pk)
            if first:
                first = False
                together.wait(30)
            Note.objects.select_for_update().get(pk=order[1].pk)
            return "done"

        try:
            return retried(act)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lock, (both, both[::-1])))


def test_of_two_that_block_each_other_the_loser_is_tried_once_more(alice: Any):
    tries: list[int] = []

    assert crossing(alice, tries) == ["done", "done"]
    assert len(tries) == 3


def test_what_loses_twice_is_not_tried_again(db: None):
    tries = []

    def act() -> None:
        tries.append(1)
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE 'no' USING ERRCODE = '40P01'; END $$")

    with pytest.raises(OperationalError) as met:
        retried(act)

    assert len(tries) == 2
    assert failure_of(met.value) is DEADLOCK
