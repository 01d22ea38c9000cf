"""The second step of a sign-in: an authenticator app, and recovery codes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client

from memory.accounts import methods, sign_ins
from memory.models import Activity, SignIn, User
from tests.pages.record_cast import text_of

SIGN_IN, CODE = "/sign-in/", "/sign-in/code/"
SECURITY, APP, CODES = "/settings/sign-ins/", "/settings/sign-ins/app/", "/settings/sign-ins/codes/"
PASSWORD = "alice-horse-battery"
CREDENTIALS = {"username": "alice", "password": PASSWORD}
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture(autouse=True)
def _no_attempts_of_other_tests(alice: User) -> None:
    cache.clear()


def code_of(secret: str = SECRET, *, later: int = 0) -> str:
    """Return the code that an app shows, some periods from now."""
    return totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30 + later))


@pytest.fixture
def codes(alice: User) -> list[str]:
    """Alice's recovery codes, with the authenticator app set up one period ago."""
    return methods.turn_on_app(alice, SECRET, code_of(later=-1))


def typed_password(**more: Any) -> Client:
    """Return a browser after the first step."""
    browser = Client()
    answer = browser.post(SIGN_IN, CREDENTIALS | {"next": "/notes/"}, **more)
    assert answer["Location"] == CODE
    return browser


def is_in(browser: Client) -> bool:
    return browser.get(SECURITY).status_code == 200


def set_up(browser: Client) -> tuple[str, Any]:
    """Set the app up on the page, and return its secret and the page."""
    shown = unescape(browser.get(APP).content.decode())
    found = re.search(r'<code class="mono">([A-Z2-7 ]+)</code>', shown)
    assert found
    secret = found[1].replace(" ", "")
    return secret, browser.post(APP, {"code": code_of(secret), "password": PASSWORD})


# --- setting up ----------------------------------------------------------------------------------


@pytest.mark.requirement("R330")
def test_an_app_is_set_up_and_its_code_is_the_second_step(browser: Client, alice: User) -> None:
    secret, page = set_up(browser)
    shown = re.findall(r"<li>([\d-]{14})</li>", page.content.decode())

    assert len(shown) == 10
    assert page["Cache-Control"].startswith("max-age=0")
    assert Activity.objects.for_user(alice).filter(kind="sign-in-method-added").count() == 1
    second = typed_password()
    assert not is_in(second)
    assert second.post(CODE, {"code": code_of(secret, later=1)})["Location"] == "/notes/"
    assert is_in(second)
    third = typed_password()
    third.post(CODE, {"code": shown[3]})
    assert is_in(third)


def test_secrets_are_sealed_in_the_database(alice: User, codes: list[str]) -> None:
    app, _codes = methods.of(alice)

    assert SECRET not in str(app.data)
    assert methods.Adapter().decrypt(app.data["secret"]) == SECRET


def test_after_the_secret_key_changed_no_code_is_right(
    alice: User, codes: list[str], settings: Any
) -> None:
    settings.SECRET_KEY = "another"

    assert not methods.takes_code(alice, code_of(""))
    assert not methods.takes_code(alice, codes[0])


@pytest.mark.parametrize(
    ("code", "password", "told"),
    [
        ("", PASSWORD, "Enter the 6 digits"),
        ("000000", PASSWORD, "Wrong code"),
        ("right", "", "Enter your password"),
        ("right", "wrong", "Wrong password. Nothing was changed."),
        ("x" * 50, PASSWORD, "at most 40"),
    ],
)
def test_an_app_that_is_not_confirmed_is_explained_and_not_set_up(
    browser: Client,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    password: str,
    told: str,
) -> None:
    monkeypatch.setattr(methods.totp, "validate_totp_code", lambda _secret, code: code == "right")

    page = browser.post(APP, {"code": code, "password": password})

    assert told in text_of(page)
    assert not Authenticator.objects.exists()


def test_a_second_app_is_refused(browser: Client, codes: list[str]) -> None:
    page = browser.get(APP, follow=True)

    assert "already set up" in text_of(page)
    assert Authenticator.objects.count() == 2


NEW_PASSWORD = {"new_password1": "battery-horse-7", "new_password2": "battery-horse-7"}
# Where a stolen session could try passwords.
DOORS = {
    APP: {"code": "123456"},
    "/settings/password/": NEW_PASSWORD,
    "/settings/account/delete/": {"name": "alice"},
}


@pytest.mark.requirement("R405")
@pytest.mark.parametrize("door", DOORS)
def test_a_stolen_session_without_the_password_is_locked_out(
    browser: Client, alice: User, door: str
) -> None:
    for _try in range(5):
        answer = browser.post(door, DOORS[door] | {"password": "guess", "old_password": "guess"})

    assert answer.status_code == 429
    right = DOORS[door] | {"password": PASSWORD, "old_password": PASSWORD}
    assert "Too many failed attempts. Nothing was changed" in text_of(browser.post(door, right))
    assert User.objects.get().check_password(PASSWORD)
    assert Client().post(SIGN_IN, CREDENTIALS).status_code == 429


