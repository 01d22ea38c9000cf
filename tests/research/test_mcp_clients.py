"""The official MCP client against the server, over HTTP and standard input and output."""

from __future__ import annotations

import hashlib
import json
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory.accounts import oauth, tokens
from memory.agents.tools import registry as tools
from memory.models import ApiToken, Note, OAuthClient, OAuthGrant, Trust, User
from memory.services.notes.saving import write_note
from research.mcp.server import close_connection
from tests.memory.tool_cast import accept_all
from tests.research.mcp_cast import (
    by_address,
    by_pipe,
    serving,
    text_of,
    token_of,
)

# A database that other threads and processes see costs a second a test: few tests, many cases.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(180),
]
BACK = "https://app.example/back"
BOTH = "application/json, text/event-stream"
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
FILE = "facts/memory.md"
BODY = "# Memory\n\n> Summary: x\n\n- Tea is hot.\n"
# How each tool is called; {note} and {item} are put in.  A new tool needs a line here.
CALLS: dict[str, dict[str, Any]] = {
    "memory_list": {},
    "memory_read": {"path": FILE},
    "memory_write": {"path": FILE, "content": BODY},
    "memory_patch": {"path": FILE, "patches": [{"old_text": "hot", "new_text": "warm"}]},
    "memory": {"command": "view", "path": "/memories"},
    "memory_append": {"path": FILE, "entry": "- Rain is wet."},
    "remember": {"content": "The door is green."},
    "remember_fil": {"findings": ["The plant makes nine million cells a year."]},
    "consolidate": {"messages": [{"role": "user", "content": "We decided to use Postgres."}]},
    "update_memory": {"id": "{note}", "content": "The door is blue."},
    "update_soul": {"content": "Be brief."},
    "recall": {"query": "door"},
    "retrieve": {"id": "{item}"},
    "list_memory": {},
    "about": {"name": "Postgres"},
    "get_context": {"message": "What colour is the door?"},
    "scratchpad_set": {"key": "k", "value": "v"},
    "scratchpad_get": {"key": "k"},
    "scratchpad_list": {},
    "scratchpad_search": {"text": "v"},
    "store_in_memory": {"content": "a long result", "tags": "table"},
    "query_memory": {"tags": "table"},
    "retrieve_from_memory": {"id": "{stored}"},
    "research_topic": {"topic": "Heat pumps"},
    "get_report": {"topic": "Heat pumps"},
}


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server that runs here."""
    with serving() as url:
        yield url


async def _all_called(client: Client, note: str) -> dict[str, Any]:
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == set(tools.REGISTRY) == set(CALLS)
    results: dict[str, Any] = {}
    ids = {"{note}": note, "{item}": note, "{stored}": ""}
    for name, arguments in CALLS.items():
        filled = json.dumps(arguments)
        for place, key in ids.items():
            filled = filled.replace(place, key)
        results[name] = await client.call_tool(name, json.loads(filled))
        if name in ("remember", "store_in_memory"):
            place = "{item}" if name == "remember" else "{stored}"
            ids[place] = results[name].structured_content["records"][0]["id"]
    return results


def _check(results: dict[str, Any]) -> None:
    assert {n: text_of(one) for n, one in results.items() if one.is_error} == {}
    assert "The door is" in text_of(results["recall"])
    assert text_of(results["scratchpad_get"]).strip() == "v"
    assert "a long result" in text_of(results["retrieve_from_memory"])


def test_over_http_it_lists_and_calls_every_tool_in_either_age_of_the_protocol(
    alice: User, address: str
) -> None:
    accept_all(alice)

    async def talk(token: str, mode: str, note: str) -> dict[str, Any]:
        async with by_address(address, token, mode=mode) as client:
            return await _all_called(client, note)

    for mode in ("legacy", "auto"):
        note = write_note(alice, "log", f"The door is red ({mode}).", by=alice.actor)
        _check(anyio.run(talk, token_of(alice), mode, str(note.pk)))
    assert Note.objects.filter(content="The door is green.", source="agent:claude").exists()


def test_over_standard_input_it_calls_every_tool_and_attaches_files(alice: User) -> None:
    accept_all(alice)
    note = str(write_note(alice, "log", "The door is red.", by=alice.actor).pk)

    async def talk(token: str) -> tuple[dict[str, Any], list[str], str]:
        async with by_pipe(token) as client:
            assert "Call get_context once" in (client.instructions or "")
            results = await _all_called(client, note)
            listed = [str(one.uri) for one in (await client.list_resources()).resources]
            assert len((await client.list_resource_templates()).resource_templates) == 3
            read = await client.read_resource(f"beacon://files/{FILE}")
            return results, listed, getattr(read.contents[0], "text", "")

    results, listed, text = anyio.run(talk, token_of(alice))
    _check(results)
    assert f"beacon://files/{FILE}" in listed
    assert "- Tea is warm." in text


def test_what_was_read_from_outside_counts_in_the_next_process_too(
    alice: User, address: str
) -> None:
    note = write_note(alice, "log", "Widgets cost 3", by=alice.actor, trust=Trust.EXTERNAL)

    async def talk(token: str) -> Any:
        async with by_address(address, token) as client:
            await client.call_tool("retrieve", {"id": str(note.pk)})
        async with by_pipe(token) as client:
            return await client.call_tool("remember", {"content": "Widgets are cheap."})

    assert "proposal" in anyio.run(talk, token_of(alice)).structured_content


def test_several_accounts_at_once_see_their_own(alice: User, bob: User, address: str) -> None:
    seen: dict[str, list[str]] = {"alice": [], "bob": []}
    for owner in (alice, bob):
        write_note(owner, "log", f"The secret of {owner} is tea.", by=owner.actor)

    async def ask(name: str, token: str) -> None:
        async with by_address(address, token) as client:
            for _time in range(4):
                found = await client.call_tool("recall", {"query": "secret"})
                seen[name].append(text_of(found))

    async def talk() -> None:
        async with anyio.create_task_group() as group:
            for name, token in pairs:
                group.start_soon(ask, name, token)

    pairs = [(owner.username, token_of(owner)) for owner in (alice, bob)]
    anyio.run(talk)
    assert (len(seen["alice"]), len(seen["bob"])) == (4, 4)
    assert all("secret of alice" in one and "of bob" not in one for one in seen["alice"])
    assert all("secret of bob" in one and "of alice" not in one for one in seen["bob"])


def test_a_token_revoked_while_connected_opens_nothing_more_and_errors_are_told_in_words(
    alice: User, address: str
) -> None:
    def revoke() -> None:
        tokens.revoke(ApiToken.objects.select_related("agent__owner").get(), by=alice.actor)

    async def talk(token: str) -> None:
        async with by_address(address, token) as client:
            assert not (await client.call_tool("memory_list", {})).is_error
            with pytest.raises(MCPError, match="Call resources/list to see what’s available"):
                await client.read_resource("beacon://reports/nothing")
            await anyio.to_thread.run_sync(_closing(revoke))
            with pytest.raises(MCPError, match="error response"):
                await client.call_tool("memory_list", {})

    anyio.run(talk, token_of(alice))


def _granted(owner: User, url: str) -> str:
    """Return an access token that an app got for the URL."""
    app = OAuthClient.objects.create(client_id="app", name="App", redirect_uris=[BACK])
    verifier = "v" * 43
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = oauth.Asked(app, BACK, ("read", "write"), challenge, "", url)
    code = oauth.allow(asked, owner, name="app", scopes=["read", "write"], by=owner.actor)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    told = oauth.exchange(form | {"client_id": "app", "code_verifier": verifier})
    return str(told["access_token"])


def test_an_app_without_a_token_finds_where_it_gets_one(address: str) -> None:
    refused = httpx.post(address, json=LISTING)
    where = re.search(r'resource_metadata="([^"]+)"', refused.headers["WWW-Authenticate"])
    assert refused.status_code == 401 and where is not None

    found = httpx.get(where[1])
    foreign = httpx.get(where[1], headers={"Host": "evil.example"})

    assert found.json()["resource"] == address
    assert found.json()["authorization_servers"] == [settings.BEACON_URL]
    assert foreign.status_code == 421


def test_what_an_app_was_granted_opens_only_the_url_it_was_granted_for(
    alice: User, address: str, settings: Any
) -> None:
    settings.BEACON_MCP_PORT = urlsplit(address).port
    headers = {"Authorization": f"Bearer {_granted(alice, address)}", "Accept": BOTH}
    assert httpx.post(address, json=LISTING, headers=headers).status_code == 200

    for resource in ("https://other.example/mcp", address.replace("127.0.0.1", "evil.example")):
        OAuthGrant.objects.update(resource=resource)
        assert httpx.post(address, json=LISTING, headers=headers).status_code == 401


def test_a_grant_revoked_while_a_call_arrives_does_nothing_more(
    alice: User, address: str, settings: Any
) -> None:
    settings.BEACON_MCP_PORT = urlsplit(address).port
    accept_all(alice)
    text = _granted(alice, address)
    told = {"name": "remember", "arguments": {"content": "Too late."}}
    body = json.dumps(LISTING | {"method": "tools/call", "params": told}).encode()
    connection = HTTPConnection("127.0.0.1", settings.BEACON_MCP_PORT, timeout=30)
    connection.putrequest("POST", "/mcp")
    headers = {
        "Authorization": f"Bearer {text}",
        "Accept": BOTH,
        "Content-Type": "application/json",
    }
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body[:20])
    deadline = time.monotonic() + 20
    while not ApiToken.objects.exclude(last_used_at=None).exists():  # the token was accepted
        assert time.monotonic() < deadline
        time.sleep(0.02)

    tokens.revoke(ApiToken.objects.select_related("agent__owner").get(), by=alice.actor)
    connection.send(body[20:])
    answer = connection.getresponse().read().decode()
    connection.close()

    assert "was revoked or has expired" in answer
    assert not Note.objects.filter(content="Too late.").exists()
    again = httpx.post(address, json=LISTING, headers=headers)
    assert again.status_code == 401


def _closing(act: Callable[[], None]) -> Callable[[], None]:
    """Return `act` for a thread, which gives its connection back."""

    def closed() -> None:
        try:
            act()
        finally:
            close_connection()

    return closed


def test_what_was_written_between_two_reads_is_not_written_over(alice: User, address: str) -> None:
    accept_all(alice)

    async def talk(token: str) -> Any:
        async with by_address(address, token) as client:

            async def write(line: str) -> Any:
                body = BODY.replace("Tea is hot.", line)
                told = {"path": FILE, "content": body, "version": version}
                return await client.call_tool("memory_write", told)

            seen = await client.call_tool("memory_read", {"path": FILE})
            version = seen.structured_content["version"]
            assert not (await write("Tea is cold.")).is_error
            return await write("Tea is gone.")

    refused = anyio.run(talk, token_of(alice))
    assert refused.is_error
    assert refused.structured_content["error"] == "conflict"


# --- the door -------------------------------------------------------------------------------------

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def _post(
    address: str, token: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> httpx.Response:
    told = {**ACCEPT, "Authorization": f"Bearer {token}", **(headers or {})}
    sent = {key.encode(): value.encode() for key, value in told.items()}
    content = body or json.dumps(PING).encode()
    return httpx.post(address, content=content, headers=sent, trust_env=False, timeout=30)


def test_the_door_opens_to_a_token_that_holds_from_a_host_of_its_own(
    alice: User, address: str
) -> None:
    token = token_of(alice)
    for wrong in ("x", "bcn_wrong", "x" * 5_000, "bcn_é"):
        answer = _post(address, wrong)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "You can create one in Agents" in answer.json()["detail"]
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({}, 200),
    ):
        assert _post(address, token, headers=headers).status_code == status, headers
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx.request(method, address, headers=ACCEPT, trust_env=False)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    # A route also matches its path and a final newline.
    for path in ("%0A", "/", "x"):
        answers = [
            _post(f"{address}{path}", "bcn_wrong"),
            _post(f"{address}{path}", token, headers={"Host": "evil.example"}),
            httpx.get(f"{address}{path}", headers=ACCEPT, trust_env=False),
        ]
        assert [answer.status_code for answer in answers] == [401, 421, 405], path
    lives = httpx.get(address.replace("/mcp", "/livez"), trust_env=False)
    assert lives.text == "ok\n"


def test_the_host_name_that_a_proxy_passes_on_is_accepted(
    alice: User, address: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["beacon.example"]

    answer = _post(address, token_of(alice), headers={"Host": "beacon.example"})

    assert answer.status_code == 200


def test_a_page_on_another_port_of_this_machine_cannot_send_a_token(
    alice: User, address: str
) -> None:
    """Its origin is allowed, but no browser lets it send the header that holds the token."""
    page = {"Origin": "http://localhost:3000"}
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }

    preflight = httpx.request("OPTIONS", address, headers={**page, **asked}, trust_env=False)
    bare = httpx.post(address, json=PING, headers={**ACCEPT, **page}, trust_env=False)
    answered = _post(address, token_of(alice), headers=page)

    assert (preflight.status_code, bare.status_code) == (405, 401)
    for answer in (preflight, bare, answered):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_message_that_is_none_is_answered_and_the_next_is_served(
    alice: User, address: str
) -> None:
    token = token_of(alice)
    for body, status in (
        (b"{no json", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
    ):
        assert _post(address, token, body).status_code == status, body[:20]
    large = _post(address, token, b" " * (12 * 1024 * 1024 + 1))
    assert (large.status_code, large.headers["content-type"]) == (413, "application/problem+json")
    assert "limit of 12 MiB" in large.json()["detail"]
    assert _post(address, token).status_code == 200


def test_a_token_that_sends_too_much_is_asked_to_wait(
    alice: User, address: str, settings: Any
) -> None:
    settings.BEACON_API_REQUESTS_PER_MINUTE = 2
    token = token_of(alice)

    answers = [_post(address, token) for _time in range(4)]

    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0


def test_without_a_token_standard_input_ends_with_an_error_and_a_silent_output(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for token in ("", "bcn_wrong"):
        monkeypatch.setenv("BEACON_API_TOKEN", token)
        with pytest.raises(CommandError, match="BEACON_API_TOKEN doesn’t contain a valid token"):
            call_command("mcp", "--stdio")

    assert capsys.readouterr().out == ""
