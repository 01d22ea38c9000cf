"""Single sign-on with a real OpenID provider on loopback: linking, invitations, groups, and what's refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from allauth.socialaccount.models import SocialAccount
from authlib import jose
from django.core.cache import cache
from django.test import Client
from oidc_provider_mock import _app as provider_app

from memory.accounts import methods, oidc, people, single_sign_on
from memory.models import Activity, SignIn, User
from tests.pages.provider_cast import Provider
from tests.pages.record_cast import text_of

START, DONE, SIGN_IN = "/sign-in/single-sign-on/", "/sign-in/single-sign-on/done/", "/sign-in/"
SECURITY, LINK = "/settings/sign-ins/", "/settings/sign-ins/single-sign-on/"
PASSWORD = "alice-horse-battery"


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider, settings: Any, alice: User) -> Provider:
    cache.clear()
    settings.BEACON_OIDC_URL = running.url
    settings.BEACON_OIDC_CLIENT_ID = "beacon"
    settings.BEACON_OIDC_CLIENT_SECRET = "the-client-secret"
    settings.BEACON_OIDC_NAME = "Example SSO"
    running.knows("sub-alice", preferred_username="alice.a", email="alice@example.org")
    running.knows("sub-bob", preferred_username="bob.b", name="Bob B", email="alice@example.org")
    return running


def url_of(page: Any) -> str:
    """Return the provider's address that a page leads to."""
    found = re.search(r'content="0; url=([^"]+)"', page.content.decode())
    assert found, page.content.decode()
    return unescape(found[1])


def signs_in(browser: Client, provider: Provider, sub: str, **data: str) -> Any:
    return browser.get(provider.answer(url_of(browser.post(START, data)), sub))


def linked(provider: Provider, _browser: Client) -> None:
    """Store that Alice linked her account."""
    alice = User.objects.get(username="alice")
    SocialAccount.objects.create(user=alice, provider=provider.url, uid="sub-alice")


def links(provider: Provider, browser: Client, sub: str = "sub-alice") -> Any:
    """Link it on the page."""
    url = url_of(browser.post(LINK, {"password": PASSWORD}))
    return browser.get(provider.answer(url, sub), follow=True)


def is_in(browser: Client) -> bool:
    return browser.get(SECURITY).status_code == 200


# --- linking and signing in -----------------------------------------------------------------------


@pytest.mark.requirement("R333")
def test_a_linked_account_signs_in(provider: Provider, browser: Client, alice: User) -> None:
    page = links(provider, browser)
    assert "Linked to <b>alice.a</b>" in text_of(page)

    other = Client()
    answer = signs_in(other, provider, "sub-alice", next="/notes/")

    assert answer["Location"] == "/notes/"
    assert is_in(other)
    assert SignIn.objects.for_user(alice).count() == 1
    kinds = Activity.objects.for_user(alice).values_list("kind", flat=True)
    assert {"sign-in-method-added", "signed-in"} <= set(kinds)


def test_the_sign_in_page_offers_the_provider_only_if_there_is_one(
    provider: Provider, settings: Any
) -> None:
    assert "Sign in with Example SSO" in text_of(Client().get(SIGN_IN))

    settings.BEACON_OIDC_URL = ""

    assert "Example SSO" not in text_of(Client().get(SIGN_IN))
    assert Client().post(START).status_code == 404
    assert Client().get(DONE).status_code == 404


def test_linking_needs_the_password(provider: Provider, browser: Client) -> None:
    page = browser.post(LINK, {"password": "guess"})

    assert "Wrong password" in text_of(page)
    assert "http-equiv" not in page.content.decode()


@pytest.mark.requirement("R334")
def test_an_email_or_username_of_someone_else_links_nothing(
    provider: Provider, alice: User
) -> None:
    provider.knows("sub-mallory", preferred_username="alice", email="alice@example.org")

    answer = signs_in(browser := Client(), provider, "sub-mallory")

    assert answer.status_code == 403
    assert "Your Example SSO account isn’t linked to a Beacon account" in text_of(answer)
    assert not is_in(browser)
    assert not SocialAccount.objects.exists()


def test_an_identity_belongs_to_one_account(
    provider: Provider, browser: Client, bob: User, client_of: Callable[[User], Client]
) -> None:
    linked(provider, browser)
    bobs = client_of(bob)
    url = url_of(bobs.post(LINK, {"password": "bob-horse-battery"}))

    page = bobs.get(provider.answer(url, "sub-alice"), follow=True)

    assert "linked to another Beacon account. Nothing was changed." in text_of(page)
    assert SocialAccount.objects.get().user.username == "alice"


