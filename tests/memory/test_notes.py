"""Notes: what can be written, what is found, and what an edit keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.models import Note, Revision, Trust, Use, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.services.notes.saving import edit_note, pin, unpin, write_note
from memory.services.search import bm25
from tests.memory.tool_cast import call, caller
from tests.research.factories import make_topic

AGENT = Actor("agent", "claude")


def listed(owner: User, *context: Any, **asked: Any) -> list[dict[str, Any]]:
    """What the tool for agents lists."""
    found: list[dict[str, Any]] = call(owner, "list_memory", *context, **asked).data["notes"]
    return found


def write(owner: User, content: str = "The office moves in May.", **more: Any) -> Note:
    return write_note(owner, more.pop("kind", "log"), content, by=more.pop("by", AGENT), **more)


def errors_of(owner: User, **more: Any) -> dict[str, Any]:
    before = Note.objects.count()
    with pytest.raises(InvalidValue) as refused:
        write(owner, **more)
    assert Note.objects.count() == before
    return refused.value.errors


@pytest.mark.requirement("R186")
def test_the_six_kinds_are_written_and_another_is_refused_with_those_that_are_known(alice: User):
    Note.objects.for_user(alice).delete()
    rule = {"confidence": 0.9, "evidence": ["seen twice"]}
    for kind in Note.Kind.values:
        write(alice, kind=kind, **(rule if kind == "rule" else {}))

    assert "log, summary, rule, soul, agent, user" in errors_of(alice, kind="diary")["kind"][0]


@pytest.mark.requirement("R187")
def test_a_note_has_the_seeds_fields_with_their_defaults(alice: User):
    note = write(alice, job="run:7")

    note.refresh_from_db()
    assert (note.scope, note.tags, note.confidence, note.stability) == ("owner", [], 1.0, "stable")
    assert (note.ttl_days, note.expires_at, note.sensitivity, note.evidence) == (
        None,
        None,
        "normal",
        [],
    )
    assert (note.job, note.superseded_by, note.trust, note.source) == (
        "run:7",
        None,
        "agent",
        "agent:claude",
    )
    assert note.created and note.updated


@pytest.mark.requirement("R189")
def test_a_volatile_note_without_days_to_live_is_refused(alice: User):
    assert "Expires after" in errors_of(alice, stability="volatile")["ttl_days"][0]


@pytest.mark.requirement("R190")
def test_a_permanent_note_with_days_to_live_is_refused(alice: User):
    refused = errors_of(alice, stability="permanent", ttl_days=30)

    assert "never expires" in refused["ttl_days"][0]


@pytest.mark.requirement("R191")
def test_a_rule_wants_a_confidence_of_eight_tenths_and_evidence(alice: User):
    refused = errors_of(alice, kind="rule", confidence=0.79, by=AGENT)

    assert refused.keys() == {"confidence", "evidence"}
    assert write(alice, kind="rule", confidence=0.8, evidence=["run:3"], by=AGENT).pk


def test_a_persons_rule_needs_no_evidence_and_an_agents_new_words_for_it_do(alice: User):
    rule = write(alice, "Cite two sources.", kind="rule", by=alice.actor)
    edit_note(rule, by=AGENT, tags=["style"])

    for words in ({"content": "Cite nobody."}, {"evidence": []}):
        with pytest.raises(InvalidValue) as refused:
            edit_note(rule, by=AGENT, **words)
        assert refused.value.errors.keys() == {"evidence"}
    assert edit_note(rule, by=alice.actor, content="Cite three.").content == "Cite three."


@pytest.mark.parametrize("value", [-0.1, 1.01, "much", None, float("nan"), float("inf"), True])
def test_a_confidence_outside_nothing_to_one_is_refused(alice: User, value: Any):
    assert "from 0 to 1" in errors_of(alice, confidence=value)["confidence"][0]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("stability", "eternal", "volatile, stable, permanent"),
        ("sensitivity", "secret", "normal, sensitive"),
        ("ttl_days", 0, "1 to 36,500"),
        ("ttl_days", "soon", "1 to 36,500"),
        ("ttl_days", 10**9, "1 to 36,500"),
        ("tags", ["x" * 10_000], "has 10,000"),
        ("tags", [str(n) for n in range(51)], "currently 51"),
        ("tags", ["food, drink"], "can’t contain a comma"),
        ("evidence", ["x" * 2_001], "has 2,001"),
        ("scope", "everybody", "run:<number>"),
        ("content", "  \x00 ", "Enter the text"),
        ("content", "é" * 32_769, "65,538 bytes, 2 over the limit"),
        ("content", "x" * 1_000_000, "934,464 over the limit"),
    ],
)
def test_each_field_is_refused_with_what_is_wrong_and_by_how_much(
    alice: User, field: str, value: Any, told: str
):
    assert told in errors_of(alice, **{field: value})[field][0]


def test_all_that_is_wrong_is_explained_at_once(alice: User):
    refused = errors_of(alice, content="", confidence=7, stability="eternal", scope="x")

    assert refused.keys() == {"content", "confidence", "stability", "scope"}


def test_what_cannot_be_stored_is_removed_and_said(alice: User):
    note = write(alice, "half\x00 a \ud800word", tags=["a\x07b", "ab"])

    note.refresh_from_db()
    assert (note.content, note.tags) == ("half a word", ["ab"])
    assert write(alice, "half\x00").cleaned == ("content",)


def test_64_kib_are_kept_to_the_byte(alice: User):
    note = write(alice, "é" * 32_768)

    note.refresh_from_db()
    assert len(note.content.encode()) == 65_536


@pytest.mark.requirement("R192")
def test_a_note_expires_after_its_days_and_without_any_never(alice: User):
    week = write(alice, stability="volatile", ttl_days=7)

    assert abs(week.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)
    assert write(alice).expires_at is None


@pytest.mark.requirement("R193")
def test_a_note_is_gone_at_the_very_second_it_expires_on_every_way(alice: User):
    note = write(alice, ttl_days=1)
    last = note.expires_at

    assert note in Note.objects.for_user(alice).active(last - timedelta(microseconds=1))
    assert note not in Note.objects.for_user(alice).active(last)
    assert note.has_expired(last) and note in Note.objects.for_user(alice).expired(last)
    with timezone.override("Asia/Tokyo"):
        assert note not in Note.objects.for_user(alice).active(timezone.localtime(last))


@pytest.mark.requirement("R194")
def test_the_newest_fifty_active_notes_are_given_newest_first(alice: User):
    for number in range(52):
        write(alice, f"note {number}")
    gone = write(alice, "in the trash")
    gone.trash(by=alice.actor)

    given = listed(alice, kind="log")
    assert [note["content"] for note in given] == [f"note {number}" for number in range(51, 1, -1)]


@pytest.mark.requirement("R195")
def test_any_of_the_tags_will_do_and_the_limit_counts_what_bears_one(alice: User):
    old = [write(alice, "old", tags=["deploy"]), write(alice, "older", tags=["ops", "x"])]
    for number in range(60):
        write(alice, f"newer {number}", tags=["else"])

    given = listed(alice, tags=["deploy", "ops"])
    assert {note["id"] for note in given} == {str(note.pk) for note in old}


@pytest.mark.requirement("R196")
def test_notes_are_given_by_owner_kind_and_scope(alice: User, bob: User):
    run = write(alice, kind="summary", scope="run:7")
    own = write(alice, kind="summary")
    write(alice, kind="summary", scope="run:8")
    write(bob, kind="summary", scope="run:7")

    given = listed(alice, caller(alice, scope="run:7"), kind="summary")
    assert [note["id"] for note in given] == [str(own.pk), str(run.pk)]


@pytest.mark.requirement("R210")
def test_an_edit_is_a_revision_and_keeps_what_it_does_not_name(alice: User):
    kept = {
        "kind": "rule", "sensitivity": "sensitive", "confidence": 0.85, "evidence": ["run:3"],
        "scope": "run:3", "tags": ["ops"], "ttl_days": 30,
    }  # fmt: skip
    note = write(alice, **kept)
    expires_at = note.expires_at

    edit_note(note, by=AGENT, content="The office moves in June.", why="later")

    note.refresh_from_db()
    assert {name: getattr(note, name) for name in kept} == kept
    assert (note.version, note.expires_at) == (2, expires_at)
    change = Revision.objects.get(record_id=note.pk, version=2)
    assert change.after == {"content": "The office moves in June."}
    assert (change.actor, change.reason) == ("agent:claude", "later")


def test_an_edited_note_is_found_by_its_new_words_and_not_by_the_old(alice: User):
    note = write(alice)

    edit_note(note, by=alice.actor, content="The office moves in June.")

    assert bm25.search(alice, "note", "June")[0][0] == note.pk
    assert bm25.search(alice, "note", "May") == []


def test_what_a_person_edited_is_trusted_and_marked(alice: User):
    note = write(alice, trust=Trust.EXTERNAL)

    edit_note(note, by=alice.actor, tags=["checked"])
    assert (note.trust, note.edited_by_person) == ("external", True)

    edit_note(note, by=alice.actor, content="I looked: June.")
    assert note.trust == "owner"


def test_an_edit_is_held_to_the_same_rules(alice: User):
    note = write(alice, stability="volatile", ttl_days=7)

    with pytest.raises(InvalidValue) as refused:
        edit_note(note, by=alice.actor, kind="rule", ttl_days=None)
    assert refused.value.errors.keys() == {"ttl_days"}

    edit_note(note, by=alice.actor, stability="permanent")
    assert (note.ttl_days, note.expires_at) == (None, None)


def test_the_same_days_to_live_keep_the_expiry_and_others_count_from_now(alice: User):
    note = write(alice, ttl_days=7)
    first = note.expires_at

    edit_note(note, by=alice.actor, ttl_days=7, content="again")
    assert note.expires_at == first
    edit_note(note, by=alice.actor, renew=True)
    assert note.expires_at > first
    edit_note(note, by=alice.actor, ttl_days=30)
    assert note.expires_at > first + timedelta(days=20)


def test_a_pinned_note_does_not_expire_and_counts_its_days_again_when_unpinned(alice: User):
    note = write(alice, stability="volatile", ttl_days=7)

    pin(note, by=alice.actor)
    assert (note.expires_at, note.ttl_days) == (None, 7)
    edit_note(note, by=alice.actor, ttl_days=None)
    assert note.expires_at is None
    edit_note(note, by=alice.actor, ttl_days=3)
    unpin(note, by=alice.actor)
    assert note.expires_at is not None


def test_a_second_window_is_reported_and_a_locked_note_is_a_persons_alone(alice: User):
    note = write(alice)
    edit_note(note, by=alice.actor, content="first")
    with pytest.raises(StaleWrite):
        edit_note(note, by=alice.actor, expected_version=1, content="second")

    note.change(by=alice.actor, lock="append-only")
    for actor in (AGENT, MAINTENANCE):
        with pytest.raises(Locked):
            edit_note(note, by=actor, content="third")


def test_a_note_hangs_on_a_topic_of_its_owner_only(alice: User, bob: User):
    topic = make_topic(bob, "Bob's own")

    assert "This topic doesn’t exist" in errors_of(alice, topic=topic)["topic"][0]


def test_a_permanent_deletion_removes_the_uses_it_lists(alice: User):
    note = write_note(alice, "log", "The kettle leaks.", by=alice.actor)
    Use.note(alice, [("note", note.pk)], "agent:claude")

    note.purge(by=alice.actor)

    assert not Use.objects.for_user(alice).exists()