# --- signing in ----------------------------------------------------------------------------------


def test_without_the_second_step_no_page_opens(codes: list[str]) -> None:
    browser = typed_password()

    assert browser.get("/notes/")["Location"].startswith(SIGN_IN)
    assert browser.get("/api/v1/notes").status_code == 401
    assert browser.get("/oauth/authorize?client_id=x")["Location"].startswith(SIGN_IN)
    assert not SignIn.objects.exists()


@pytest.mark.requirement("R331")
def test_a_code_works_only_once(codes: list[str]) -> None:
    code = code_of()
    assert typed_password().post(CODE, {"code": code}).status_code == 302

    page = typed_password().post(CODE, {"code": code})

    assert "already used" in text_of(page)
    assert SignIn.objects.count() == 1


def test_the_code_that_set_up_the_app_does_not_sign_in(alice: User) -> None:
    methods.turn_on_app(alice, SECRET, code := code_of())

    assert not is_in_after(code)


def is_in_after(code: str) -> bool:
    browser = typed_password()
    browser.post(CODE, {"code": code})
    return is_in(browser)


def test_a_recovery_code_works_only_once_and_is_logged(alice: User, codes: list[str]) -> None:
    assert is_in_after(codes[0].replace("-", " "))
    assert not is_in_after(codes[0])
    assert is_in_after(codes[1])

    assert Activity.objects.for_user(alice).filter(kind="recovery-code-used").count() == 2


@pytest.mark.parametrize("door", ["app", "recovery"])
@pytest.mark.requirement("R332")
def test_wrong_codes_lock_the_account_for_the_address(codes: list[str], door: str) -> None:
    browser = typed_password(REMOTE_ADDR="203.0.113.5")
    wrong = "000000" if door == "app" else "0000-0000-0000"
    for _try in range(5):
        answer = browser.post(CODE, {"code": wrong}, REMOTE_ADDR="203.0.113.5")
    assert answer.status_code == 429

    right = browser.post(CODE, {"code": code_of()}, REMOTE_ADDR="203.0.113.5")

    assert right.status_code == 429
    assert Client().post(SIGN_IN, CREDENTIALS, REMOTE_ADDR="203.0.113.5").status_code == 429
    assert Client().post(SIGN_IN, CREDENTIALS, REMOTE_ADDR="203.0.113.6").status_code == 302


def test_a_right_password_between_wrong_codes_does_not_reset_the_count(codes: list[str]) -> None:
    for _try in range(4):
        typed_password().post(CODE, {"code": "000000"})

    assert typed_password().post(CODE, {"code": "000000"}).status_code == 429


def test_codes_tried_from_many_addresses_are_limited_too(
    codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_ins.time, "time", lambda: 900_000_000.0)
    for number in range(methods.MAX_CODES):
        here = {"REMOTE_ADDR": f"203.0.113.{number}"}
        assert typed_password(**here).post(CODE, {"code": "000000"}, **here).status_code == 200

    answer = typed_password(REMOTE_ADDR="203.0.113.99").post(CODE, {"code": codes[0]})

    assert answer.status_code == 429
    assert "Too many incorrect codes" in text_of(answer)


