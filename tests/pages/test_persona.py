"""Agents → Identity → Persona and Soul: who the agent is and how it thinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Note, User
from memory.services.context.identity import active, write_soul

HTMX = {"HX-Request": "true"}
PERSONA, SOUL = "/settings/persona/", "/settings/soul/"


@pytest.fixture
def client(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def note_of(user: User, kind: str) -> Note:
    found = active(user, kind)
    assert found is not None
    return found


def persona_form(user: User, **more: Any) -> dict[str, Any]:
    version = note_of(user, "agent").version
    return {"name": "Ada", "personality": "Kind.", "style": "Short.", "version": version, **more}


def soul_form(user: User, **more: Any) -> dict[str, Any]:
    return {"content": "Be brief.", "why": "shorter", "standing": note_of(user, "soul").pk, **more}


@pytest.mark.requirement("R202")
def test_the_persona_is_saved_and_shown(client: Client, alice: User):
    page = client.post(PERSONA, persona_form(alice), follow=True).content.decode()

    assert 'value="Ada"' in page and "Kind." in page
    assert (
        note_of(alice, "agent").content
        == "# Ada\n\n## Personality\n\nKind.\n\n## Speaking style\n\nShort."
    )


def test_over_htmx_the_persona_answers_with_its_form_and_a_toast(client: Client, alice: User):
    answer = client.post(PERSONA, persona_form(alice), headers=HTMX).content.decode()

    assert answer.strip().startswith('<div id="persona"') and "Persona saved" in answer
    assert 'name="version" value="2"' in answer


def test_a_persona_without_a_name_keeps_what_was_typed(client: Client, alice: User):
    answer = client.post(PERSONA, persona_form(alice, name="", style="In verse."))

    assert answer.status_code == 200
    assert b"Enter a name for the agent" in answer.content and b"In verse." in answer.content
    assert note_of(alice, "agent").version == 1


def test_a_second_window_is_reported_and_keeps_its_persona(client: Client, alice: User):
    stale = persona_form(alice, style="Mine.")
    client.post(PERSONA, persona_form(alice, style="Theirs."))

    page = client.post(PERSONA, stale).content.decode()

    assert (
        "This item changed while you were editing" in page and "Mine." in page and "Theirs." in page
    )
    assert 'name="version" value="2"' in page
    assert "Theirs." in note_of(alice, "agent").content


@pytest.mark.requirement("R201")
def test_a_new_soul_stands_and_the_old_one_is_shown_with_what_changed(client: Client, alice: User):
    page = client.post(SOUL, soul_form(alice), follow=True).content.decode()

    assert note_of(alice, "soul").content == "Be brief."
    assert "Previous souls" in page and "shorter" in page and "Restore this soul" in page
    assert "<ins>" in page and "<del>" in page


def test_the_soul_is_read_until_it_is_edited(client: Client, alice: User):
    write_soul(alice, "# Soul\n\nBe **brief**.", by=alice.actor)

    page = client.get(SOUL).content.decode()
    assert "<strong>brief</strong>" in page and "<textarea" not in page.partition("</main>")[0]
    assert page.count(">Soul</h") == 1  # its first heading is the page's title
    assert "Be **brief**." in client.get(SOUL, {"edit": "1"}).content.decode()


def test_over_htmx_the_soul_answers_with_its_own_part(client: Client, alice: User):
    answer = client.post(SOUL, soul_form(alice), headers=HTMX).content.decode()

    assert answer.strip().startswith('<div id="soul"') and "Soul updated" in answer


def test_an_older_soul_is_brought_back(client: Client, alice: User):
    first = note_of(alice, "soul")
    client.post(SOUL, soul_form(alice))

    for headers in ({}, HTMX):
        answer = client.post(reverse("memory:soul-restore", args=[first.pk]), headers=headers)
        assert answer.status_code == (200 if headers else 302)
    assert note_of(alice, "soul").content == first.content
    assert Note.objects.for_user(alice).filter(kind="soul").count() == 3


@pytest.mark.parametrize("text", ["", "  \x00 ", "x" * 70_000])
def test_a_soul_that_cannot_be_is_explained_and_kept(client: Client, alice: User, text: str):
    answer = client.post(SOUL, soul_form(alice, content=text))

    assert answer.status_code == 200 and b"errorlist" in answer.content
    assert Note.objects.for_user(alice).filter(kind="soul").count() == 1


def test_a_soul_written_in_a_second_window_is_reported(client: Client, alice: User):
    stale = soul_form(alice, content="Mine.")
    client.post(SOUL, soul_form(alice, content="Theirs."))

    page = client.post(SOUL, stale).content.decode()

    assert "This item changed while you were editing" in page and "Mine." in page
    assert note_of(alice, "soul").content == "Theirs."


def test_a_stranger_sees_and_brings_back_nothing_of_alice(
    alice: User, bob: User, client_of: Callable[[Any], Client]
):
    hers = write_soul(alice, "Only Alice's.", by=alice.actor)
    visitor = client_of(bob)

    assert b"Only Alice" not in visitor.get(SOUL).content
    assert visitor.post(reverse("memory:soul-restore", args=[hers.pk])).status_code == 404
    for address in (PERSONA, SOUL):
        assert Client().get(address).headers["Location"].startswith("/sign-in/")


def test_the_number_of_queries_is_fixed(
    client: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(30):
        write_soul(alice, f"Number {number}.", by=alice.actor)
    client.get(SOUL)

    for address in (PERSONA, SOUL, "/settings/profile/"):
        with django_assert_max_num_queries(12):
            assert client.get(address).status_code == 200


def test_the_profile_shows_what_the_agent_is_told(client: Client):
    page = client.get("/settings/profile/").content.decode()

    assert "Your profile note" in page and "signs in as alice" in page


@pytest.mark.requirement("R208")
def test_the_button_prunes_and_merges_and_says_how_many(client: Client, alice: User):
    address = reverse("memory:notes-maintain")
    answer = client.post(address, {"next": "/settings/soul/"}, follow=True)

    assert "0 expired notes moved to Trash; 0 notes were merged into 0 summaries" in (
        answer.content.decode()
    )
    assert client.post(address, headers=HTMX).headers["HX-Redirect"] == "/notes/"
    assert client.get(address).status_code == 405
    evil = client.post(address, {"next": "https://evil.example/"})
    assert evil.headers["Location"] == "/notes/"
