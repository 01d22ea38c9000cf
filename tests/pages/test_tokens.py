"""Agents → API tokens: made and shown once, listed, revoked."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.accounts import tokens
from memory.models import Activity, Agent, ApiToken, Invitation, User
from memory.services.review import trust
from research.services.topics import sharing
from tests.pages.topic_cast import make

HTMX = {"HX-Request": "true"}
PAGE = "/settings/tokens/"
WANTED = {"name": "claude", "scopes": "read write", "days": "365"}


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    """Alice's browser."""
    return client_of(alice)


def _token(owner: User, name: str = "claude", **more: Any) -> ApiToken:
    scopes = more.pop("scopes", ["read", "write"])
    return tokens.issue(owner, name=name, scopes=scopes, by=owner.actor, **more)[0]


def _text(body: str) -> str:
    return body.partition('id="new-token"')[2].partition('value="')[2].partition('"')[0]


def test_a_token_is_shown_once_and_only_its_hash_is_stored(browser: Client) -> None:
    text = _text(browser.post(PAGE, WANTED).content.decode())

    token = ApiToken.objects.get()
    assert text.startswith("bcn_")
    assert token.hash == Invitation.hash_of(text)
    assert text not in browser.get(PAGE).content.decode()


def test_of_a_form_sent_twice_the_token_that_is_seen_works_alone(
    browser: Client, alice: User
) -> None:
    unseen, seen = (_text(browser.post(PAGE, WANTED).content.decode()) for _press in range(2))

    assert tokens.find(unseen) is None
    assert tokens.find(seen) is not None
    used = _text(browser.post(PAGE, WANTED | {"name": "other"}).content.decode())
    tokens.find(used)
    browser.post(PAGE, WANTED | {"name": "other"})
    assert tokens.find(used) is not None


def test_it_acts_as_an_agent_of_its_name_within_its_scopes_and_time(browser: Client) -> None:
    browser.post(PAGE, WANTED | {"scopes": "read", "days": "7"})

    token = ApiToken.objects.get()
    assert (token.agent.name, token.scopes) == ("claude", ["read"])
    assert token.expires_at is not None
    assert timedelta(days=6) < token.expires_at - timezone.now() <= timedelta(days=7)
    assert Activity.objects.filter(kind="token-created", subject_id=str(token.pk)).exists()


def test_over_htmx_the_list_comes_back_alone_with_the_token(browser: Client) -> None:
    body = browser.post(PAGE, WANTED, headers=HTMX).content.decode()

    assert body.lstrip().startswith('<div id="tokens"')
    assert _text(body).startswith("bcn_")


def test_the_setups_hold_the_token_that_was_just_made_and_this_beacons_address(
    browser: Client,
) -> None:
    body = browser.post(PAGE, WANTED).content.decode()

    assert body.count(_text(body)) >= 4
    assert "http://127.0.0.1:8001/mcp" in body
    assert "bcn_…" in browser.get(PAGE).content.decode()


def test_each_app_that_signs_in_has_its_steps_with_this_beacons_address(browser: Client) -> None:
    page = browser.get(PAGE)
    apps = [app for _title, group in page.context["app_groups"] for app in group]
    steps = {name: sign_in for name, sign_in, _by_token in apps if sign_in}

    assert [*steps] == [
        "Claude (web, desktop and mobile)", "ChatGPT", "Claude Code", "Codex", "Cursor", "VS Code",
    ]  # fmt: skip
    assert all("http://127.0.0.1:8001/mcp" in one.text for one in steps.values())
    assert json.loads(steps["Cursor"].text)["mcpServers"]["beacon"].keys() == {"url"}
    assert json.loads(steps["VS Code"].text)["servers"]["beacon"]["type"] == "http"
    body = page.content.decode()
    assert "In Claude, open Settings → Connectors" in body and "turn on Developer mode" in body
    assert body.count("needs a public HTTPS URL") == 2  # this one isn't public


def test_who_runs_containers_is_told_the_command_in_them(browser: Client, settings: Any) -> None:
    groups = browser.get(PAGE).context["app_groups"]
    setups = [by_token for _title, group in groups for _name, _sign_in, by_token in group]
    setup = {one.key: one for one in setups if one}["compose"]

    server = json.loads(setup.text)["mcpServers"]["beacon"]
    services = (settings.BASE_DIR / "docker-compose.yml").read_text()
    assert server["command"] == "docker"
    assert server["args"][3:] == [
        "exec", "-T", "-e", "BEACON_API_TOKEN=bcn_…", "mcp", "beacon", "mcp", "--stdio",
    ]  # fmt: skip
    assert "\n  mcp:\n" in services


