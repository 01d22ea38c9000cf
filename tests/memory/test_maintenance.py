"""Maintenance of notes: what it prunes, merges and keeps, and what it reports."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection
from django.utils import timezone

from beacon_site.net.errors import ProviderUnavailable
from memory.models import Activity, Note, User
from memory.models.actors import MAINTENANCE, Actor
from memory.services.llm import connections
from memory.services.notes import maintenance
from memory.services.notes.maintenance import batches, maintain, old_notes, prune_expired
from memory.services.notes.saving import edit_note, pin, write_note
from memory.tasks import find_conflicts_of, maintain_notes_of
from memory.tasks import maintain as maintain_task
from tests.providers.fakes import FakeLanguageModel
from tests.research.factories import active_notes, make_topic

AGENT = Actor("agent", "claude")
DAY = timedelta(days=1)


def aged(owner: User, days: float, content: str = "", **more: Any) -> Note:
    """Write a volatile note of thirty days, so many days ago."""
    more = {"stability": "volatile", "ttl_days": 30, "kind": "log", **more}
    note = write_note(
        owner, more.pop("kind"), content or f"Seen {days} days ago.", by=AGENT, **more
    )
    made = timezone.now() - days * DAY
    expires = made + note.ttl_days * DAY if note.ttl_days else None
    Note.objects.filter(pk=note.pk).update(created=made, expires_at=expires)
    note.refresh_from_db()
    return note


@pytest.mark.requirement("R197")
def test_expired_notes_go_to_the_trash_and_are_counted(alice: User, bob: User):
    gone = [aged(alice, 31), aged(alice, 40), aged(bob, 31)]
    kept = aged(alice, 29)

    assert prune_expired(alice) == 2
    assert prune_expired(bob) == 1
    assert set(Note.objects.in_trash()) == set(gone)
    assert kept in active_notes(alice)


@pytest.mark.requirement("R207")
def test_old_volatile_notes_are_merged_by_fives_for_each_owner(alice: User, bob: User):
    for days in range(8, 16):
        aged(alice, days)
    aged(alice, 6, "too young")
    aged(bob, 9, "Bob's only one")

    done = maintain(alice)

    assert (done.merged, done.summaries) == (8, 2)
    sums = active_notes(alice, kind="summary")
    assert sorted(note.supersedes.count() for note in sums) == [3, 5]
    assert {n.content for n in active_notes(bob, kind="log")} == {"Bob's only one"}
    assert {n.content for n in active_notes(alice, kind="log")} == {"too young"}


@pytest.mark.requirement("R209")
def test_no_old_note_is_too_old_to_be_merged_and_the_oldest_go_first(alice: User):
    for number in range(203):
        aged(alice, 8 + number / 100, f"note {number}")

    done = maintain(alice)

    assert (done.merged, active_notes(alice, kind="log")) == (203, [])
    first = Note.objects.for_user(alice).filter(kind="summary").order_by("created").first()
    assert first is not None and "note 202" in first.content


@pytest.mark.requirement("R209")
def test_a_week_old_summary_is_merged_before_it_expires(alice: User):
    for hours in (1, 11):
        note = aged(alice, 1, f"Run, {hours} h left.", kind="summary", ttl_days=7)
        Note.objects.filter(pk=note.pk).update(expires_at=timezone.now() + timedelta(hours=hours))
    aged(alice, 1, "Half a day and more left.", kind="summary", ttl_days=7)

    done = maintain(alice)

    assert (done.pruned, done.merged) == (0, 2)
    merged = Note.objects.for_user(alice).get(stability="stable", kind="summary")
    assert merged.expires_at is None and "11 h left" in merged.content


def test_volatile_notes_without_days_to_live_are_merged_too(alice: User):
    for number in range(2):
        note = aged(alice, 9, f"imported {number}")
        Note.objects.filter(pk=note.pk).update(ttl_days=None, expires_at=None)

    assert maintain(alice).merged == 2


@pytest.mark.parametrize("held", ["pinned", "edited", "locked", "stable"])
def test_what_a_person_holds_and_what_is_stable_is_left_alone(alice: User, held: str):
    note, other, expired = aged(alice, 9), aged(alice, 10), aged(alice, 31)
    for one in (note, expired):
        if held == "pinned":
            pin(one, by=alice.actor)
        elif held == "edited":
            edit_note(one, by=alice.actor, tags=["mine"])
        elif held == "locked":
            one.change(by=alice.actor, lock="append-only")
        else:
            edit_note(one, by=AGENT, stability="stable", ttl_days=None)

    done = maintain(alice)

    assert (done.pruned, done.merged) == (0, 0)
    assert Note.objects.get(pk=other.pk).superseded_by_id is None


def test_an_edited_note_that_expired_is_not_given_but_stands_as_expired(alice: User):
    note = aged(alice, 31)
    edit_note(note, by=alice.actor, tags=["mine"])

    maintain(alice)

    assert note not in active_notes(alice)
    assert note in Note.objects.for_user(alice).live().expired()


def test_batches_are_of_one_sensitivity_and_of_one_topic_where_they_can(alice: User):
    one, two = make_topic(alice, "One"), make_topic(alice, "Two")
    made = [aged(alice, 10 + n, f"{n}", topic=(one, two)[n % 2]) for n in range(4)]
    made += [aged(alice, 9, "alone"), aged(alice, 8, "secret", sensitivity="sensitive")]

    found = [{note.content for note in batch} for batch in batches(old_notes(alice))]

    assert sorted(map(sorted, found)) == [["0", "2"], ["1", "3"]]
    assert len(made) == 6


def test_batches_leave_none_alone_and_fit_into_one_note(alice: User):
    notes = [aged(alice, 20 - n, "x" * (60_000 if n == 5 else 6_000)) for n in range(6)]

    assert [len(batch) for batch in batches(notes)] == [4]
    assert [len(batch) for batch in batches([*notes[:5], aged(alice, 9)])] == [4, 2]


@pytest.mark.requirement("R208")
def test_a_model_writes_the_summary_and_its_failure_is_reported(
    alice: User, monkeypatch: pytest.MonkeyPatch
):
    for days in range(8, 14):
        aged(alice, days)
    model = FakeLanguageModel("All of them.", ProviderUnavailable("busy"))
    monkeypatch.setattr(connections, "language_model", lambda: model)

    done = maintain(alice)

    assert (done.merged, done.summaries, done.by_model) == (6, 2, 1)
    told = Activity.objects.for_user(alice).get(kind="notes-maintained")
    assert told.is_warning and "busy" in told.detail["why"]
    assert told.label.startswith("0 expired notes moved to Trash; 6 notes were merged into 2 ")


def test_nothing_to_do_is_told_only_to_anyone_who_asked(alice: User):
    maintain(alice)
    assert not Activity.objects.for_user(alice).filter(kind="notes-maintained").exists()

    maintain(alice, by=alice.actor)
    assert Activity.objects.for_user(alice).get(kind="notes-maintained").actor == "human:alice"


def test_maintenance_out_of_time_says_that_the_rest_waits(alice: User):
    aged(alice, 9), aged(alice, 10)

    done = maintain(alice, seconds=-1)

    assert done.is_unfinished and "The remaining notes will be merged" in done.description()


@pytest.mark.requirement("R208")
def test_the_task_looks_after_everyone_and_twice_changes_nothing_more(alice: User, bob: User):
    for owner in (alice, bob):
        aged(owner, 31), aged(owner, 9), aged(owner, 10)

    maintain_task()
    maintain_task()

    for owner in (alice, bob):
        assert Note.objects.for_user(owner).filter(kind="summary").count() == 1
        assert Note.objects.for_user(owner).in_trash().count() == 1


@pytest.mark.requirement("R208")
def test_maintenance_comes_every_six_hours():
    tick = settings.CELERY_BEAT_SCHEDULE["maintain-notes"]

    assert (tick["task"], tick["schedule"]) == (maintain_task.name, 6 * 3600)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_make_each_summary_once(alice: User, monkeypatch: pytest.MonkeyPatch):
    for days in range(8, 18):
        aged(alice, days)
    done: list[maintenance.Upkeep] = []

    def work() -> None:
        done.append(maintain(alice))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(one.merged for one in done) == 10
    assert Note.objects.for_user(alice).filter(kind="summary").count() == 2
    assert Note.objects.filter(superseded_by=None, kind="log").count() == 0


def test_maintenance_acts_as_itself(alice: User):
    aged(alice, 9), aged(alice, 10)

    maintain(alice, by=alice.actor)

    merged = Note.objects.for_user(alice).get(kind="summary")
    assert (merged.source, merged.trust) == (str(MAINTENANCE), "agent")


def test_a_time_limit_is_passed_on_and_not_a_failure_of_one_owner(alice: User, monkeypatch: Any):
    def over(*_args: Any, **_more: Any) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr("memory.services.notes.maintenance.maintain", over)
    monkeypatch.setattr("memory.services.review.conflicts.find", over)
    for task in (maintain_notes_of, find_conflicts_of):
        with pytest.raises(SoftTimeLimitExceeded):
            task(alice.pk)

    assert not Activity.objects.filter(kind="upkeep-failed").exists()
