"""Passkeys: adding one, signing in with it, and what's refused.  tests/browser/test_sign_in.py uses Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import Client

from memory.accounts import methods
from memory.models import Activity, SignIn, User
from tests.pages.passkey_cast import PRESENT, Passkey
from tests.pages.record_cast import text_of

ADD, SIGN_IN, SECURITY = "/settings/sign-ins/passkeys/", "/sign-in/passkey/", "/settings/sign-ins/"
PASSWORD = "alice-horse-battery"


@pytest.fixture(autouse=True)
def _a_url_for_passkeys(alice: User, settings: Any) -> None:
    settings.BEACON_URL = "http://localhost:8000"
    cache.clear()


def options_of(page: Any) -> dict[str, Any]:
    found = re.search(r'id="passkey-options"[^>]*>(.+?)</script>', page.content.decode())
    assert found, page.content.decode()
    told: dict[str, Any] = json.loads(found[1])
    return told


def added(browser: Client, passkey: Passkey | None = None, name: str = "Laptop") -> Passkey:
    passkey = passkey or Passkey()
    options = options_of(browser.post(ADD, {"password": PASSWORD}))
    answer = {"credential": passkey.created(options), "name": name}
    page = browser.post(ADD, answer, follow=True)
    passkey.told = text_of(page)  # type: ignore[attr-defined]
    return passkey


def signs_in(passkey: Passkey, browser: Client | None = None, **changed: Any) -> Any:
    browser = browser or Client()
    options = browser.post(SIGN_IN).json()
    return browser.post(
        SIGN_IN, {"credential": passkey.signed(options, **changed), "next": "/notes/"}, follow=False
    )


@pytest.mark.requirement("R339")
def test_a_passkey_is_added_and_signs_in_without_password_and_code(
    browser: Client, alice: User
) -> None:
    passkey = added(browser)
    shown = text_of(browser.get(SECURITY))
    assert "Laptop" in shown
    assert "not used yet" in shown

    other = Client()
    assert signs_in(passkey, other)["Location"] == "/notes/"

    assert other.get(SECURITY).status_code == 200
    assert "last used" in text_of(browser.get(SECURITY))
    assert SignIn.objects.for_user(alice).count() == 1
    kinds = set(Activity.objects.for_user(alice).values_list("kind", flat=True))
    assert {"sign-in-method-added", "signed-in"} <= kinds


def test_adding_needs_the_password(browser: Client) -> None:
    page = browser.post(ADD, {"password": "guess"})

    assert "Wrong password" in text_of(page)
    assert "passkey-options" not in page.content.decode()


def test_a_challenge_for_signing_in_does_not_confirm_adding_one(browser: Client) -> None:
    """A stolen session gets a challenge at the sign-in page, but no password was typed."""
    from allauth.mfa.webauthn.internal import auth

    stranger = Client()
    options = stranger.post(SIGN_IN).json()["publicKey"]
    session = browser.session
    session[auth.STATE_SESSION_KEY] = stranger.session[auth.STATE_SESSION_KEY]
    session.save()
    made = Passkey().created(
        {"publicKey": {**options, "rp": {"id": "localhost"}, "user": {"id": "MQ"}}}
    )

    page = browser.post(ADD, {"credential": made, "name": "Mine"}, follow=True)

    assert "took too long" in text_of(page)
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize(
    "passkey",
    [
        Passkey(origin="http://localhost:9000"),
        Passkey(origin="https://evil.example"),
        Passkey(origin="http://sub.localhost:8000"),
        Passkey(flags=PRESENT),
    ],
    ids=["port", "origin", "subdomain", "unverified"],
)
@pytest.mark.requirement("R339")
def test_a_passkey_of_another_origin_or_unverified_person_is_refused(
    browser: Client, passkey: Passkey
) -> None:
    right = (Passkey().origin, Passkey().flags)
    wrong = (passkey.origin, passkey.flags)
    added(browser, passkey)
    assert "couldn’t be verified, so nothing was added" in passkey.told  # type: ignore[attr-defined]
    passkey.origin, passkey.flags = right
    added(browser, passkey)
    passkey.origin, passkey.flags = wrong

    assert signs_in(passkey)["Location"].startswith("/sign-in/")


def test_an_answer_works_once_and_only_in_its_browser(browser: Client) -> None:
    passkey = added(browser)
    first = Client()
    answer = {"credential": passkey.signed(first.post(SIGN_IN).json())}

    assert Client().post(SIGN_IN, answer)["Location"].startswith("/sign-in/")
    assert first.post(SIGN_IN, answer)["Location"] == "/"
    first.post("/sign-out/")
    assert first.post(SIGN_IN, answer)["Location"].startswith("/sign-in/")


@pytest.mark.requirement("R375")
@pytest.mark.parametrize("counter", [0, 4, 5], ids=["zero", "lower", "same"])
def test_a_passkey_whose_counter_goes_back_is_refused(
    browser: Client, alice: User, counter: int
) -> None:
    """Two copies of a passkey count separately, so one of them sends a number that was sent before."""
    passkey = Passkey()
    passkey.counter = 3
    added(browser, passkey)
    passkey.counter = 5
    assert signs_in(passkey)["Location"] == "/notes/"
    used = Authenticator.objects.get().last_used_at

    passkey.counter = counter
    assert signs_in(passkey)["Location"].startswith("/sign-in/")
    assert Activity.objects.for_user(alice).filter(kind="sign-in-failed").count() == 1
    assert Authenticator.objects.get().last_used_at == used

    passkey.counter = 6
    assert signs_in(passkey)["Location"] == "/notes/"


@pytest.mark.requirement("R375")
def test_the_counter_of_the_first_sign_in_must_exceed_the_one_at_creation(browser: Client) -> None:
    passkey = Passkey()
    passkey.counter = 3
    added(browser, passkey)

    assert signs_in(passkey)["Location"].startswith("/sign-in/")


def test_another_persons_name_in_the_answer_opens_nothing(
    browser: Client, bob: User, client_of: Callable[[User], Client]
) -> None:
    alices, bobs = added(browser), Passkey()
    options = options_of(client_of(bob).post(ADD, {"password": "bob-horse-battery"}))
    bobs.created(options)

    answer = signs_in(bobs, userHandle=alices.user)

    assert answer["Location"].startswith("/sign-in/")
    assert not SignIn.objects.exists()


@pytest.mark.requirement("R332")
def test_wrong_answers_lock_the_account_for_the_address(browser: Client) -> None:
    passkey = added(browser)
    for _try in range(5):
        answer = signs_in(passkey, signature="AAAA")

    assert answer.status_code == 429
    assert signs_in(passkey).status_code == 429
    credentials = {"username": "alice", "password": PASSWORD}
    assert Client().post("/sign-in/", credentials).status_code == 429


@pytest.mark.parametrize(
    "answer",
    [
        "x",
        "[]",
        "{}",
        "null",
        '{"response": []}',
        '{"response": {"userHandle": "!"}}',
        '{"response": {"userHandle": 7}}',
        '{"response": {"userHandle": "MQ", "clientDataJSON": "eyJ9"}}',
        '{"response": {"userHandle": "enp6enp6enp6enp6eno"}}',
        "9" * 30_000,
    ],
)
def test_what_no_browser_sends_is_refused(browser: Client, answer: str) -> None:
    stranger = Client()
    stranger.post(SIGN_IN)

    assert stranger.post(SIGN_IN, {"credential": answer})["Location"].startswith("/sign-in/")

    browser.post(ADD, {"password": PASSWORD})
    page = browser.post(ADD, {"credential": answer, "name": "x"}, follow=True)
    assert "nothing was added" in text_of(page)


def test_a_disabled_account_stays_closed(browser: Client, alice: User) -> None:
    passkey = added(browser)
    User.objects.filter(pk=alice.pk).update(is_active=False)

    stranger = Client()
    signs_in(passkey, stranger)

    assert "This account is disabled" in text_of(stranger.get("/sign-in/"))


@pytest.mark.requirement("R339")
def test_the_last_way_in_is_not_removed(browser: Client, alice: User) -> None:
    passkey = added(browser)
    row = Authenticator.objects.get()
    alice.set_unusable_password()
    alice.save()
    only = Client()
    signs_in(passkey, only)

    page = only.post(f"{SECURITY}methods/{row.pk}/remove/")

    assert "the only way to sign in" in text_of(page)
    assert Authenticator.objects.exists()


def test_a_removed_passkey_no_longer_signs_in(browser: Client) -> None:
    passkey = added(browser)
    row = Authenticator.objects.get()
    browser.post(f"{SECURITY}methods/{row.pk}/remove/", {"password": PASSWORD})

    assert signs_in(passkey)["Location"].startswith("/sign-in/")


def test_where_browsers_refuse_passkeys_the_pages_say_why(browser: Client, settings: Any) -> None:
    settings.BEACON_URL = "http://192.0.2.7:8000"

    assert "Passkeys need HTTPS" in text_of(browser.get(SECURITY))
    assert browser.get(ADD)["Location"] == SECURITY
    assert "passkey" not in text_of(Client().get("/sign-in/"))


def test_there_is_a_limit_of_passkeys(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "MAX_PASSKEYS", 1)
    added(browser)

    assert "You’ve reached the limit of 1 passkeys" in added(browser).told  # type: ignore[attr-defined]


def test_a_passkey_alone_asks_for_no_code(browser: Client, alice: User) -> None:
    added(browser)

    answer = Client().post("/sign-in/", {"username": "alice", "password": PASSWORD})

    assert answer["Location"] == "/"