def test_another_provider_does_not_open_accounts_of_the_first(
    provider: Provider, browser: Client, settings: Any
) -> None:
    linked(provider, browser)
    settings.BEACON_OIDC_URL = provider.url + "/"

    assert signs_in(Client(), provider, "sub-alice").status_code == 403


def test_a_link_is_removed_but_not_the_last_way_in(
    provider: Provider, browser: Client, alice: User
) -> None:
    links(provider, browser)
    browser.post(f"{LINK}remove/", {"password": PASSWORD})
    assert not SocialAccount.objects.exists()
    linked(provider, browser)
    alice.set_unusable_password()
    alice.save()
    signs_in(only := Client(), provider, "sub-alice")

    page = only.post(f"{LINK}remove/")

    assert "the only way to sign in" in text_of(page)
    assert SocialAccount.objects.exists()


def test_a_second_step_is_asked_after_the_provider_too(
    provider: Provider, browser: Client, alice: User
) -> None:
    linked(provider, browser)
    secret = "JBSWY3DPEHPK3PXP"
    totp = methods.totp
    code = totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30))
    codes = methods.turn_on_app(alice, secret, code)

    answer = signs_in(other := Client(), provider, "sub-alice", next="/notes/")

    assert answer["Location"] == "/sign-in/code/"
    assert not is_in(other)
    assert other.post("/sign-in/code/", {"code": codes[0]})["Location"] == "/notes/"


def test_a_disabled_account_stays_closed(provider: Provider, browser: Client, alice: User) -> None:
    linked(provider, browser)
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert "This account is disabled" in text_of(signs_in(Client(), provider, "sub-alice"))


def test_an_account_locked_by_wrong_passwords_is_locked_here_too(
    provider: Provider, browser: Client
) -> None:
    linked(provider, browser)
    for _try in range(5):
        Client().post(SIGN_IN, {"username": "alice", "password": "guess"})

    assert signs_in(other := Client(), provider, "sub-alice").status_code == 429
    assert not is_in(other)


# --- invitations and groups ------------------------------------------------------------------------


@pytest.mark.requirement("R335")
def test_an_account_is_created_only_by_an_invitation(provider: Provider, admin: User) -> None:
    assert signs_in(Client(), provider, "sub-bob").status_code == 403
    _row, token = people.invite(by=admin, note="Bob", grants_admin=False)
    assert "Create account with Example SSO" in text_of(Client().get(f"/invitation/{token}/"))

    answer = signs_in(browser := Client(), provider, "sub-bob", invitation=token)

    assert answer["Location"] == "/"
    made = User.objects.get(username="bob.b")
    assert (made.display_name, made.email, made.has_usable_password()) == ("Bob B", "", False)
    assert is_in(browser)
    assert signs_in(Client(), provider, "sub-bob")["Location"] == "/"
    assert Client().post(START, {"invitation": token}).status_code == 404


def test_of_two_people_with_one_invitation_the_second_gets_nothing(
    provider: Provider, admin: User
) -> None:
    _row, token = people.invite(by=admin, note="Bob", grants_admin=False)
    late = Client()
    url = url_of(late.post(START, {"invitation": token}))
    signs_in(Client(), provider, "sub-bob", invitation=token)

    answer = late.get(provider.answer(url, "sub-carol"))

    assert "already used" in text_of(answer)
    assert not SocialAccount.objects.filter(uid="sub-carol").exists()


def test_a_username_that_is_taken_gets_a_number(provider: Provider, admin: User) -> None:
    provider.knows("sub-x", preferred_username="ALICE")
    _row, token = people.invite(by=admin, note="Bob", grants_admin=False)

    signs_in(Client(), provider, "sub-x", invitation=token)

    assert SocialAccount.objects.get(uid="sub-x").user.username == "ALICE2"


@pytest.mark.requirement("R336")
def test_a_group_makes_an_admin_and_leaving_it_ends_that(
    provider: Provider, browser: Client, alice: User, admin: User, settings: Any
) -> None:
    settings.BEACON_OIDC_ADMIN_GROUPS = frozenset({"Beacon admins"})
    linked(provider, browser)
    provider.knows("sub-alice", groups=["staff", "Beacon admins"])
    signs_in(Client(), provider, "sub-alice")
    alice.refresh_from_db()
    assert alice.is_staff

    provider.knows("sub-alice", groups=["staff"])
    signs_in(Client(), provider, "sub-alice")

    alice.refresh_from_db()
    assert not alice.is_staff


