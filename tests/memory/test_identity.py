"""The soul, the agent and the user note: one current note of each, found like any other."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth import get_user_model
from django.db import DataError, IntegrityError, connection, transaction
from django.test import Client

from memory.models import Note, Revision, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.services.context import identity
from memory.services.context.identity import (
    Persona,
    active,
    restore_soul,
    write_persona,
    write_profile,
    write_soul,
)
from memory.services.notes.saving import TYPICAL
from memory.services.search import bm25


def soul_of(user: User) -> Note:
    found = active(user, "soul")
    assert found is not None
    return found


@pytest.mark.requirement("R245")
def test_an_account_starts_with_a_soul_of_seven_steps_and_an_agent(alice: User):
    soul, agent = soul_of(alice), active(alice, "agent")

    steps = [
        line for line in soul.content.splitlines() if line[:2] in {f"{n}." for n in range(1, 8)}
    ]
    assert len(steps) == 7 and "## Principles" in soul.content
    assert agent is not None and Persona.of_text(agent.content).name == "Beacon"
    assert {soul.stability, agent.stability} == {"permanent"}
    assert soul.expires_at is None and soul.trust == "owner"


def test_the_first_notes_are_found_by_their_words(alice: User):
    assert bm25.search(alice, "note", "principles")[0][0] == soul_of(alice).pk
    user = active(alice, "user")
    assert user is not None and bm25.search(alice, "note", "alice")[0][0] == user.pk


def test_the_first_notes_are_written_once(alice: User):
    identity.make_first_notes(alice)

    assert Note.objects.for_user(alice).count() == 3


def test_an_account_whose_notes_fail_is_not_made(monkeypatch: pytest.MonkeyPatch, db: None):
    monkeypatch.setattr(identity, "first_soul", lambda: "\x00 is no text for Postgres")

    with pytest.raises((ValueError, DataError)):
        get_user_model().objects.create_user("carol", password="carol-horse-battery")
    assert not User.objects.filter(username="carol").exists()


@pytest.mark.requirement("R188")
def test_each_kind_has_its_typical_stability(alice: User):
    told = {kind: stability for kind, (stability, _days) in TYPICAL.items()}
    assert told == {
        "log": "volatile", "summary": "volatile", "rule": "stable",
        "soul": "permanent", "agent": "permanent", "user": "permanent",
    }  # fmt: skip
    assert {kind: days for kind, (_s, days) in TYPICAL.items() if days} == {"log": 30, "summary": 7}


@pytest.mark.requirement("R201")
def test_a_new_soul_supersedes_the_old_and_only_one_remains(alice: User):
    first = soul_of(alice)

    second = write_soul(alice, "Be brief.", by=alice.actor, why="shorter")
    third = write_soul(alice, "Be brief and kind.", by=alice.actor)

    assert soul_of(alice) == third
    assert [old["note"] for old in identity.old_souls(alice)] == [second, first]
    assert [old["why"] for old in identity.old_souls(alice)] == ["a new soul", "shorter"]


@pytest.mark.requirement("R201")
def test_the_database_lets_no_second_soul_stand(alice: User):
    with pytest.raises(IntegrityError, match="note_one_active_identity"), transaction.atomic():
        Note.objects.create(owner=alice, kind="soul", content="Another.", stability="permanent")


def test_the_same_soul_again_changes_nothing(alice: User):
    first = soul_of(alice)

    assert write_soul(alice, f"{first.content}\n", by=alice.actor) == first
    assert Note.objects.for_user(alice).filter(kind="soul").count() == 1


def test_an_older_soul_is_brought_back_by_superseding_again(alice: User):
    first = soul_of(alice)
    write_soul(alice, "Be brief.", by=alice.actor)

    back = restore_soul(alice, first, by=alice.actor)

    assert soul_of(alice) == back and back.content == first.content and back.pk != first.pk
    assert len(identity.old_souls(alice)) == 2


def test_a_soul_written_on_an_old_one_is_refused(alice: User, bob: User):
    first = soul_of(alice)
    write_soul(alice, "Be brief.", by=alice.actor, expected=first.pk)

    with pytest.raises(StaleWrite):
        write_soul(alice, "Be long.", by=alice.actor, expected=first.pk)
    with pytest.raises(InvalidValue):
        restore_soul(alice, soul_of(bob), by=alice.actor)


@pytest.mark.django_db(transaction=True)
def test_of_two_new_souls_at_once_one_remains_and_none_is_lost_silently(alice: User):
    came: list[str] = []

    def write(text: str) -> None:
        try:
            write_soul(alice, text, by=Actor("human", "alice"))
            came.append("stands")
        except InvalidValue:
            came.append("refused")
        connection.close()

    threads = [threading.Thread(target=write, args=(f"Be number {n}.",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    made = Note.objects.for_user(alice).filter(kind="soul")
    assert made.count() == 1 + came.count("stands") and len(came) == 4
    assert made.filter(superseded_by=None).count() == 1


@pytest.mark.parametrize(
    "persona",
    [
        Persona("Ada", "Kind.", "Short."),
        Persona("Ada", "", "Short.\n\nVery."),
        Persona("Ada", "Kind.\n\n## A heading\n\ntext", ""),
        Persona("Ada", "", ""),
    ],
)
def test_a_persona_reads_back_as_it_was_written(persona: Persona):
    assert Persona.of_text(persona.as_text()) == persona


def test_a_persona_written_in_another_way_loses_no_word():
    assert Persona.of_text("You are terse.\nAlways.").personality == "You are terse.\nAlways."


@pytest.mark.requirement("R202")
def test_the_agent_note_is_rewritten_and_read_again(alice: User):
    before = active(alice, "agent")

    write_persona(alice, Persona("Ada", "Kind.", "Short."), by=alice.actor)

    after = active(alice, "agent")
    assert before is not None and after == before and after.content.startswith("# Ada")
    assert Revision.objects.filter(record_id=after.pk).count() == 2
    with pytest.raises(InvalidValue) as refused:
        write_persona(alice, Persona(" ", "", ""), by=alice.actor)
    assert refused.value.errors.keys() == {"name"}


@pytest.mark.requirement("R202")
def test_the_user_note_follows_the_profile_in_its_transaction(
    alice: User, client_of, monkeypatch: pytest.MonkeyPatch
):
    client: Client = client_of(alice)
    data = {"display_name": "Alice A.", "email": "a@example.org", "time_zone": "Asia/Tokyo",
            "language": "en", "interests": "Batteries; tea"}  # fmt: skip
    client.post("/settings/profile/", data)

    note = active(alice, "user")
    assert note is not None and "Asia/Tokyo" in note.content and "Batteries; tea" in note.content

    monkeypatch.setattr(identity, "profile_text", lambda user: "")
    answer = client.post("/settings/profile/", {**data, "display_name": "Lost"})
    assert answer.status_code == 409
    alice.refresh_from_db()
    assert alice.display_name == "Alice A."


def test_a_profile_of_odd_characters_becomes_a_note(alice: User):
    alice.display_name, alice.interests = "<b>Ali & Co</b>", "a\x07b"

    note = write_profile(alice, by=alice.actor)

    assert "<b>Ali & Co</b>" in note.content and "\x07" not in note.content
