"""OAuth for MCP: metadata, consent, tokens, and everything that is refused there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.net.http import Reply
from memory.accounts import oauth, tokens
from memory.accounts.tokens import mcp_url
from memory.models import (
    Activity,
    Agent,
    ApiToken,
    Invitation,
    OAuthClient,
    OAuthGrant,
    User,
)
from tests.pages.oauth_cast import BACK, App, offered, sent
from tests.research.factories import make_topic

DOCUMENT = "https://apps.example/client.json"
OWN_BACK, LOCAL_BACK = "https://apps.example/back", "http://127.0.0.1/back"


@pytest.fixture(autouse=True)
def _no_one_asked_before(db: None) -> None:
    cache.clear()


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    """Alice's browser."""
    return client_of(alice)


@pytest.fixture
def app(browser: Client) -> App:
    """An app that registered itself."""
    return App(browser)


def _opens(told: dict[str, Any]) -> bool:
    return tokens.find(told["access_token"], at_mcp=True) is not None


# --- metadata ---


def test_metadata_names_urls_that_exist_and_only_pkce_with_s256(client: Client) -> None:
    told = client.get("/.well-known/oauth-authorization-server").json()

    assert told["code_challenge_methods_supported"] == ["S256"]
    assert told["client_id_metadata_document_supported"] is True
    assert told["authorization_response_iss_parameter_supported"] is True
    for name in ("token", "registration", "revocation"):
        path = told[f"{name}_endpoint"].removeprefix(told["issuer"])
        assert client.post(path).status_code in (200, 400)
    assert (
        client.get(told["authorization_endpoint"].removeprefix(told["issuer"])).status_code == 302
    )


@pytest.mark.parametrize("path", ["", "/mcp"])
def test_the_resource_names_its_authorization_server(client: Client, path: str) -> None:
    told = client.get(f"/.well-known/oauth-protected-resource{path}").json()

    issuer = client.get("/.well-known/oauth-authorization-server").json()["issuer"]
    assert (told["resource"], told["authorization_servers"]) == (mcp_url(), [issuer])
    assert told["scopes_supported"] == ["read", "write"]


# --- consent ---


def test_the_consent_page_says_who_asks_what_it_can_do_and_where_one_returns(app: App) -> None:
    page = app.asks().content.decode()

    assert "Allow <bdi>Desk app</bdi> to use your memory?" in page
    assert "Beacon can’t verify who made the app." in page
    assert "risky writes wait for your approval" in page
    assert "<b>app.example</b>" in page
    assert "Access also expires after 90 days without use." in page


def test_allowed_an_app_gets_a_token_that_acts_as_its_agent(app: App, alice: User) -> None:
    told = app.connected()

    token = tokens.find(told["access_token"], at_mcp=True)
    assert token is not None
    assert (token.agent.name, token.agent.owner, token.scopes) == (
        "Desk app",
        alice,
        ["read", "write"],
    )
    assert (told["expires_in"], told["scope"], told["token_type"]) == (3600, "read write", "Bearer")
    line = Activity.objects.get(kind="app-allowed", owner=alice)
    assert line.detail == {"app": "Desk app", "host": "app.example"}
    for url in (reverse("memory:agent", args=[token.agent_id]), reverse("memory:tokens")):
        assert "connected with OAuth (app.example)" in app.browser.get(url).content.decode()


def test_only_what_the_person_chose_is_granted(app: App) -> None:
    assert app.connected(scopes="read")["scope"] == "read"


@pytest.mark.requirement("R398")
def test_an_app_can_be_limited_to_topics_and_never_gets_more_by_refreshing(
    app: App, alice: User, bob: User
) -> None:
    topic, theirs = make_topic(alice, "Ferries"), make_topic(bob, "Trains")
    page = app.asks().content.decode()
    assert "Limit to topics" in page and "Ferries" in page and "Trains" not in page

    told = app.connected(topics=[str(topic.pk)])
    assert told["access_token"], told
    refreshed = app.refresh(told["refresh_token"]).json()
    token = tokens.find(refreshed["access_token"], at_mcp=True)
    assert token is not None and token.topic_ids == [topic.pk]

    for gone in (str(theirs.pk), "no-topic"):
        refused = app.allowed(topics=[gone])
        assert refused.status_code == 200 and ApiToken.objects.for_user(alice).count() == 1
        assert "no longer available" in refused.content.decode()