def test_the_last_admin_stays_one(
    provider: Provider, browser: Client, alice: User, settings: Any
) -> None:
    linked(provider, browser)
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    settings.BEACON_OIDC_ADMIN_GROUPS = frozenset({"admins"})

    assert signs_in(Client(), provider, "sub-alice").status_code == 302

    alice.refresh_from_db()
    assert alice.is_staff


def test_people_outside_the_allowed_groups_are_refused(
    provider: Provider, browser: Client, settings: Any
) -> None:
    linked(provider, browser)
    settings.BEACON_OIDC_GROUPS = frozenset({"beacon"})

    answer = signs_in(Client(), provider, "sub-alice")

    assert "isn’t in a group that can use Beacon" in text_of(answer)


# --- what's refused ---------------------------------------------------------------------------------


@pytest.mark.requirement("R337")
def test_an_answer_works_once_and_only_in_its_browser(provider: Provider, browser: Client) -> None:
    linked(provider, browser)
    first = Client()
    back = provider.answer(url_of(first.post(START)), "sub-alice")

    assert "started in another browser" in text_of(Client().get(back))
    assert first.get(back).status_code == 302
    first.post("/sign-out/")
    assert "already used" in text_of(first.get(back))
    assert not is_in(first)


def test_a_code_of_another_sign_in_is_refused(provider: Provider, browser: Client) -> None:
    """The attacker's own state with another person's code: PKCE and the nonce don't match."""
    linked(provider, browser)
    theirs = parse_qs(provider.answer(url_of(Client().post(START)), "sub-alice").split("?")[1])
    mine = Client()
    back = provider.answer(url_of(mine.post(START)), "sub-mallory").split("?")[1]
    state = parse_qs(back)["state"][0]

    answer = mine.get(f"{DONE}?code={theirs['code'][0]}&state={state}")

    assert answer.status_code == 403
    assert not is_in(mine)


def test_a_code_redeemed_twice_is_refused(provider: Provider, browser: Client) -> None:
    linked(provider, browser)
    first, second = Client(), Client()
    back = provider.answer(url_of(first.post(START)), "sub-alice")
    code = parse_qs(back.split("?")[1])["code"][0]
    first.get(back)
    state = parse_qs(urlsplit(url_of(second.post(START))).query)["state"][0]

    assert second.get(f"{DONE}?code={code}&state={state}").status_code == 403


def test_cancelling_at_the_provider_is_explained(provider: Provider) -> None:
    answer = signs_in(Client(), provider, "")

    assert "Example SSO didn’t sign you in" in text_of(answer)


