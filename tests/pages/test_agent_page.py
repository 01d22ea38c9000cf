"""The page of one agent: what it did lately, what is pending, its rules and record, its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.accounts import tokens
from memory.models import Agent, ApiToken, Note, ReviewLevel, Use, User
from memory.models.actors import RESEARCH
from memory.services.notes.saving import write_note
from memory.services.review import proposals as reviewing
from tests.api.cast import Program
from tests.memory.review_cast import AGENT, proposed_note
from tests.pages.record_cast import note, text_of

WRITER = reverse("memory:writer-level")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def desk(alice: User) -> Agent:
    token, _text = tokens.issue(alice, name="desk", scopes=["read"], by=alice.actor)
    return token.agent


def page_of(agent: Agent) -> str:
    return reverse("memory:agent", args=[agent.pk])


def test_it_shows_what_the_agent_wrote_and_read(browser: Client, alice: User, desk: Agent):
    write_note(alice, "log", "Ferries run hourly.", by=AGENT, trust="agent")
    Use.note_records(alice, [note(alice, "Quote prices in euros.")], str(AGENT))
    Use.note_records(alice, [note(alice, "For a run.")], "run:7")

    page = browser.get(page_of(desk))

    assert [(one["said"], one["label"]) for one in page.context["written"]] == [
        ("created note", "Ferries run hourly.")
    ]
    assert [one["label"] for one in page.context["read"]] == ["Quote prices in euros."]
    assert page.context["week"] == {"used": 1, "written": 1, "waiting": 0, "rejected": 0}


def test_a_token_with_full_access_writes_as_the_person(browser: Client, alice: User):
    program = Program(alice, "admin")
    Note.objects.filter(pk=note(alice, "From the web.").pk).update(trust="external")
    assert "From the web." in program.get("/notes").content.decode()

    page = browser.get(page_of(program.token.agent))

    assert page.context["held_until"] is None
    assert "so its changes are saved as yours" in text_of(page)
    assert "hasn’t changed anything yet" not in text_of(page)


def test_beacons_own_agent_has_what_runs_wrote_and_read(browser: Client, alice: User):
    Use.note_records(alice, [note(alice, "For a run.")], "run:7")
    write_note(alice, "log", "It was published.", by=RESEARCH, trust="external")

    page = browser.get(page_of(Agent.objects.get(owner=alice, name="research")))

    assert [one["label"] for one in page.context["read"]] == ["For a run."]
    assert [one["label"] for one in page.context["written"]] == ["It was published."]
    assert "needs no token" not in text_of(page) and "Create a token" not in text_of(page)


def test_it_shows_pending_proposals_and_the_record_of_each_type(
    browser: Client, alice: User, desk: Agent
):
    reviewing.reject(proposed_note(alice, "Buy now."), by=alice.actor)
    waits = proposed_note(alice, "# Fares\n\nThey rise on Fridays.")

    page = browser.get(page_of(desk))

    assert waits.get_absolute_url() in page.content.decode()
    assert "Fares · They rise on Fridays." in text_of(page)
    record = {one["kind"]: one["record"] for one in page.context["rules"]}["note"]
    assert record and (record.rejected, record.waiting) == (1, 1)


def test_its_rules_are_saved_together_and_can_be_undone(browser: Client, alice: User, desk: Agent):
    sent = {"writer": str(AGENT), "kind": ["note", "rule"], "level": ["accept", ""]}

    page = browser.post(WRITER, {**sent, "next": page_of(desk)}, follow=True)

    assert page.redirect_chain == [(page_of(desk), 302)]
    assert "Review rules for desk saved." in text_of(page)
    rule = ReviewLevel.objects.get()
    assert (rule.writer, rule.kind, rule.level) == (str(AGENT), "note", "accept")
    assert '<option value="accept" selected>' in page.content.decode()


def test_its_tokens_can_be_revoked_here(browser: Client, desk: Agent):
    token = ApiToken.objects.get(agent=desk)
    revoke = reverse("memory:token-revoke", args=[token.pk])

    page = browser.post(revoke, {"next": page_of(desk)}, follow=True)

    assert page.redirect_chain == [(page_of(desk), 302)]
    assert (page.context["tokens"], page.context["ended"]) == ([], [token])
    assert "Not connected" in text_of(page)


def test_the_form_for_another_token_has_its_name(browser: Client, desk: Agent):
    page = browser.get(reverse("memory:tokens"), {"name": "desk"})
    assert page.context["form"]["name"].value() == "desk"


def test_a_stranger_sees_none_of_it(bob: User, desk: Agent, client_of: Callable[[User], Client]):
    assert client_of(bob).get(page_of(desk)).status_code == 404


def test_the_number_of_queries_does_not_grow(
    browser: Client, alice: User, desk: Agent, django_assert_max_num_queries: Any
):
    for number in range(12):
        proposed_note(alice, f"It waits, number {number}.")
        write_note(alice, "log", f"Ferry {number} runs hourly.", by=AGENT, trust="agent")
        tokens.issue(alice, name="desk", scopes=["read"], by=alice.actor)
    Use.note_records(alice, list(Note.objects.for_user(alice)), str(AGENT))
    with django_assert_max_num_queries(24):
        browser.get(page_of(desk))