def test_an_app_that_asks_only_to_read_can_get_no_more(app: App) -> None:
    page = app.asks(scope="read").content.decode()
    response = app.allowed(scope="read", scopes="read write")

    assert 'value="read write"' not in page
    assert response.status_code == 200
    assert not OAuthGrant.objects.exists()


@pytest.mark.parametrize("scope", ["admin", "metrics", "openid profile"])
def test_no_app_gets_a_scope_meant_for_people(app: App, scope: str) -> None:
    assert offered(app.asks(scope=scope))["error"] == "invalid_scope"
    assert app.connected(scope=f"{scope} read write")["scope"] == "read write"


def test_a_person_who_cancels_sends_the_app_away_empty_handed(app: App) -> None:
    told = sent(app.allowed(answer="deny"))

    assert (told["error"], told["state"]) == ("access_denied", "s p&ce")
    assert not ApiToken.objects.exists()


def test_the_name_of_a_built_in_agent_is_refused_in_the_form(app: App) -> None:
    page = app.allowed(name="research").content.decode()

    assert "is reserved for Beacon." in page
    assert 'value="s p&amp;ce"' in page, "the request is still in the form"


def test_an_app_is_not_offered_the_name_of_another_agent(app: App, alice: User) -> None:
    Agent.objects.create(owner=alice, name="desk APP")

    assert 'value="Desk app 2"' in app.asks().content.decode()


def test_a_session_that_ended_leads_back_to_the_consent_page(app: App) -> None:
    app.browser.logout()

    response = app.asks()
    page = app.browser.get(response["Location"])

    assert response["Location"].startswith("/sign-in/?next=/oauth/authorize%3F")
    assert "state" in response["Location"]
    assert page["Cross-Origin-Opener-Policy"] == "unsafe-none"


# --- bad input: the request ---


WRONG = [
    "https://evil.example/back",
    f"{BACK}/more",
    f"{BACK}?a=1",
    f"{BACK}#x",
    "https://app.example.evil.example/back",
    "http://app.example/back",
    "//app.example/back",
    "javascript:alert(1)",
    "",
]


def test_a_wrong_redirect_leads_nowhere(app: App) -> None:
    for back in WRONG:
        for response in (app.asks(redirect_uri=back), app.allowed(redirect_uri=back)):
            assert response.status_code == 400, back
            assert "Location" not in response
            assert "redirect URI isn’t one that the app registered" in response.content.decode()
    assert not ApiToken.objects.exists()


def test_a_repeated_redirect_leads_nowhere(app: App) -> None:
    wanted = app.wanted() | {"redirect_uri": [BACK, "https://evil.example/back"]}

    assert app.browser.get("/oauth/authorize", wanted).status_code == 400


def test_an_unknown_app_is_told_to_connect_again(app: App) -> None:
    response = app.asks(client_id="nobody")

    assert response.status_code == 400
    assert "connect it again" in response.content.decode()


@pytest.mark.parametrize(
    "changed",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
    ],
)
def test_without_pkce_nothing_is_asked(app: App, changed: dict[str, Any]) -> None:
    assert offered(app.asks(**changed))["error"] == "invalid_request"
    assert sent(app.allowed(**changed))["error"] == "invalid_request"


def test_a_link_to_beacon_leads_nowhere_by_itself(browser: Client) -> None:
    away = App(browser, back="https://evil.example/login?a=1&b=2")
    here = App(browser, back="http://127.0.0.1:1234/callback")

    page = away.asks(response_type="token")
    told = offered(page)

    assert "Return to evil.example</a>" in page.content.decode()
    assert (told["error"], told["state"], told["a"]) == (
        "unsupported_response_type", "s p&ce", "1",
    )  # fmt: skip
    assert "Return to the app</a>" in here.asks(response_type="token").content.decode()
    assert "Return to" not in away.asks(redirect_uri="https://evil.example/").content.decode()


@pytest.mark.parametrize(
    "resource",
    ["https://other.example/mcp", "http://127.0.0.1:8001/other", "http://127.0.0.1:1/mcp"],
)
def test_another_resource_is_refused_at_every_step(app: App, resource: str) -> None:
    assert offered(app.asks(resource=resource))["error"] == "invalid_target"
    assert app.redeem(app.code(), resource=resource).json()["error"] == "invalid_target"