@pytest.mark.requirement("R337")
def test_after_the_provider_changed_its_keys_sign_in_works_and_old_ones_do_not(
    provider: Provider, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(provider, browser)
    old = provider.storage.jwk
    provider.storage.jwk = jose.JsonWebKey.generate_key("RSA", 2048, is_private=True)
    assert signs_in(Client(), provider, "sub-alice").status_code == 302

    signed_with(monkeypatch, key=old.as_dict(is_private=True))

    assert signs_in(Client(), provider, "sub-alice").status_code == 403


def signed_with(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Let the provider sign its tokens with something else."""
    usual = provider_app.OpenIDCode.get_jwt_config

    def config(self: Any, grant: Any, client: Any = None) -> Any:
        return usual(self, grant, client) | changed

    monkeypatch.setattr(provider_app.OpenIDCode, "get_jwt_config", config)


@pytest.mark.parametrize(
    "changed",
    [{"iss": "https://evil.example"}, {"exp": -600}, {"alg": "HS256", "key": "a" * 64}],
    ids=["issuer", "expired", "algorithm"],
)
@pytest.mark.requirement("R337")
def test_a_token_with_a_wrong_claim_is_refused(
    provider: Provider, browser: Client, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    linked(provider, browser)
    signed_with(monkeypatch, **changed)

    answer = signs_in(other := Client(), provider, "sub-alice")

    assert answer.status_code == 403
    assert "didn’t respond as expected" in text_of(answer)
    assert not is_in(other)


def test_a_token_for_another_app_is_refused(
    provider: Provider, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(provider, browser)
    signed_with(monkeypatch, aud=["another"])

    assert signs_in(Client(), provider, "sub-alice").status_code == 403


def test_a_token_of_another_attempt_is_refused(provider: Provider, browser: Client) -> None:
    linked(provider, browser)
    other = Client()
    url = re.sub(r"nonce=[^&]+", "nonce=another", url_of(other.post(START)))

    assert other.get(provider.answer(url, "sub-alice")).status_code == 403


def test_userinfo_about_someone_else_adds_nothing(
    provider: Provider,
    browser: Client,
    alice: User,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linked(provider, browser)
    settings.BEACON_OIDC_ADMIN_GROUPS = frozenset({"admins"})
    told = {"sub": "sub-mallory", "groups": ["admins"]}
    monkeypatch.setattr(oidc._Protocol, "_fetch_user_info", lambda _self, _token: told)

    signs_in(Client(), provider, "sub-alice")

    alice.refresh_from_db()
    assert not alice.is_staff


@pytest.mark.parametrize(
    "config",
    [{}, {"issuer": "https://evil.example"}, [], "x", None],
)
def test_a_configuration_that_is_wrong_is_explained(
    provider: Provider, settings: Any, httpserver: Any, config: Any
) -> None:
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(config)
    settings.BEACON_OIDC_URL = httpserver.url_for("").rstrip("/")

    answer = Client().post(START)

    assert answer.status_code == 503
    assert "Example SSO didn’t respond as expected" in text_of(answer)


def test_a_provider_that_is_down_is_explained(provider: Provider, settings: Any) -> None:
    settings.BEACON_OIDC_URL = "http://127.0.0.1:1"

    assert "didn’t respond as expected" in text_of(Client().post(START))


def test_a_provider_that_leads_elsewhere_is_not_followed(
    provider: Provider, settings: Any, httpserver: Any
) -> None:
    for_config = httpserver.expect_request("/.well-known/openid-configuration")
    for_config.respond_with_data("", status=302, headers={"Location": provider.url})
    settings.BEACON_OIDC_URL = httpserver.url_for("").rstrip("/")

    assert Client().post(START).status_code == 503
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("goal", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_no_one_is_led_elsewhere_afterwards(provider: Provider, browser: Client, goal: str) -> None:
    linked(provider, browser)

    assert signs_in(Client(), provider, "sub-alice", next=goal)["Location"] == "/"


def test_the_secret_is_not_logged(
    provider: Provider, browser: Client, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    signed_with(monkeypatch, iss="https://evil.example")
    url = url_of(browser.post(LINK, {"password": PASSWORD}))
    browser.get(provider.answer(url, "sub-alice"))

    assert "single sign-on failed" in caplog.text
    assert "the-client-secret" not in caplog.text


# --- a header of a trusted proxy ----------------------------------------------------------------------


@pytest.fixture
def header(alice: User, settings: Any) -> dict[str, str]:
    """The header with Alice's name, which counts only from 10.0.0.2."""
    from ipaddress import ip_network

    cache.clear()
    settings.BEACON_TRUSTED_HEADER = "Remote-User"
    settings.BEACON_TRUSTED_HEADER_FROM = (ip_network("10.0.0.2/32"),)
    settings.BEACON_TRUST_PROXY = True
    return {"HTTP_REMOTE_USER": "alice", "HTTP_X_FORWARDED_FOR": "203.0.113.4"}


@pytest.mark.requirement("R338")
def test_a_trusted_proxys_header_signs_in(header: dict[str, str], alice: User) -> None:
    browser = Client(REMOTE_ADDR="10.0.0.2", **header)

    assert browser.get("/sign-in/?next=/notes/")["Location"] == "/notes/"
    assert is_in(browser)
    assert SignIn.objects.get().address == "203.0.113.4"


@pytest.mark.parametrize(
    ("address", "more"),
    [
        ("10.0.0.3", {}),
        ("203.0.113.9", {"HTTP_X_FORWARDED_FOR": "10.0.0.2"}),
        ("203.0.113.9", {"HTTP_X_REAL_IP": "10.0.0.2", "HTTP_FORWARDED": "for=10.0.0.2"}),
        ("", {}),
    ],
)
@pytest.mark.requirement("R338")
def test_the_header_from_another_address_is_ignored_and_logged(
    header: dict[str, str], address: str, more: dict[str, str], caplog: Any
) -> None:
    browser = Client(REMOTE_ADDR=address, **(header | more))

    assert browser.get(SIGN_IN).status_code == 200
    assert not is_in(browser)
    assert not address or "trusted header ignored" in caplog.text


def test_an_unknown_or_disabled_person_is_told_and_not_created(
    header: dict[str, str], alice: User
) -> None:
    for name in ("carol", "alice"):
        User.objects.filter(pk=alice.pk).update(is_active=False)
        browser = Client(REMOTE_ADDR="10.0.0.2", **(header | {"HTTP_REMOTE_USER": name}))
        page = text_of(browser.get(SIGN_IN))
        assert f"The proxy signed you in as “{name}”" in page
    assert User.objects.count() == 1


def test_another_persons_session_ends_when_the_proxy_names_someone_else(
    header: dict[str, str], bob: User
) -> None:
    browser = Client(REMOTE_ADDR="10.0.0.2", **header)
    browser.get(SIGN_IN)

    page = browser.get("/notes/", HTTP_REMOTE_USER="bob")

    assert page["Location"].startswith(SIGN_IN)
    assert browser.get(SIGN_IN, HTTP_REMOTE_USER="bob").status_code == 302
    assert SignIn.objects.latest("pk").owner == bob


def test_the_header_asks_for_the_second_step_too(header: dict[str, str], alice: User) -> None:
    secret, totp = "JBSWY3DPEHPK3PXP", methods.totp
    code = totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30))
    methods.turn_on_app(alice, secret, code)
    browser = Client(REMOTE_ADDR="10.0.0.2", **header)

    assert browser.get(SIGN_IN)["Location"] == "/sign-in/code/"
    assert not is_in(browser)