def test_the_command_that_installs_hooks_names_this_server(browser: Client, settings: Any) -> None:
    settings.BEACON_URL = "http://127.0.0.1:8010"

    body = browser.get(PAGE).content.decode()

    assert "beacon-memory --url http://127.0.0.1:8010 hooks install claude-code" in body


def test_only_admins_are_told_the_folders_of_this_machine(
    browser: Client, admin: User, client_of: Callable[[User], Client], settings: Any
) -> None:
    folder = f"{settings.BASE_DIR}/manage.py"

    assert folder not in browser.get(PAGE).content.decode()
    assert folder in client_of(admin).get(PAGE).content.decode()


def test_behind_https_programs_come_in_by_the_same_host(browser: Client, settings: Any) -> None:
    settings.BEACON_URL, settings.BEACON_HTTPS = "https://beacon.example", True

    assert "https://beacon.example/mcp" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "name, such as claude."),
        ({"name": "research"}, "is reserved for Beacon"),
        ({"name": "a:b"}, "can’t contain a colon"),
        ({"name": "x" * 81}, "Ensure this value has at most 80 characters (it has 81)."),
        ({"scopes": "root"}, "is not one of the available choices"),
        ({"days": "-1"}, "is not one of the available choices"),
    ],
)
def test_bad_input_is_explained_and_what_was_typed_stays(
    browser: Client, wrong: dict[str, str], said: str
) -> None:
    answer = browser.post(PAGE, WANTED | wrong)

    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_revoked_token_opens_nothing_and_it_is_said_that_this_is_permanently(
    browser: Client, alice: User
) -> None:
    token, text = tokens.issue(alice, name="claude", scopes=["read"], by=alice.actor)
    assert tokens.find(text) == token

    body = browser.post(f"{PAGE}{token.pk}/revoke/", headers=HTMX).content.decode()

    assert tokens.find(text) is None
    assert "create a new token" in body
    assert Activity.objects.filter(kind="token-revoked", subject_id=str(token.pk)).count() == 1


def test_revoked_twice_it_is_reported_once(browser: Client, alice: User) -> None:
    token = _token(alice)
    for _time in range(2):
        browser.post(f"{PAGE}{token.pk}/revoke/")

    assert Activity.objects.filter(kind="token-revoked").count() == 1


def test_a_strangers_tokens_are_neither_seen_nor_revoked(
    browser: Client, bob: User, client_of: Callable[[User], Client], alice: User
) -> None:
    token = _token(alice, "alices-secretary")

    assert "alices-secretary" not in client_of(bob).get(PAGE).content.decode()
    assert client_of(bob).post(f"{PAGE}{token.pk}/revoke/").status_code == 404
    assert ApiToken.objects.usable().count() == 1


def test_the_number_of_queries_does_not_grow_with_tokens(
    browser: Client, alice: User, django_assert_num_queries: Any
) -> None:
    for number in range(8):
        token = _token(alice, f"program {number}")
        if number % 2:
            tokens.revoke(token, by=alice.actor)
    with django_assert_num_queries(7):
        browser.get(PAGE)


# --- the agents that tokens open ------------------------------------------------------------------

AGENTS = "/agents/permissions/"
SETTINGS = {"enable_memory": "on", "compaction_prompt": "Say what is new."}


@pytest.mark.requirement("R132")
def test_an_agent_begins_with_memory_off_sharing_on_and_no_model(alice: User) -> None:
    agent = _token(alice).agent

    assert (agent.enable_memory, agent.share_with_subagents) == (False, True)
    assert (agent.use_model_compaction, agent.compaction_prompt) == (False, "")
    assert Agent.objects.get(name="research").enable_memory is True


@pytest.mark.requirement("R132")
def test_a_person_changes_the_four_settings_of_an_agent(browser: Client, alice: User) -> None:
    agent = _token(alice).agent

    browser.post(f"/agents/{agent.pk}/", SETTINGS | {"use_model_compaction": "on"})

    agent.refresh_from_db()
    assert (agent.enable_memory, agent.share_with_subagents) == (True, False)
    assert (agent.use_model_compaction, agent.compaction_prompt) == (True, "Say what is new.")
    assert Activity.objects.filter(kind="agent-changed", subject_id=str(agent.pk)).count() == 1