def test_a_form_from_another_site_allows_nothing(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")

    assert App(browser).allowed().status_code == 403
    assert not ApiToken.objects.exists()


def test_the_page_can_not_be_framed_and_its_form_leads_only_to_the_app(app: App) -> None:
    response = app.asks()

    policy = response["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert response["X-Frame-Options"] == "DENY"
    assert re.search(r"form-action 'self' https://app\.example(;|$)", policy)
    assert response["Cache-Control"].startswith("max-age=0")


def test_a_hostile_name_and_logo_stay_text(browser: Client) -> None:
    app = App(browser)
    hostile = "\u202e<img src=x onerror=alert(1)>\u200b\n\x00" + "A" * 200
    told = app.register(
        client_name=hostile,
        redirect_uris=[BACK],
        logo_uri="https://evil.example/logo.svg",
        client_uri="javascript:alert(1)",
    )

    page = app.asks(client_id=told.json()["client_id"]).content.decode()

    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img src=x" not in page
    assert not {"\u202e", "\u200b"} & set(page)
    assert "evil.example" not in page
    assert "javascript:" not in page
    assert len(told.json()["client_name"]) <= 80


# --- bad input: codes and tokens ---


def test_a_code_works_once_and_its_replay_ends_what_it_gave(app: App) -> None:
    code = app.code()
    told = app.redeem(code).json()
    assert _opens(told)

    replayed = app.redeem(code)

    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert not _opens(told)
    assert app.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"
    assert Activity.objects.filter(kind="app-secret-reused", is_warning=True).count() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": "x" * 43},
        {"code_verifier": None},
        {"redirect_uri": "https://app.example/other"},
        {"redirect_uri": None},
        {"client_id": "another"},
    ],
)
def test_a_stolen_code_opens_nothing_and_is_used_up(app: App, changed: dict[str, Any]) -> None:
    code = app.code()
    expected = "invalid_client" if "client_id" in changed else "invalid_grant"

    assert app.redeem(code, **changed).json()["error"] == expected
    assert app.redeem(code).json()["error"] == "invalid_grant"


def test_a_code_is_too_old_after_a_minute(app: App) -> None:
    code = app.code()
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert app.redeem(code).json()["error"] == "invalid_grant"


def test_a_refresh_token_is_replaced_and_an_old_one_ends_the_grant(app: App) -> None:
    first = app.connected()
    second = app.refresh(first["refresh_token"]).json()
    assert (_opens(first), _opens(second)) == (False, True)

    again = app.refresh(first["refresh_token"])

    assert again.json()["error"] == "invalid_grant"
    assert not _opens(second)
    assert app.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_refresh_token_of_another_app_ends_the_grant(app: App) -> None:
    told, other = app.connected(), App(app.browser)

    assert other.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"
    assert not _opens(told)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"scope": "read write admin"}, "invalid_scope"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"client_id": None}, "invalid_request"),
        ({"client_id": "unknown", "refresh_token": "bcr_x.y"}, "invalid_client"),
        ({"client_id": "\x00", "refresh_token": "bcr_x.\x00"}, "invalid_client"),
        ({"refresh_token": "bcr_x.y"}, "invalid_grant"),
        ({"refresh_token": "bcr_" + "\u00e9" * 500}, "invalid_grant"),
    ],
)
def test_a_wrong_refresh_is_refused_and_the_grant_stays(
    app: App, changed: dict[str, Any], error: str
) -> None:
    told = app.connected()

    assert app.refresh(told["refresh_token"], **changed).json()["error"] == error
    assert "access_token" in app.refresh(told["refresh_token"]).json()


def test_an_access_token_ends_after_an_hour_and_the_refresh_token_after_ninety_days(
    app: App,
) -> None:
    told = app.connected()

    OAuthGrant.objects.update(access_until=timezone.now())
    assert not _opens(told)
    ApiToken.objects.update(expires_at=timezone.now())
    assert app.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"


def test_an_access_token_is_for_the_mcp_server_and_for_its_url(app: App, client: Client) -> None:
    told = app.connected()
    bearer = {"Authorization": f"Bearer {told['access_token']}"}

    assert client.get("/api/v1/notes", headers=bearer).status_code == 401
    OAuthGrant.objects.update(resource="https://other.example/mcp")
    assert not _opens(told)