def test_groups_that_are_no_list_are_read() -> None:
    assert single_sign_on.groups_of({"groups": "one"}) == {"one"}
    assert single_sign_on.groups_of({"groups": None}) == set()
    assert single_sign_on.groups_of({}) == set()


# --- signing out ----------------------------------------------------------------------------------


def sign_out_links(page: Any) -> list[str]:
    found = re.findall(r'<a href="([^"]+)">Sign out of Example SSO too</a>', page.content.decode())
    return [unescape(url) for url in found]


@pytest.mark.requirement("R400")
def test_after_signing_out_the_session_at_the_provider_can_be_ended_too(
    provider: Provider, browser: Client, settings: Any
) -> None:
    linked(provider, browser)
    browser = Client()
    signs_in(browser, provider, "sub-alice")
    assert is_in(browser)
    page = browser.post("/sign-out/", follow=True)

    [url] = sign_out_links(page)
    asked = parse_qs(urlsplit(url).query)
    assert url.startswith(f"{provider.url}/oauth2/end_session?")
    assert asked["post_logout_redirect_uri"] == [settings.BEACON_URL + SIGN_IN]
    assert httpx.get(url).status_code == 200
    assert not is_in(browser) and not sign_out_links(browser.get(SIGN_IN))


def test_what_signs_out_at_the_provider_is_encrypted_in_the_session(
    provider: Provider, browser: Client
) -> None:
    linked(provider, browser)
    browser = Client()
    signs_in(browser, provider, "sub-alice")
    stored = str(dict(browser.session))
    assert single_sign_on.SIGN_OUT_FIELD in stored and "end_session" not in stored


def test_a_password_needs_no_sign_out_at_the_provider(provider: Provider, alice: User) -> None:
    browser = Client()
    browser.post(SIGN_IN, {"username": "alice", "password": PASSWORD})
    assert not sign_out_links(browser.post("/sign-out/", follow=True))


@pytest.mark.parametrize(
    "endpoint", [None, "", "javascript:alert(1)", "https:", "ftp://example.org/x"]
)
def test_a_provider_without_a_usable_page_to_sign_out_gives_no_link(
    provider: Provider, browser: Client, monkeypatch: pytest.MonkeyPatch, endpoint: str | None
) -> None:
    linked(provider, browser)
    config = oidc._Protocol.openid_config.fget
    assert config is not None
    monkeypatch.setattr(
        oidc._Protocol, "openid_config",
        property(lambda self: config(self) | {"end_session_endpoint": endpoint}),
    )  # fmt: skip
    browser = Client()
    signs_in(browser, provider, "sub-alice")
    assert is_in(browser)
    assert not sign_out_links(browser.post("/sign-out/", follow=True))