def test_over_htmx_the_form_of_an_agent_comes_back_alone(browser: Client, alice: User) -> None:
    agent = _token(alice).agent

    body = browser.post(f"/agents/{agent.pk}/", SETTINGS, headers=HTMX).content.decode()

    assert body.lstrip().startswith('<form id="agent"')
    assert "saved" in body


def test_a_prompt_that_is_too_long_is_refused_with_numbers_and_kept(
    browser: Client, alice: User
) -> None:
    agent = _token(alice).agent
    long = "x" * 4001

    body = browser.post(f"/agents/{agent.pk}/", {"compaction_prompt": long}).content.decode()

    assert "4,001 characters, but the limit is 4,000" in body
    assert long in body
    agent.refresh_from_db()
    assert agent.compaction_prompt == ""


def test_a_strangers_agents_are_neither_seen_nor_changed(
    alice: User, bob: User, client_of: Callable[[User], Client]
) -> None:
    agent = _token(alice, "alices-secretary").agent

    assert "alices-secretary" not in client_of(bob).get(AGENTS).content.decode()
    assert client_of(bob).post(f"/agents/{agent.pk}/", SETTINGS).status_code == 404


def test_the_number_of_queries_does_not_grow_with_agents(
    browser: Client, alice: User, django_assert_num_queries: Any
) -> None:
    for number in range(8):
        _token(alice, f"program {number}")
    with django_assert_num_queries(8):
        body = browser.get(AGENTS).content.decode()
    assert "program 7" in body
    assert "built-in" in body


def test_of_an_agent_that_was_shown_web_text_it_is_said_that_its_words_wait(
    browser: Client, alice: User
) -> None:
    said = "its writes outside a topic need your approval"
    agent = _token(alice).agent
    assert said not in browser.get(AGENTS).content.decode()
    trust.note(agent, "external")
    assert said in browser.get(AGENTS).content.decode()
    Agent.objects.filter(pk=agent.pk).update(read_at=timezone.now() - trust.KEPT)
    assert said not in browser.get(AGENTS).content.decode()


def test_a_chat_token_comes_with_the_settings_of_openais_clients(browser: Client) -> None:
    shown = browser.post(PAGE, {"name": "editor", "scopes": "chat", "days": "90"}, follow=True)

    body = shown.content.decode()
    token = ApiToken.objects.get()
    assert token.scopes == ["chat"]
    assert "OPENAI_BASE_URL=http://127.0.0.1:8000/v1" in body
    assert 'class="fold-row" name="app" open' in body


@pytest.mark.requirement("R398")
def test_a_token_is_limited_to_topics_of_ones_own_and_shared_ones(
    browser: Client, alice: User, bob: User
) -> None:
    mine, bobs, shared = make(alice, "Ferries"), make(bob, "A secret"), make(bob, "Trains")
    sharing.add_member(shared, "alice", "viewer", by=bob.actor)
    asked = {"name": "desk", "scopes": "read", "days": "90"}
    page = browser.get(PAGE).content.decode()
    assert "Ferries" in page and "Trains" in page and "A secret" not in page

    refused = browser.post(PAGE, asked | {"topics": [bobs.pk]})
    chat = browser.post(PAGE, asked | {"topics": [mine.pk], "scopes": "chat"})
    assert not ApiToken.objects.exists()
    assert "aria-invalid" in refused.content.decode()
    assert "can’t have this permission" in chat.content.decode()
    shown = browser.post(PAGE, asked | {"topics": [mine.pk, shared.pk]}).content.decode()

    assert set(ApiToken.objects.get().topic_ids) == {mine.pk, shared.pk}
    assert "only <bdi>Ferries</bdi>, <bdi>Trains</bdi>" in shown
    shared.members.all().delete()
    assert "<bdi>a topic you don’t have access to</bdi>" in browser.get(PAGE).content.decode()


@pytest.mark.requirement("R398")
def test_a_limit_to_a_topic_that_is_gone_isnt_dropped(browser: Client, alice: User) -> None:
    asked = {"name": "desk", "scopes": "read", "days": "90"}
    assert "Limit to topics" not in browser.get(PAGE).content.decode()  # nothing to choose from
    topic = make(alice, "Ferries")
    topic.trash(by=alice.actor)

    refused = browser.post(PAGE, asked | {"topics": [topic.pk]}).content.decode()

    assert not ApiToken.objects.exists()
    assert "Limit to topics" in refused and "is no longer available" in refused
    assert browser.post(PAGE, asked).status_code == 200
    assert ApiToken.objects.get().topic_ids == []