def test_a_code_or_refresh_token_isnt_an_access_token(app: App) -> None:
    code = app.code()
    told = app.redeem(code).json()

    assert tokens.find(code, at_mcp=True) is None
    assert tokens.find(told["refresh_token"], at_mcp=True) is None


def test_a_disabled_account_ends_what_its_apps_can_do(app: App, alice: User) -> None:
    told = app.connected()
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert not _opens(told)
    assert app.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"


def test_of_secrets_only_hashes_are_stored_and_none_is_logged(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    code = app.code()
    told = app.redeem(code).json()
    given = [code, told["access_token"], told["refresh_token"], app.verifier]

    rows = [*ApiToken.objects.values(), *OAuthGrant.objects.values(), *Activity.objects.values()]
    assert ApiToken.objects.get().hash == Invitation.hash_of(told["access_token"])
    for text in given:
        assert text not in str(rows)
        assert text not in caplog.text


# --- revoking ---


def test_a_person_sees_connected_apps_next_to_tokens_and_revokes_them_at_once(
    app: App, alice: User
) -> None:
    tokens.issue(alice, name="script", scopes=["read"], by=alice.actor)
    told = app.connected()
    page = app.browser.get("/settings/tokens/").content.decode()
    key = ApiToken.objects.get(grant__isnull=False).pk

    response = app.browser.post(f"/settings/tokens/{key}/revoke/", follow=True)

    assert "<bdi>Desk app</bdi>, connected with OAuth" in page
    assert "To restore it, connect" in response.content.decode()
    assert not _opens(told)
    assert app.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"


def test_an_app_that_was_allowed_but_never_came_back_is_not_listed(app: App) -> None:
    app.code()

    assert "connected with OAuth" not in app.browser.get("/settings/tokens/").content.decode()
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    app.code()
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_an_app_can_sign_out(app: App, kind: str) -> None:
    told = app.connected()

    wrong = app.post("/oauth/revoke", {"token": told[kind], "client_id": "another"})
    assert (wrong.status_code, _opens(told)) == (200, True)
    OAuthGrant.objects.update(access_until=timezone.now())  # also after the access token ended
    app.post("/oauth/revoke", {"token": told[kind], "client_id": app.client_id})
    assert ApiToken.objects.get().revoked_at is not None
    assert app.refresh(told["refresh_token"]).json()["error"] == "invalid_grant"


def test_an_app_can_not_revoke_a_persons_own_token(app: App, alice: User) -> None:
    _token, text = tokens.issue(alice, name="script", scopes=["read"], by=alice.actor)

    response = app.post("/oauth/revoke", {"token": text, "client_id": app.client_id})

    assert response.status_code == 200
    assert tokens.find(text) is not None


def test_no_one_revokes_another_persons_app(
    app: App, bob: User, client_of: Callable[[User], Client]
) -> None:
    told = app.connected()

    answer = client_of(bob).post(f"/settings/tokens/{ApiToken.objects.get().pk}/revoke/")

    assert answer.status_code == 404
    assert _opens(told)


# --- registration ---


CALLED_BACK = [
    "https://app.example/back",
    "http://127.0.0.1:1234/callback",
    "http://localhost/callback",
    "http://[::1]:9/cb",
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "com.example.app:/back",
]
NOT_CALLED_BACK = [
    "http://app.example/back",
    "http://127.0.0.1.evil.example/back",
    "https://user:pass@app.example/back",
    "https://app.example/back#x",
    "https:///back",
    "https://app.example\\@evil.example/",
    "https://app.example/a b",
    "https://b\u00fccher.example/back",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "ftp://app.example/",
    "intent://x",
    "/back",
    "https://app.example:99999/",
    "https://app.example;script-src/",
    "https://[app.example/",
    "https://app.example/" + "x" * 2000,
]
NO_METADATA = [
    b"",
    b"[]",
    b"{}",
    b'{"redirect_uris": []}',
    b'{"redirect_uris": "https://app.example/back"}',
    b'{"redirect_uris": [1]}',
    b"[" * 10_000,
    json.dumps({"redirect_uris": [BACK] * 21}).encode(),
    json.dumps({"redirect_uris": [BACK], "grant_types": ["implicit"]}).encode(),
    json.dumps({"redirect_uris": [BACK], "client_name": "x" * 20_000}).encode(),
]


def test_an_app_can_be_called_back_by_https_on_this_computer_or_by_its_own_scheme(app: App) -> None:
    for uri in CALLED_BACK:
        told = app.register(redirect_uris=[uri], client_name=None, token_endpoint_auth_method="x")

        assert told.status_code == 201, uri
        assert told.json()["token_endpoint_auth_method"] == "none"
        assert told.json()["client_name"] == "Unnamed app"
        assert "client_secret" not in told.json()


def test_an_app_can_not_be_called_back_anywhere_else(app: App) -> None:
    answers = {uri: app.register(redirect_uris=[uri]) for uri in NOT_CALLED_BACK}

    errors = {uri: one.json()["error"] for uri, one in answers.items()}
    assert errors == dict.fromkeys(NOT_CALLED_BACK, "invalid_redirect_uri")
    assert {one.status_code for one in answers.values()} == {400}


def test_metadata_that_makes_no_sense_is_refused_with_a_reason(app: App) -> None:
    for body in NO_METADATA:
        answer = app.server.post("/oauth/register", body, "application/json")

        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata"), (
            body
        )
        assert len(answer.json()["error_description"]) > 20


