"""Bulk actions: batches, deliveries, rejections, and Undo."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DataError, OperationalError, connection, transaction
from django.utils import translation

from memory.models import BulkAction, Note, Observation, Revision
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages.records import bulk
from memory.services.search import bm25
from tests.pages.record_cast import days, note, observation


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)


@pytest.fixture
def five(alice: Any) -> list[Note]:
    Note.objects.for_user(alice).delete()
    return [note(alice, f"Fares {number}", source="run:1") for number in range(5)]


def do(owner: Any, act: str, **more: Any) -> BulkAction:
    more.setdefault("query", "q=fares")
    done = bulk.run_bulk_action(bulk.ask(owner, more.pop("page", "notes"), act, **more).pk)
    assert done is not None
    return done


def test_each_change_is_a_revision_that_names_the_act(alice: Any, five: list[Note]):
    act = do(alice, "pin")

    assert (act.state, act.total, act.done, act.unchanged) == ("done", 5, 5, 0)
    changes = Revision.objects.filter(source=f"bulk:{act.pk}")
    assert {change.record_id for change in changes} == {one.pk for one in five}
    assert {change.version for change in changes} == {2}
    assert set(Note.objects.for_user(alice).values_list("pinned", "version")) == {(True, 2)}


def test_only_the_field_it_names_is_touched(alice: Any, five: list[Note]):
    before = Note.objects.filter(pk=five[0].pk).values().get()

    do(alice, "tag", arguments={"tag": "travel"})

    after = Note.objects.filter(pk=five[0].pk).values().get()
    changed = {name for name, value in after.items() if value != before[name]}
    assert changed == {"tags", "version", "updated"}
    assert after["tags"] == ["travel"]


def test_what_goes_to_the_trash_is_found_no_more_and_again_after_undo(alice: Any, five: list[Note]):
    act = do(alice, "trash")
    assert bm25.search(alice, "note", "fares") == []

    bulk.run_bulk_action(bulk.ask_undo(act).pk)

    assert len(bm25.search(alice, "note", "fares")) == 5
    assert Note.objects.for_user(alice).live().count() == 5
    act.refresh_from_db()
    assert act.state == BulkAction.State.UNDONE


def test_undo_leaves_what_was_changed_since(alice: Any, five: list[Note]):
    act = do(alice, "lock", arguments={"lock": "read-only"})
    five[0].refresh_from_db()
    five[0].change(by=alice.actor, lock="append-only")
    five[1].refresh_from_db()
    five[1].change(by=alice.actor, content="Other words about fares")

    undone = bulk.run_bulk_action(bulk.ask_undo(act).pk)

    assert undone is not None
    assert (undone.done, undone.unchanged) == (4, 1)
    locks = dict(Note.objects.for_user(alice).values_list("pk", "lock"))
    assert locks.pop(five[0].pk) == "append-only"
    assert set(locks.values()) == {"open"}


def test_pinning_clears_the_expiry_and_undo_brings_it_back(alice: Any):
    made = note(alice, stability="volatile", ttl_days=3, expires_at=days(3))
    act = do(alice, "pin", query=None, ids=[made.pk])
    made.refresh_from_db()
    assert made.expires_at is None

    bulk.run_bulk_action(bulk.ask_undo(act).pk)

    made.refresh_from_db()
    assert made.expires_at is not None
    assert not made.pinned


def test_delivered_twice_it_changes_everything_once(alice: Any, five: list[Note]):
    act = bulk.ask(alice, "notes", "pin", query="q=fares")

    bulk.run_bulk_action(act.pk)
    bulk.run_bulk_action(act.pk)

    assert Revision.objects.filter(source=f"bulk:{act.pk}").count() == 5


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_change_everything_once(alice: Any):
    Note.objects.for_user(alice).delete()
    for number in range(30):
        note(alice, f"Fares {number}")
    act = bulk.ask(alice, "notes", "pin", query="")

    def work() -> None:
        try:
            # A turn while another worker holds the act does nothing: as many as it takes.
            while BulkAction.objects.get(pk=act.pk).is_unfinished:
                bulk.run_bulk_action(act.pk, seconds=0)
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    act.refresh_from_db()
    assert (act.state, act.done) == ("done", 30)
    assert Revision.objects.filter(source=f"bulk:{act.pk}").count() == 30


def test_what_stopped_half_way_continues_where_it_was(alice: Any, five: list[Note]):
    act = bulk.ask(alice, "notes", "pin", query="q=fares")
    bulk.run_bulk_action(act.pk, seconds=0)
    act.refresh_from_db()
    assert (act.state, act.done) == ("waiting", 2)

    assert list(BulkAction.objects.due()) == [act]
    bulk.run_bulk_action(act.pk)

    act.refresh_from_db()
    assert (act.state, act.done) == ("done", 5)


def test_what_is_written_after_it_was_requested_is_not_meant(alice: Any, five: list[Note]):
    act = bulk.ask(alice, "notes", "trash", query="q=fares")
    late = note(alice, "Fares of tomorrow")

    bulk.run_bulk_action(act.pk)

    assert list(Note.objects.for_user(alice).live()) == [late]


def test_one_that_cannot_go_is_left_and_the_others_go(alice: Any):
    Note.objects.for_user(alice).delete()
    soul = note(alice, "I am Beacon.", kind="soul", stability="permanent")
    plain = note(alice)

    act = do(alice, "trash", query=None, ids=[soul.pk, plain.pk])

    assert (act.done, act.unchanged) == (1, 1)
    assert "can only be replaced" in act.problem
    assert "“I am Beacon.”" in bulk.outcome(act)
    with translation.override("de"):  # the row stores the reason without a language
        problem = BulkAction.objects.get(pk=act.pk).problem
        assert "“I am Beacon.”" in problem and "can only be replaced" not in problem


def test_an_act_over_its_time_limit_says_so(
    alice: Any, five: list[Note], monkeypatch: pytest.MonkeyPatch
):
    def late(_act: BulkAction) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(bulk, "_batch", late)
    act = bulk.ask(alice, "notes", "pin", query="q=fares")
    with pytest.raises(SoftTimeLimitExceeded):
        bulk.run_bulk_action(act.pk)

    act.refresh_from_db()
    assert (act.state, act.problem) == ("failed", "The action exceeded the time limit")


def test_one_that_the_database_refuses_is_left_and_the_others_come_back(alice: Any):
    first = observation(alice)
    other = observation(alice, "A pack costs 120 dollars.")
    for one in (first, other):
        one.trash(by=alice.actor)
    observation(alice)  # the same words of the same run are in the list again

    act = do(alice, "restore", page="observations", query="q=is:trashed")

    assert (act.done, act.unchanged) == (1, 1)
    assert list(Observation.objects.in_trash()) == [first]
    assert Revision.objects.filter(record_id=first.pk, source=f"bulk:{act.pk}").count() == 0


def test_another_category_vouches_for_nothing(alice: Any):
    made = observation(alice, trust="external")

    do(alice, "categorise", page="observations", query="", arguments={"category": "lesson"})

    made.refresh_from_db()
    assert (made.category, made.trust) == ("lesson", "external")


def test_another_owners_records_are_never_meant(alice: Any, bob: Any, five: list[Note]):
    act = do(bob, "trash", query=None, ids=[one.pk for one in five])

    assert (act.total, act.done) == (0, 0)
    assert Note.objects.for_user(alice).live().count() == 5


@pytest.mark.parametrize(
    ("page", "act", "more", "words"),
    [
        ("notes", "burn", {}, "isn’t available for this list"),
        ("topics", "pin", {}, "isn’t available for this list"),
        ("notes", "categorise", {}, "isn’t available for this list"),
        ("notes", "tag", {"arguments": {"tag": "x" * 81}}, "of 1 to 80 characters"),
        ("notes", "tag", {}, "of 1 to 80 characters"),
        ("notes", "tag", {"arguments": {"tag": "food, drink"}}, "can’t contain a comma"),
        ("notes", "lock", {"arguments": {"lock": "chain"}}, "lock doesn’t exist"),
        ("observations", "categorise", {"arguments": {"category": "poem"}}, "Select a category"),
        ("notes", "pin", {"query": None, "ids": []}, "Select at least one record"),
        ("notes", "pin", {"query": None, "ids": ["x"] * 1001}, "at most 1000"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(
    alice: Any, page: str, act: str, more: dict[str, Any], words: str
):
    with pytest.raises(InvalidValue, match=words):
        bulk.ask(alice, page, act, **({"query": ""} | more))
    assert not BulkAction.objects.exists()


def test_an_act_is_undone_once(alice: Any, five: list[Note]):
    act = do(alice, "pin")
    undo = bulk.ask_undo(act)

    for again in (act, undo):
        with pytest.raises(MemoryRefused):
            bulk.ask_undo(again)


def test_an_act_that_fails_inside_ends_and_says_so(
    alice: Any, five: list[Note], monkeypatch: pytest.MonkeyPatch
):
    from memory.tasks import run_bulk_action

    act = bulk.ask(alice, "notes", "pin", query="")
    monkeypatch.setattr(Note, "change_many", lambda *args, **kwargs: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        run_bulk_action(str(act.pk))

    act.refresh_from_db()
    assert (act.state, act.done, act.problem) == (
        "failed",
        0,
        "The action was stopped by an internal error (ZeroDivisionError)",
    )
    assert act.finished_at is not None


def test_an_act_that_reaches_the_statement_limit_fails(
    alice: Any, five: list[Note], monkeypatch: pytest.MonkeyPatch
):
    def slow(act: BulkAction) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 20")
            cursor.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(bulk, "_batch", slow)
    act = bulk.ask(alice, "notes", "pin", query="q=fares")
    with pytest.raises(OperationalError):
        bulk.run_bulk_action(act.pk)

    act.refresh_from_db()
    assert (act.state, act.problem) == ("failed", "The database took too long to respond")


@pytest.mark.parametrize(("fault", "state"), [(DataError, "failed"), (OperationalError, "waiting")])
def test_an_act_that_cannot_continue_holds_up_none_behind_it(
    alice: Any, five: list[Note], monkeypatch: pytest.MonkeyPatch, fault: Any, state: str
):
    stuck, other = (bulk.ask(alice, "notes", "pin", ids=[one.pk]) for one in five[:2])
    batch = bulk._batch

    def faulty(act: BulkAction) -> None:
        if act.pk == stuck.pk:
            raise fault("no")
        batch(act)

    monkeypatch.setattr(bulk, "_batch", faulty)
    for act in (stuck, other):
        with suppress(fault):
            bulk.run_bulk_action(act.pk)

    assert [BulkAction.objects.get(pk=act.pk).state for act in (stuck, other)] == [state, "done"]
