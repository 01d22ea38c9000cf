"""Already in memory: what memory already says with another value, as it's typed and as a conflict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from beacon_site import celery
from beacon_site.text.contradictions import differences, statements
from benchmarks.contradictions import figures, judge
from memory import tasks
from memory.models import Conflict, MemoryFile, TopicFact, User
from memory.models.actors import Actor
from memory.services.files.saving import append_to, save_file
from memory.services.notes.saving import edit_note, supersede, write_note
from memory.services.observations.saving import is_near, write_observation
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions
from tests.memory.conflict_cast import topic_of

OLD = "Billing runs PostgreSQL 13."
NEW = "Billing still runs PostgreSQL 12.22. Owner: Tomasz. Blocked by the PHP driver."


def note(owner: User, text: str, **more: Any) -> Any:
    return write_note(owner, more.pop("kind", "log"), text, by=more.pop("by", owner.actor), **more)


# --- texts ---


@pytest.mark.requirement("R251")
@pytest.mark.parametrize("half", ["tune", "held"])
def test_labelled_pairs_are_judged_with_few_false_alarms(half: str) -> None:
    precision, recall = figures(judge(half))
    assert precision >= 0.95
    assert recall >= 0.9


def test_more_than_sixty_pairs_are_labelled_and_half_are_traps() -> None:
    pairs = judge()
    traps = [one for one in pairs if not one.is_meant]
    assert len(pairs) >= 60
    assert 0.4 <= len(traps) / len(pairs) <= 0.6


@pytest.mark.parametrize(
    "text", ["", "\x00", "💥" * 500, "(" * 5_000, "1 " * 20_000, "a:b " * 9_000]
)
def test_any_text_can_be_compared(text: str) -> None:
    assert not [*differences(text, OLD), *differences(OLD, text)]


def test_a_long_note_is_compared_by_its_statements() -> None:
    text = f"# Servers\n\n- The wiki has 4 admins.\n- {OLD}\n"
    assert statements(text) == ["The wiki has 4 admins.", OLD]
    [found] = differences(text, NEW)
    assert found == (OLD, "version", "Billing still runs PostgreSQL 12.22.")


BUDGET = "The budget for Heron is {}."


@pytest.mark.parametrize(
    ("old", "new"),
    [("20 €", "-20 €"), ("20 €", "20 $"), ("€20", "20 £"), ("5 mg", "5 µg"), ("−5 °C", "5 °C")],
)
def test_the_same_number_with_another_sign_or_unit_contradicts(old: str, new: str) -> None:
    for texts in ((old, new), (new, old)):
        was, now = (BUDGET.format(text) for text in texts)
        assert [kind for _old, kind, _new in differences(was, now)] == ["amount"]
        assert not is_near(was, now)


@pytest.mark.parametrize(
    ("old", "new"),
    [("20 €", "20 EUR"), ("€20", "20 €"), ("20", "20 €"), ("-20 €", "−20 €"), ("20 €", "~20 €"),
     ("20 €", "25 $"), ("5–10 €", "5 – 10 €"), ("10:00", "10:00 am"), ("5 mg", "5")],
)  # fmt: skip
def test_the_same_value_in_another_spelling_does_not_contradict(old: str, new: str) -> None:
    for texts in ((old, new), (new, old)):
        assert not [*differences(*(BUDGET.format(text) for text in texts))]


# --- what is known ---


@pytest.mark.requirement("R251")
def test_a_note_an_observation_a_fact_and_a_line_of_a_file_are_known(alice: User) -> None:
    note(alice, OLD)
    write_observation(alice, "finding", "Billing runs PostgreSQL 14.", by=alice.actor)
    TopicFact.objects.add(topic_of(alice), "Billing runs PostgreSQL 15.", by=alice.actor)
    append_to(alice, "facts/user.md", "- Billing runs PostgreSQL 16.", by=alice.actor)
    found = contradictions.also_known(alice, NEW)
    assert {one.type for one in found} == {"note", "observation", "fact", "section"}
    line = next(one for one in found if one.type == "section")
    text = MemoryFile.objects.for_user(alice).at("facts/user.md").get().content
    number = text.split("\n").index("- Billing runs PostgreSQL 16.") + 1
    assert line.place == f"facts/user.md, line {number}"


def test_the_summary_that_repeats_a_line_is_not_the_line_that_is_named(alice: User) -> None:
    text = "# Owner\n\n> Summary: Billing runs PostgreSQL 16.\n\n- Billing runs PostgreSQL 16.\n"
    save_file(alice, "facts/user.md", text, by=alice.actor)
    places = {one.place for one in contradictions.also_known(alice, NEW)}
    assert places == {"facts/user.md, line 5"}


def test_nothing_of_others_in_trash_replaced_or_expired_is_known(alice: User, bob: User) -> None:
    note(bob, OLD)
    note(alice, "Billing runs PostgreSQL 14.").trash(by=alice.actor)
    supersede(note(alice, "Billing runs PostgreSQL 15."), "Orders are fine.", by=alice.actor)
    expired = note(alice, "Billing runs PostgreSQL 16.")
    type(expired).objects.filter(pk=expired.pk).update(
        expires_at=timezone.now() - timedelta(days=1)
    )
    assert contradictions.also_known(alice, NEW) == []


def test_what_runs_found_before_is_left_to_their_topic(alice: User) -> None:
    write_observation(alice, "finding", OLD, by=alice.actor, source="run:1")
    assert contradictions.also_known(alice, NEW) == []


def test_the_number_of_queries_does_not_grow(alice: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            contradictions.also_known(alice, f"{NEW}\n- The wiki has 4 admins.")
        return len(seen)

    note(alice, OLD)
    few = queries()
    for number in range(2, 30):
        note(alice, f"Billing runs PostgreSQL {number}.")
    assert queries() <= few


# --- conflicts ---


@pytest.mark.requirement("R251")
def test_two_notes_a_minute_apart_become_one_conflict(alice: User) -> None:
    old = note(alice, OLD)
    new = note(alice, NEW)
    contradictions.report(new)
    contradictions.report(new)
    contradictions.report(old)
    [found] = Conflict.objects.for_user(alice).standing()
    assert (found.left_id, found.right_id) == (old.pk, new.pk)
    assert (found.kind, found.reason) == ("contradiction", "version")


def test_notes_that_differ_only_in_a_sign_become_a_conflict(alice: User) -> None:
    old = note(alice, BUDGET.format("20 €"))
    new = note(alice, BUDGET.format("-20 €"))
    contradictions.report(new)
    [found] = Conflict.objects.for_user(alice).standing()
    assert (found.left_id, found.right_id) == (old.pk, new.pk)
    assert (found.kind, found.reason) == ("contradiction", "amount")


def test_an_agents_write_is_compared_after_its_commit(
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    sent: list[Any] = []

    def send(task: str, *args: Any, queue: str) -> bool:
        if queue == "background":  # ticks and answers come first
            sent.append((task, *args))
        return True

    monkeypatch.setattr(celery, "send", send)
    monkeypatch.setattr(contradictions, "_down_until", 0.0)
    note(alice, OLD)
    with django_capture_on_commit_callbacks(execute=True):
        write_observation(alice, "finding", NEW, by=Actor("agent", "claude"))
    [asked] = [args[0] for task, *args in sent if task == "memory.tasks.find_contradictions"]
    tasks.find_contradictions(asked)
    tasks.find_contradictions(asked)
    assert Conflict.objects.for_user(alice).standing().count() == 1


def test_writes_of_a_night_without_workers_send_no_more_than_a_full_queue_holds(
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(celery, "send", lambda task, *args, queue: sent.append(queue))
    monkeypatch.setattr(celery, "MAX_WAITING", 0)
    with django_capture_on_commit_callbacks(execute=True):
        write_observation(alice, "finding", NEW, by=Actor("agent", "claude"))
    assert "background" not in sent


def test_maintenance_finds_what_a_lost_message_left_out(alice: User) -> None:
    note(alice, OLD)
    note(alice, NEW)
    tasks.find_conflicts_of(alice.pk)
    assert Conflict.objects.for_user(alice).standing().count() == 1


def test_a_pair_that_was_kept_is_not_reported_until_one_changes(alice: User) -> None:
    note(alice, OLD)
    new = note(alice, NEW)
    [found] = contradictions.report(new)
    conflict_services.resolve(found, "both", by=alice.actor)
    contradictions.report(new)
    assert not Conflict.objects.for_user(alice).open().exists()
    edit_note(new, by=alice.actor, content="Billing still runs PostgreSQL 12.23.")
    contradictions.report(new)
    assert Conflict.objects.for_user(alice).open().count() == 1


@pytest.mark.parametrize(
    "more", [{"trust": "external"}, {"trust": "quarantined"}, {"source": "run:3"}]
)
def test_what_comes_from_outside_raises_nothing(alice: User, more: dict[str, str]) -> None:
    note(alice, OLD)
    assert contradictions.report(note(alice, NEW, **more)) == []


def test_an_edit_in_another_line_raises_nothing(alice: User) -> None:
    note(alice, OLD)
    other = note(alice, "Orders run PostgreSQL 12.")
    assert contradictions.report(other) == []


def test_a_note_that_contradicts_forty_is_named_by_each(alice: User) -> None:
    for number in range(40):
        note(alice, f"Billing runs PostgreSQL 13. Seen on server {number + 100}.")
    found = contradictions.report(note(alice, NEW))
    assert len(found) == 40
    assert len(contradictions.others_of(found[0])) == 39