def test_on_this_computer_the_port_can_be_another_one(browser: Client) -> None:
    app = App(browser, back="http://127.0.0.1/callback")

    assert app.asks(redirect_uri="http://127.0.0.1:50123/callback").status_code == 200
    assert app.asks(redirect_uri="http://127.0.0.1:50123/other").status_code == 400
    assert app.asks(redirect_uri="http://localhost:50123/callback").status_code == 400


def test_a_flood_from_one_address_is_stopped(app: App) -> None:
    statuses = [app.register(redirect_uris=[BACK]).status_code for _number in range(21)]

    assert set(statuses) == {201, 429}
    assert OAuthClient.objects.count() == 20
    assert int(app.register(redirect_uris=[BACK])["Retry-After"]) > 0


def test_a_flood_from_one_ipv6_network_is_stopped(app: App) -> None:
    body = json.dumps({"redirect_uris": [BACK]})

    def registers(address: str) -> int:
        return app.server.post(
            "/oauth/register", body, "application/json", REMOTE_ADDR=address
        ).status_code

    statuses = [registers(f"2001:db8:1:{n:x}::1") for n in range(61)]

    assert statuses == [201] * 60 + [429]
    assert registers("2001:db8:2::1") == 201
    assert registers("192.0.2.1") == 201


def test_a_flood_from_many_addresses_does_not_fill_the_disk(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "MAX_UNUSED", 3)
    app.connected()  # an app in use makes no room
    for _number in range(3):
        assert app.register(redirect_uris=[BACK]).status_code == 201

    assert app.register(redirect_uris=[BACK]).status_code == 429
    OAuthClient.objects.update(created=timezone.now() - timedelta(hours=2))
    assert app.register(redirect_uris=[BACK]).status_code == 201
    assert OAuthClient.objects.count() == 4
    OAuthClient.objects.update(created=timezone.now() - timedelta(days=31))
    assert oauth.forget_unused() == 3


def test_tries_at_the_token_url_are_limited_as_sign_ins_are(
    app: App, settings: Any, one_minute: None
) -> None:
    settings.BEACON_SIGN_INS_PER_MINUTE = 2

    statuses = [app.refresh("bcr_x.y").status_code for _number in range(3)]

    assert statuses == [400, 400, 429]


def test_a_form_that_is_none_or_repeats_itself_is_refused(app: App) -> None:
    code = app.code()
    as_json = app.server.post("/oauth/token", json.dumps({"code": code}), "application/json")
    twice = app.server.post(
        "/oauth/token",
        f"grant_type=authorization_code&code={code}&code=x",
        "application/x-www-form-urlencoded",
    )

    assert {as_json.json()["error"], twice.json()["error"]} == {"invalid_request"}


# --- metadata documents ---


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the app's site publishes; its address is checked in tests/providers/test_address_guard."""
    site: dict[str, Any] = {"asked": 0, "fails": None, "document": {}}
    site["document"] = {
        "client_id": DOCUMENT,
        "client_name": "Pages",
        "redirect_uris": [BACK, OWN_BACK, LOCAL_BACK],
    }
    site["type"] = "application/json; charset=utf-8"

    def get_bytes(self: GuardedFetcher, url: str, **more: Any) -> Reply:
        site["asked"] += 1
        if site["fails"]:
            raise site["fails"]
        headers = {"content-type": site["type"]}
        return Reply(200, headers, json.dumps(site["document"]).encode(), url)

    monkeypatch.setattr(GuardedFetcher, "get_bytes", get_bytes)
    return site


