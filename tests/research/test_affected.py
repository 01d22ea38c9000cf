"""Affects you: which lines of a person's memory a run's changes meet."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from benchmarks import affects as benchmark
from memory.models import Note, Sensitivity, Topic, User
from memory.services.notes.saving import write_note
from research.claims.affects import MAX_LINE_LENGTH, affects
from research.models import AffectedLine, DigestSettings, Run
from research.services.facts import affected
from research.services.notifications import digests
from tests.research.factories import make_item, make_report, make_run, make_topic

END = "PostgreSQL 13 reached its end of life on 13 November 2025."
NOTE = "Billing runs PostgreSQL 13 on db-3."


def write(owner: User, text: str, **more: Any) -> Note:
    """Write a note as its owner does."""
    return write_note(owner, "log", text, by=owner.actor, **more)


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


def ran(topic: Topic, *sentences: str, status: str = "new", **fields: Any) -> Run:
    run = make_run(topic)
    make_report(run)
    for sentence in sentences:
        make_item(run, status, sentence, **fields)
    return run


def texts(run: Run) -> list[str]:
    rows = AffectedLine.objects.standing().filter(item__run=run)
    return [one.text for one in affected.current_lines(list(rows))]


@pytest.mark.requirement("R257")
def test_at_most_one_in_five_is_a_false_alarm():
    judged = benchmark.judge()
    right, wrong, missed = benchmark.measure(judged)

    assert len(judged) == 60 and sum(one.label for one in judged) == 30
    assert wrong / (right + wrong) <= 0.2
    assert right / (right + missed) >= 0.7


@pytest.mark.parametrize(
    "line", ["", " ", "x" * (MAX_LINE_LENGTH + 1), "PostgreSQL", "13", "日本語"]
)
def test_a_line_that_says_little_is_not_met(line: str):
    assert not affects(END, line)


def test_a_run_finds_notes_and_lines_of_files(topic: Topic, alice: User):
    from memory.services.files.saving import save_file

    write(alice, f"# Billing\n\n- {NOTE}\n- Paid yearly.")
    save_file(
        alice, "facts/user.md", "# User\n\n- The shop is on PostgreSQL 13, too.\n", by=alice.actor
    )
    run = ran(topic, END)

    assert affected.note(run, topic) == 2
    assert sorted(texts(run)) == [NOTE, "The shop is on PostgreSQL 13, too."]


def test_a_line_is_named_once_with_the_surest_change(topic: Topic, alice: User):
    write(alice, NOTE)
    listed = "The latest releases of PostgreSQL are 18.1, 17.7 and 13.23."
    run = ran(topic, listed, END)

    affected.note(run, topic)

    assert AffectedLine.objects.get().item.sentence == END


def test_what_a_run_or_a_page_wrote_is_not_the_persons_own(topic: Topic, alice: User):
    write(alice, NOTE, source="run:1")
    write(alice, NOTE.replace("db-3", "db-4"), trust="external")

    assert affected.note(ran(topic, END), topic) == 0


def test_withheld_and_confirmed_changes_affect_no_one(topic: Topic, alice: User, bob: User):
    write(alice, NOTE)
    write(bob, NOTE)
    run = ran(topic, END, status="confirmed")
    make_item(run, "new", END, hidden_reason="not what was asked for")

    assert affected.note(run, topic) == 0


def test_another_persons_memory_is_not_read(topic: Topic, bob: User):
    write(bob, NOTE)

    assert affected.note(ran(topic, END), topic) == 0


def test_a_removed_pair_stays_removed_for_the_same_thing(topic: Topic, alice: User):
    write(alice, NOTE)
    affected.note(ran(topic, END), topic)
    assert affected.dismiss(AffectedLine.objects.get())

    again = ran(topic, "PostgreSQL 13 has received its last fixes, version 13.23.")
    assert affected.note(again, topic) == 0

    write(alice, "The archive needs PostgreSQL 13 until June.")
    other = ran(topic, "PostgreSQL 13 images are removed from the registry.")
    affected.note(other, topic)
    assert texts(other) == ["The archive needs PostgreSQL 13 until June."]


def test_no_text_of_a_line_is_stored_and_an_edited_one_is_not_shown(topic: Topic, alice: User):
    note = write(alice, NOTE)
    run = ran(topic, END)
    affected.note(run, topic)
    assert texts(run) == [NOTE]

    stored = {str(value) for value in AffectedLine.objects.values().get().values()}
    assert not any("Billing" in value for value in stored)
    note.trash(by=alice.actor)
    assert texts(run) == []
    note.purge(by=alice.actor)
    assert not AffectedLine.objects.exists()


def test_a_digest_says_it_without_quoting_sensitive_notes(topic: Topic, alice: User):
    write(alice, NOTE)
    write(alice, "The vault runs PostgreSQL 13 as well.", sensitivity=Sensitivity.SENSITIVE)
    private = make_topic(alice, "Vaults")
    private.change(by=alice.actor, sensitivity=Sensitivity.SENSITIVE)
    write(alice, "The safe runs PostgreSQL 13 as well.", topic=private)
    affected.note(ran(topic, END), topic)
    digest = digests.make(DigestSettings(owner=alice, frequency="daily"), timezone.now())
    assert digest is not None

    [part] = digests.content(digest).parts

    assert [one.text for one in part.affects] == [NOTE]
    assert part.affects[0].item.sentence == END


def test_only_the_beginning_of_an_endless_sentence_is_read():
    # Finding the values in it takes quadratic time.
    line = "Billing runs PostgreSQL 13 on db-3."
    assert affects(f"{END} {'1' * 100_000}", line) == affects(END, line) > 0
