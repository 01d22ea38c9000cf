"""Slow statements, lock waits, long pauses and deadlocks are explained or retried."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from beacon_site.db.errors import (
    BUSY,
    DEADLOCK,
    SLOW,
    TOO_LONG,
    allow_long_transaction,
    failure_of,
    retried,
)
from memory import tasks
from memory.accounts import people
from memory.models import BulkAction, Note
from memory.pages.records import bulk
from memory.services.notes import saving as notes
from research.mcp import server
from tests.api.cast import Program, problem
from tests.research.test_mcp import program

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


def test_a_person_who_waits_too_long_for_a_lock_is_explained(
    alice: Any, client_of: Any, held: Note
):
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


def test_of_two_that_block_each_other_the_loser_is_tried_again(alice: Any):
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


# --- slow statements ---

HTMX = {"HX-Request": "true"}


CANCELED = "DO $$ BEGIN RAISE 'too slow' USING ERRCODE = 'query_canceled'; END $$"


@pytest.fixture
def slow(alice: Any) -> Iterator[Any]:
    """Alice, whose notes Postgres doesn't read in time: it answers as after statement_timeout."""

    def canceled(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "memory_note" in sql or "memory_searchspace" in sql:
            execute(CANCELED, None, False, context)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(canceled):
        yield alice


def test_postgres_says_so_when_a_statement_takes_longer_than_its_limit(db: None):
    with pytest.raises(OperationalError) as met, transaction.atomic(), connection.cursor() as ours:
        ours.execute("SET LOCAL statement_timeout = '50ms'")
        ours.execute("SELECT pg_sleep(20)")

    assert failure_of(met.value) is SLOW


def test_a_page_that_takes_too_long_says_that_nothing_was_lost(slow: Any, client_of: Any):
    browser: Client = client_of(slow)
    browser.raise_request_exception = False

    whole = browser.get(reverse("memory:notes"))
    part = browser.get(reverse("memory:notes"), headers=HTMX)

    assert (whole.status_code, part.status_code) == (503, 503)
    assert whole["Retry-After"] == "30"
    said = whole.content.decode()
    assert "The database took too long" in said
    assert "our saved data is safe" in said
    assert f'href="{reverse("memory:notes")}"' in said  # the way to try again
    assert "Nothing was changed" in part["HX-Trigger"]
    assert part["HX-Reswap"] == "none"


def test_a_program_whose_request_takes_too_long_is_told_what_to_do(slow: Any):
    answer = Program(slow, "read").get("/recall?q=rain")

    assert "add a filter" in problem(answer, 503)["detail"]
    assert answer["Retry-After"] == "30"


def test_a_tool_that_takes_too_long_is_told_what_to_do(slow: Any):
    result = server.call(program(slow), "recall", {"query": "rain"})

    assert result.is_error
    assert result.structured_content["error"] == "unavailable"
    assert "Nothing was changed" in result.content[0].text


def test_a_bulk_action_that_takes_too_long_fails_and_is_not_tried_for_ever(slow: Any):
    act = BulkAction.objects.create(
        owner=slow, page="notes", act="pin", before=timezone.now(), arguments={}, query=""
    )

    with pytest.raises(OperationalError):
        tasks.run_bulk_action(str(act.pk))

    act.refresh_from_db()
    assert act.state == BulkAction.State.FAILED
    assert "The database took too long to respond." in bulk.outcome(act)


def test_deleting_an_account_that_takes_too_long_is_not_tried_again(
    admin: Any, slow: Any, monkeypatch: pytest.MonkeyPatch
):
    tries = []
    usual = people._delete
    monkeypatch.setattr(people, "_delete", lambda *who: (tries.append(who), usual(*who)))

    with pytest.raises(DatabaseError) as met:
        people.delete_account(slow, typed=slow.get_username(), by=admin)

    assert (len(tries), failure_of(met.value)) == (1, SLOW)
    assert get_user_model().objects.filter(pk=slow.pk).exists()


def limit_of(before: str) -> str:
    """Return the limit of a long transaction on a connection that has this one."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])
        allow_long_transaction()
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


def test_a_long_transaction_has_the_limit_of_tasks_and_a_command_has_none(db: None):
    assert (limit_of("30s"), limit_of("0")) == ("10min", "0")