def test_an_app_can_publish_its_metadata_instead_of_registering(
    app: App, published: dict[str, Any]
) -> None:
    app.client_id = DOCUMENT
    page = app.asks().content.decode()

    assert "Allow <bdi>Pages</bdi> to use your memory?" in page
    assert "This app is published by <b>apps.example</b>." in page
    assert f"<code>{DOCUMENT}</code>" in page
    assert _opens(app.connected(name="Pages"))
    assert published["asked"] == 1, "the document is kept for an hour"
    again = app.asks(redirect_uri=OWN_BACK).content.decode()
    assert 'value="Pages"' in again, "connected again, it's the same agent"


def test_a_document_proves_nothing_about_an_app_on_this_computer(
    app: App, published: dict[str, Any]
) -> None:
    app.client_id = DOCUMENT
    app.connected(name="Pages")

    local = app.asks(redirect_uri=LOCAL_BACK).content.decode()
    elsewhere = app.asks().content.decode()

    assert "so Beacon can’t check that" in local and "This app is published by" not in local
    assert 'value="Pages 2"' in local
    assert 'value="Pages 2"' in elsewhere


@pytest.mark.parametrize(
    ("kind", "is_read"),
    [
        ("application/json", True),
        ("application/client+json", True),
        ("text/html", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_a_document_is_served_as_json(
    app: App, published: dict[str, Any], kind: str, is_read: bool
) -> None:
    published["type"] = kind

    assert app.asks(client_id=DOCUMENT).status_code == (200 if is_read else 400)


def test_a_changed_document_counts_and_a_site_that_is_down_does_not(
    app: App, published: dict[str, Any]
) -> None:
    app.client_id = DOCUMENT
    app.asks()
    OAuthClient.objects.update(read_at=timezone.now() - timedelta(hours=2))
    published["fails"] = ProviderUnavailable("down")
    assert app.asks().status_code == 200

    published["fails"] = None
    published["document"]["redirect_uris"] = ["https://app.example/new"]
    assert app.asks().status_code == 400


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "https://apps.example/other.json"},
        {"client_id": None},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": None},
    ],
)
def test_a_document_of_another_app_or_with_wrong_redirects_is_refused(
    app: App, published: dict[str, Any], changed: dict[str, Any]
) -> None:
    published["document"] |= changed
    app.client_id = DOCUMENT

    assert app.asks().status_code == 400
    assert not OAuthClient.objects.filter(client_id=DOCUMENT).exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://apps.example",
        "https://apps.example/",
        "https://apps.example/a/../client.json",
        "https://apps.example/client.json#x",
        "https://me@apps.example/client.json",
        "https://apps.example/" + "x" * 1000,
        "https://apps.example/a\x00b",
        "https://[apps.example/client.json",
        "\x00",
        "",
    ],
)
def test_a_client_id_that_isnt_a_proper_url_is_not_fetched(
    app: App, published: dict[str, Any], url: str
) -> None:
    assert app.asks(client_id=url).status_code == 400
    assert published["asked"] == 0


def test_a_document_that_is_missing_is_explained(app: App, published: dict[str, Any]) -> None:
    published["fails"] = ProviderRejected("“apps.example” responded with 404: gone.")

    assert "responded with 404" in app.asks(client_id=DOCUMENT).content.decode()


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/client.json", "https://localhost/c.json", "https://169.254.169.254/c"],
)
def test_a_document_inside_the_network_is_not_fetched(app: App, url: str) -> None:
    response = app.asks(client_id=url)

    assert response.status_code == 400
    assert not OAuthClient.objects.filter(client_id=url).exists()


def test_a_stranger_makes_beacon_fetch_nothing(
    client: Client, app: App, published: dict[str, Any]
) -> None:
    client.get("/oauth/authorize", app.wanted(client_id=DOCUMENT))
    app.redeem("bcc_x.y", client_id=DOCUMENT)

    assert published["asked"] == 0


def test_one_person_can_not_make_beacon_fetch_without_end(
    app: App, published: dict[str, Any], one_minute: None
) -> None:
    statuses = {app.asks(client_id=f"{DOCUMENT}?{n}").status_code for n in range(61)}

    assert statuses == {400, 429}
    assert published["asked"] == 60
