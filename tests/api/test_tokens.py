"""Who can call the API, and on whose behalf a token acts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.accounts import tokens
from memory.models import ApiToken, Note, Revision
from memory.models.actors import SYSTEM
from tests.api.cast import PROBLEM, ROOT, Program, problem


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer bcn_unknown", "Basic YTpi", "bcn_x", "Bearer ü", "Bearer " + "x" * 9000],
    ids=["none", "bare", "empty", "unknown", "basic", "no kind", "no ascii", "long"],
)  # fmt: skip
def test_without_a_token_that_is_known_nothing_opens(db: None, header: str) -> None:
    answer = Client().get(f"{ROOT}/notes", headers={"Authorization": header} if header else {})

    problem(answer, 401)
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_nothing_that_is_stored_of_a_token_opens_anything(alice: Any) -> None:
    tokens.issue(alice, name="desk", scopes=["read"], by=alice.actor)
    stored = ApiToken.objects.get().hash

    for text in (stored, tokens.PREFIX + stored):
        problem(Client().get(f"{ROOT}/notes", headers={"Authorization": f"Bearer {text}"}), 401)


def test_a_session_cookie_opens_nothing(alice: Any, client_of: Callable[[Any], Client]) -> None:
    browser = client_of(alice)

    problem(browser.get(f"{ROOT}/notes"), 401)
    answer = browser.post(f"{ROOT}/notes", {"content": "x"}, content_type="application/json")
    problem(answer, 401)
    assert not Note.objects.for_user(alice).filter(content="x").exists()


def test_a_revoked_token_opens_nothing_from_that_moment(agent: Program) -> None:
    assert agent.get("/notes").status_code == 200

    tokens.revoke(agent.token, by=SYSTEM)

    problem(agent.get("/notes"), 401)


def test_an_expired_token_and_one_of_a_disabled_account_open_nothing(
    agent: Program, stranger: Program
) -> None:
    ApiToken.objects.filter(pk=agent.token.pk).update(expires_at=timezone.now())
    stranger.owner.is_active = False
    stranger.owner.save(update_fields=["is_active"])

    problem(agent.get("/notes"), 401)
    problem(stranger.get("/notes"), 401)


@pytest.mark.parametrize(("scope", "method"), [("read", "POST"), ("write", "GET")])
def test_a_token_of_another_scope_is_told_which_it_needs(
    alice: Any, scope: str, method: str
) -> None:
    answer = Program(alice, scope).send(
        method, "/notes", None if method == "GET" else {"content": "x"}
    )

    told = problem(answer, 403)
    assert f"This token has: {scope}" in told["detail"]
    assert 'error="insufficient_scope"' in answer["WWW-Authenticate"]


def test_an_agents_token_acts_as_the_agent_and_admin_as_the_person(
    agent: Program, person: Program
) -> None:
    ids = [one.post("/notes", {"content": "It rains."}).json()["id"] for one in (agent, person)]

    wrote = [Revision.objects.get(record_id=key).actor for key in ids]
    assert wrote == ["agent:desk", "human:alice"]
    assert [Note.objects.get(pk=key).trust for key in ids] == ["agent", "owner"]


def test_the_last_use_is_noted_at_most_once_a_minute(agent: Program) -> None:
    agent.get("/notes")
    first = ApiToken.objects.get(pk=agent.token.pk).last_used_at
    agent.get("/notes")

    assert ApiToken.objects.get(pk=agent.token.pk).last_used_at == first
    long_ago = timezone.now() - timedelta(minutes=2)
    ApiToken.objects.filter(pk=agent.token.pk).update(last_used_at=long_ago)
    agent.get("/notes")
    assert ApiToken.objects.get(pk=agent.token.pk).last_used_at > long_ago


def test_another_origin_is_not_let_in(agent: Program) -> None:
    answer = agent.get("/notes", Origin="https://elsewhere.example")

    assert not [name for name in answer.headers if name.startswith("Access-Control")]
    preflight = agent.send("OPTIONS", "/notes")
    assert preflight.status_code == 405
    assert preflight["Content-Type"] == PROBLEM
