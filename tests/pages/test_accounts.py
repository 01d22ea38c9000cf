"""Signing in and out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from memory.accounts import sign_ins
from memory.models import Activity, Invitation, SignIn, User

SIGN_IN = "/sign-in/"
PASSWORD = "alice-horse-battery"
NEW = {
    "username": "carol",
    "display_name": "Carol",
    "password1": "horse-battery-staple",
    "password2": "horse-battery-staple",
    "time_zone": "Europe/Berlin",
}


@pytest.fixture
def browser() -> Client:
    """A browser without a signed-in account."""
    return Client(headers={"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"})


def sign_in(browser: Client, **more: str) -> Any:
    return browser.post(SIGN_IN, {"username": "alice", "password": PASSWORD} | more)


def first_link() -> str:
    _invitation, token = Invitation.create_with_token(by=None, grants_admin=True, is_first=True)
    return reverse("memory:first-account", args=[token])


# --- the first visit ---------------------------------------------------------------------------


def test_the_first_visit_shows_how_to_get_the_one_time_link(db: None, browser: Client) -> None:
    response = browser.get("/settings/", follow=True)

    assert response.redirect_chain[-1][0] == "/welcome/"
    assert b".venv/bin/python manage.py first_account_link" in response.content
    assert str(settings.DATA_DIR) in response.content.decode()


def test_the_first_account_is_an_admin_and_signed_in_at_once(db: None, browser: Client) -> None:
    response = browser.post(first_link(), NEW)

    carol = User.objects.get()
    assert response["Location"] == "/"
    assert (carol.is_staff, carol.is_superuser, carol.time_zone) == (True, True, "Europe/Berlin")
    assert SignIn.objects.for_user(carol).count() == 1


def test_the_first_link_is_dead_once_an_account_exists(alice: User, browser: Client) -> None:
    response = browser.get(first_link())

    assert response.status_code == 404
    assert "This link no longer works" in response.content.decode()


def test_with_an_account_there_is_no_welcome_page(alice: User, browser: Client) -> None:
    assert browser.get("/welcome/")["Location"] == SIGN_IN


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("time_zone", "Mars/Olympus", "no time zone “Mars/Olympus”"),
        ("username", "", "Choose a username to sign in with"),
        ("username", "with space", "in a username, without spaces."),
        ("username", "nul\0byte", "Null characters are not allowed."),
        ("password2", "another-horse", "The two passwords don’t match"),
        ("display_name", "x" * 151, "Ensure this value has at most 150 characters (it has 151)."),
    ],
)
def test_what_is_wrong_with_a_new_account_is_explained(
    db: None, browser: Client, field: str, value: str, told: str
) -> None:
    response = browser.post(first_link(), NEW | {field: value})

    assert told in response.content.decode()
    assert not User.objects.exists()


def test_a_weak_password_is_refused_with_the_reason(db: None, browser: Client) -> None:
    response = browser.post(first_link(), NEW | {"password1": "12345", "password2": "12345"})

    errors = response.context["form"].errors
    assert "too short" in errors["password1"][0] and "password2" not in errors


def test_a_weak_new_password_is_refused_at_its_own_field(alice: User, browser: Client) -> None:
    sign_in(browser)
    new = {"old_password": PASSWORD, "new_password1": "12345", "new_password2": "12345"}

    errors = browser.post("/settings/password/", new).context["form"].errors

    assert "too short" in errors["new_password1"][0] and "new_password2" not in errors


def test_the_help_says_what_a_password_needs(db: None, browser: Client) -> None:
    page = browser.get(first_link()).content.decode()

    assert "Use at least 8 characters" in page and "Your password" not in page


# --- invitations -------------------------------------------------------------------------------


def test_an_invited_person_gets_an_account_that_isnt_an_admin(admin: User, browser: Client) -> None:
    _invitation, token = Invitation.create_with_token(by=admin, note="Carol")
    address = reverse("memory:invitation", args=[token])

    assert "admin invited you" in browser.get(address).content.decode()
    browser.post(address, NEW)

    assert not User.objects.get(username="carol").is_staff
    assert browser.get(address).status_code == 404


def test_a_username_that_differs_only_in_case_is_taken(admin: User, browser: Client) -> None:
    _invitation, token = Invitation.create_with_token(by=admin)

    browser.post(reverse("memory:invitation", args=[token]), NEW | {"username": "ADMIN"})

    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ("carol", "c\u0430rol"),  # a Cyrillic a
        ("carol", "c\u00e1rol"),
        ("carol", "\u0421arol"),  # a Cyrillic capital S, drawn as a C
        ("carol", "car\u03bfl"),  # a Greek omicron
        ("carol", "car0l"),
        ("lan", "Ian"),
        ("Ian", "lan"),
        ("\u0430\u0434\u0430", "ad\u0430\u0301".replace("d", "\u0434")),  # both Cyrillic
    ],
)
def test_a_username_that_looks_like_anothers_is_refused(
    admin: User, browser: Client, taken: str, wanted: str
) -> None:
    User.objects.create_user(taken)
    _invitation, token = Invitation.create_with_token(by=admin)

    page = browser.post(reverse("memory:invitation", args=[token]), NEW | {"username": wanted})

    assert "This is too similar to another username." in page.content.decode()
    assert User.objects.count() == 2


@pytest.mark.parametrize("wanted", ["caroline", "bil", "\u0430\u0434\u0430", "\u5c0f\u660e"])
def test_a_username_of_its_own_is_taken_in_any_script(
    admin: User, browser: Client, wanted: str
) -> None:
    User.objects.create_user("bli")
    _invitation, token = Invitation.create_with_token(by=admin)

    browser.post(reverse("memory:invitation", args=[token]), NEW | {"username": wanted})

    assert User.objects.filter(username=wanted).exists()


def test_a_made_up_link_is_dead(alice: User, browser: Client) -> None:
    assert browser.get(reverse("memory:invitation", args=["made-up"])).status_code == 404


# --- signing in --------------------------------------------------------------------------------


def test_signing_in_leads_home_and_is_logged(alice: User, browser: Client) -> None:
    assert sign_in(browser).url == "/"

    assert SignIn.objects.for_user(alice).get().user_agent.endswith("Firefox/140.0")
    assert Activity.objects.for_user(alice).get().kind == "signed-in"


def test_signing_in_leads_where_one_wanted_to_go(alice: User, browser: Client) -> None:
    asked = browser.get("/settings/profile/")

    assert asked["Location"] == "/sign-in/?next=/settings/profile/"
    assert sign_in(browser, next="/settings/profile/").url == "/settings/profile/"


@pytest.mark.parametrize(
    "goal",
    [
        "https://evil.example/",
        "//evil.example",
        "javascript:alert(1)",
        "\\\\evil",
        "",
        "x",
        "²",
        "a:b",
    ],
)
def test_next_never_leads_elsewhere(alice: User, browser: Client, goal: str) -> None:
    assert sign_in(browser, next=goal).url == "/"


def test_a_wrong_password_is_explained_and_logged(alice: User, browser: Client) -> None:
    response = sign_in(browser, password="wrong")

    assert "Wrong username or password" in response.content.decode()
    assert Activity.objects.for_user(alice).get().kind == "sign-in-failed"


def test_a_name_longer_than_any_is_refused_with_a_reason(alice: User, browser: Client) -> None:
    for length in (151, 100_000):
        answer = browser.post(SIGN_IN, {"username": "a" * length, "password": "whatever"})
        assert answer.status_code == 200
        assert "Usernames can have at most 150 characters" in answer.content.decode()


def test_an_unknown_name_is_not_kept(alice: User, browser: Client) -> None:
    sign_in(browser, username="my-password-by-mistake")

    assert "by-mistake" not in str(Activity.objects.values())


def test_after_five_failures_even_the_right_password_waits(alice: User, browser: Client) -> None:
    for _try in range(5):
        sign_in(browser, password="wrong")

    response = sign_in(browser)

    assert response.status_code == 429
    assert response["Retry-After"] == "900"
    assert "Try again in 15 minutes, at" in response.content.decode()


def test_another_person_at_the_same_address_is_not_locked_out(
    alice: User, bob: User, browser: Client
) -> None:
    for _try in range(6):
        sign_in(browser, password="wrong")

    assert sign_in(browser, username="bob", password="bob-horse-battery").status_code == 302


def test_a_disabled_account_does_not_open(alice: User, browser: Client) -> None:
    User.objects.update(is_active=False)

    assert sign_in(browser).status_code == 200
    assert not Session.objects.exists()


def test_over_htmx_a_session_that_is_over_moves_the_whole_page(
    alice: User, browser: Client
) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/settings/people/"}

    response = browser.get(SIGN_IN + "?next=/fragment/", headers=headers)

    assert response["HX-Redirect"] == "/sign-in/?next=%2Fsettings%2Fpeople%2F"


def test_over_htmx_what_was_typed_stays_when_the_session_is_over(
    alice: User, browser: Client
) -> None:
    answer = browser.post("/library/add/", {"text": "x"}, headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Retarget"]) == (401, "#notice")
    assert "HX-Redirect" not in answer
    assert "Your text is still here" in answer.content.decode()


@pytest.mark.parametrize(
    ("referer", "goal"),
    [
        ("http://testserver/topics/x/?tab=1", "/topics/x/?tab=1"),
        ("http://evil.example/topics/x/", "/"),
        ("http://testserver//evil.example/", "/"),
        ("", "/"),
    ],
)
def test_after_a_post_that_came_too_late_signing_in_leads_to_the_page_before(
    alice: User, browser: Client, referer: str, goal: str
) -> None:
    answer = browser.post("/topics/x/trash/", headers={"Referer": referer})

    assert answer["Location"] == f"{SIGN_IN}?{urlencode({'next': goal})}"


def test_an_address_of_a_button_says_so_and_leads_back(
    alice: User, client_of: Callable[[User], Client]
) -> None:
    headers = {"Referer": "http://testserver/topics/"}
    answer = client_of(alice).get("/topics/x/trash/", headers=headers)

    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert '<a class="btn primary" href="/topics/">' in answer.content.decode()


def test_a_token_that_does_not_fit_loses_no_one_their_text(alice: User) -> None:
    answer = Client(enforce_csrf_checks=True).post("/library/add/", {"text": "x"})

    assert answer.status_code == 403
    assert "Your text isn’t lost" in answer.content.decode()
    assert "<h1>Your session changed</h1>" in answer.content.decode()
    assert "reload" not in answer.content.decode().replace("preload", "")


def test_signing_out_ends_the_session(alice: User, browser: Client) -> None:
    sign_in(browser)

    assert browser.post("/sign-out/")["Location"] == SIGN_IN

    assert not SignIn.objects.exists()
    assert browser.get("/settings/profile/").status_code == 302


def test_signing_out_needs_a_post(alice: User, client_of: Callable[[User], Client]) -> None:
    assert client_of(alice).get("/sign-out/").status_code == 405


def test_last_seen_is_written_at_most_once_a_minute(
    alice: User, browser: Client, django_assert_num_queries: Any
) -> None:
    sign_in(browser)
    SignIn.objects.update(last_seen_at="2020-01-01T00:00:00Z")
    with django_assert_num_queries(3):  # session, user, the UPDATE
        browser.get("/settings/")
    with django_assert_num_queries(2):
        browser.get("/settings/")

    assert SignIn.objects.get().last_seen_at.year > 2020


def test_the_sign_in_page_asks_the_database_once(
    alice: User, browser: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        browser.get(SIGN_IN)


def test_signing_in_and_a_new_password_give_the_session_another_key(
    alice: User, browser: Client
) -> None:
    keys = [_planted(browser)]
    sign_in(browser)
    keys.append(browser.session.session_key)
    new = {
        "old_password": PASSWORD,
        "new_password1": "staple-9-horse",
        "new_password2": "staple-9-horse",
    }
    assert browser.post("/settings/password/", new).status_code == 302
    keys.append(browser.session.session_key)

    assert len(set(keys)) == 3
    assert not Session.objects.filter(session_key__in=keys[:2]).exists()


def _planted(browser: Client) -> str:
    """Let the browser have a session that someone else could know, and return its key."""
    session = browser.session
    session["planted"] = True
    session.save()
    browser.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return str(session.session_key)


def test_sessions_that_are_over_are_forgotten_and_open_ones_stay(
    alice: User, browser: Client
) -> None:
    sign_in(browser)
    long_ago = timezone.now() - timedelta(days=15)
    over = Session.objects.create(session_key="over", session_data="", expire_date=long_ago)
    for key in (over.session_key, "gone"):
        SignIn.objects.create(owner=alice, session_key=key, last_seen_at=long_ago)

    assert sign_ins.forget_over() == 1

    assert [row.session_key for row in SignIn.objects.all()] == [browser.session.session_key]
    assert browser.get("/settings/profile/").status_code == 200


def test_a_sign_in_that_sends_nothing_is_requested_both(alice: User, browser: Client) -> None:
    answer = browser.post("/sign-in/", {})

    assert answer.status_code == 200
    assert set(answer.context["form"].errors) == {"username", "password"}


def test_a_page_that_names_no_address_leads_home_after_the_sign_in(
    alice: User, browser: Client
) -> None:
    answer = browser.get("/sign-in/", headers={"HX-Request": "true", "HX-Current-URL": "http://["})

    assert answer.headers["HX-Redirect"] == "/sign-in/?next=%2F"