def test_without_redis_the_second_step_still_works_and_a_code_only_once(
    codes: list[str], settings: Any
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    code = code_of()

    assert is_in_after(code)
    assert not is_in_after(code)


def test_between_the_steps_a_new_password_or_ten_minutes_end_the_sign_in(
    alice: User, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, late = typed_password(), typed_password()
    now = time.time()
    monkeypatch.setattr(methods.time, "time", lambda: now + 601)
    assert late.post(CODE, {"code": codes[0]})["Location"] == SIGN_IN
    monkeypatch.undo()
    alice.set_password("another-horse-battery")
    alice.save()

    assert browser.post(CODE, {"code": codes[0]})["Location"] == SIGN_IN
    assert not is_in(browser)


def test_a_disabled_account_does_not_get_through_the_second_step(
    alice: User, codes: list[str]
) -> None:
    browser = typed_password()
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert browser.post(CODE, {"code": codes[0]})["Location"] == SIGN_IN


def test_without_a_first_step_the_page_leads_to_it(db: None) -> None:
    assert Client().get(CODE)["Location"] == SIGN_IN


@pytest.mark.parametrize("goal", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_after_the_second_step_no_one_is_led_elsewhere(codes: list[str], goal: str) -> None:
    browser = Client()
    browser.post(SIGN_IN, CREDENTIALS | {"next": goal})

    assert browser.post(CODE, {"code": code_of()})["Location"] == "/"


# --- changing ------------------------------------------------------------------------------------


def test_new_recovery_codes_replace_the_old_ones(
    browser: Client, alice: User, codes: list[str]
) -> None:
    page = browser.post(CODES, {"password": PASSWORD})
    new = re.findall(r"<li>([\d-]{14})</li>", page.content.decode())

    assert not methods.takes_code(alice, codes[0])
    assert methods.takes_code(alice, new[0])
    assert "9 recovery codes left" in text_of(browser.get(SECURITY))


def test_the_app_is_removed_with_its_recovery_codes(
    browser: Client, alice: User, codes: list[str]
) -> None:
    app = Authenticator.objects.get(type="totp")
    address = f"/settings/sign-ins/methods/{app.pk}/remove/"
    assert "Wrong password" in text_of(browser.post(address, {"password": "guess"}))
    assert Authenticator.objects.count() == 2

    browser.post(address, {"password": PASSWORD})

    assert not Authenticator.objects.exists()
    assert Client().post(SIGN_IN, CREDENTIALS)["Location"] == "/"


def test_no_one_removes_another_persons_method(
    bob: User, codes: list[str], client_of: Callable[[User], Client]
) -> None:
    app = Authenticator.objects.get(type="totp")
    address = f"/settings/sign-ins/methods/{app.pk}/remove/"

    assert client_of(bob).post(address, {"password": "bob-horse-battery"}).status_code == 404
    assert Authenticator.objects.count() == 2


def test_an_admin_turns_the_code_off_by_a_command(
    codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("remove_authenticator", "alice")

    assert "The password is now enough" in capsys.readouterr().out
    assert Client().post(SIGN_IN, CREDENTIALS)["Location"] == "/"


def test_a_person_without_a_password_confirms_by_a_fresh_sign_in(alice: User) -> None:
    browser = without_password(alice)
    _secret, page = set_up(browser)
    assert "Recovery codes" in text_of(page)
    SignIn.objects.update(created=SignIn.objects.get().created - methods.FRESH)

    page = browser.post(CODES)

    assert "then try again within 10 minutes" in text_of(page)


def test_an_admin_removes_the_app_on_the_users_page(
    alice: User, codes: list[str], admin: User, client_of: Callable[[User], Client]
) -> None:
    admins = client_of(admin)
    assert "Remove alice’s authenticator app" in text_of(admins.get("/settings/people/"))
    assert client_of(alice).post(f"/settings/people/{alice.pk}/code-off/").status_code in (403, 404)

    page = admins.post(f"/settings/people/{alice.pk}/code-off/", follow=True)

    assert "alice can now sign in without a code" in text_of(page)
    assert not Authenticator.objects.exists()
    told = Activity.objects.for_user(alice).get(kind="sign-in-method-removed")
    assert told.actor == str(admin.actor)


def without_password(alice: User) -> Client:
    """Return a browser in which Alice, who has no password, has just signed in."""
    alice.set_unusable_password()
    alice.save()
    browser = Client()
    browser.force_login(alice, backend=sign_ins.BACKEND)
    row = SignIn.objects.create(owner=alice, session_key=browser.session.session_key)
    session = browser.session
    session[sign_ins.SESSION_FIELD] = row.pk
    session.save()
    return browser


def test_a_person_without_a_password_sets_one(alice: User) -> None:
    browser = without_password(alice)
    assert "Set a password" in text_of(browser.get(SECURITY))
    new = {"new_password1": "purple-horse-lamp", "new_password2": "purple-horse-lamp"}

    browser.post("/settings/password/", new)

    alice.refresh_from_db()
    assert alice.check_password("purple-horse-lamp")
    assert is_in(browser)


def test_a_stolen_session_sets_no_password_later(alice: User) -> None:
    browser = without_password(alice)
    SignIn.objects.update(created=SignIn.objects.get().created - methods.FRESH)
    new = {"new_password1": "purple-horse-lamp", "new_password2": "purple-horse-lamp"}

    page = browser.post("/settings/password/", new)

    assert "then try again within 10 minutes" in text_of(page)
    alice.refresh_from_db()
    assert not alice.has_usable_password()


def test_a_person_without_a_password_deletes_the_account(alice: User, admin: User) -> None:
    browser = without_password(alice)

    browser.post("/settings/account/delete/", {"name": "alice"})

    assert not User.objects.filter(username="alice").exists()


def test_ending_all_other_sign_ins_ends_a_stolen_session_of_any_method(alice: User) -> None:
    stolen = without_password(alice)
    browser = without_password(alice)

    browser.post(f"{SECURITY}end-others/")

    assert not is_in(stolen)
    assert is_in(browser)


def test_a_client_of_the_tests_is_signed_in_as_by_django(
    alice: User, client_of: Callable[[User], Client]
) -> None:
    usual = Client()
    usual.force_login(alice, backend=sign_ins.BACKEND)

    browser = client_of(alice)

    assert dict(browser.session.items()) == dict(usual.session.items())
    assert {*browser.cookies} == {*usual.cookies}
    assert is_in(browser) and is_in(usual)
    assert User.objects.get(pk=alice.pk).last_login == alice.last_login is not None
