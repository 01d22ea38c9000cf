"""Personal settings: profile, password, sign-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Activity, SignIn, User

HTMX = {"HX-Request": "true"}
PROFILE = "/settings/profile/"
SIGN_INS = "/settings/sign-ins/"
PASSWORD = "alice-horse-battery"
GIVEN = {
    "display_name": "Alice",
    "email": "alice@example.org",
    "time_zone": "Asia/Tokyo",
    "language": "en",
    "interests": "batteries",
}


@pytest.fixture
def browser(alice: User) -> Client:
    """Alice's browser, signed in by the page."""
    return a_browser_of_alice()


def a_browser_of_alice(agent: str = "Firefox/140.0 Linux") -> Client:
    browser = Client(headers={"user-agent": agent})
    browser.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    return browser


# --- profile -----------------------------------------------------------------------------------


def test_the_profile_is_shown_and_saved(browser: Client, alice: User) -> None:
    assert "UTC" in browser.get(PROFILE).content.decode()

    assert browser.post(PROFILE, GIVEN)["Location"] == PROFILE

    alice.refresh_from_db()
    assert (alice.display_name, alice.time_zone, alice.shortcuts) == ("Alice", "Asia/Tokyo", False)
    assert Activity.objects.for_user(alice).filter(kind="profile-changed").count() == 1


def test_over_htmx_the_form_comes_back_alone_with_a_toast(browser: Client) -> None:
    body = browser.post(PROFILE, GIVEN, headers=HTMX).content.decode()

    assert body.lstrip().startswith('<form id="profile_form"')
    assert "Profile saved." in body


def test_a_time_zone_is_taken_as_people_type_it(browser: Client, alice: User) -> None:
    browser.post(PROFILE, GIVEN | {"time_zone": "america/new york"})

    alice.refresh_from_db()
    assert alice.time_zone == "America/New_York"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("time_zone", "Mars/Olympus", "no time zone “Mars/Olympus”"),
        ("time_zone", "../../etc/passwd", "no time zone"),
        ("email", "no address", "Enter a valid email address."),
        ("display_name", "x" * 151, "Ensure this value has at most 150 characters (it has 151)."),
        ("language", "tlh", "is not one of the available choices"),
    ],
)
def test_a_wrong_profile_is_explained_and_keeps_what_was_typed(
    browser: Client, alice: User, field: str, value: str, told: str
) -> None:
    body = browser.post(PROFILE, GIVEN | {field: value, "interests": "kept"}).content.decode()

    assert told in body
    assert "kept" in body
    alice.refresh_from_db()
    assert alice.time_zone == "UTC"


def test_saving_the_profile_gives_no_rights(browser: Client, alice: User) -> None:
    browser.post(PROFILE, GIVEN | {"is_staff": "on", "username": "root"})

    alice.refresh_from_db()
    assert (alice.is_staff, alice.username) == (False, "alice")


def test_the_profile_page_asks_five_queries(
    alice: User, client_of: Callable[[User], Client], django_assert_num_queries: Any
) -> None:
    browser = client_of(alice)
    with django_assert_num_queries(4):  # session, user, its note, the frame
        browser.get(PROFILE)


# --- password ----------------------------------------------------------------------------------


def change(browser: Client, old: str = PASSWORD, new: str = "battery-horse-7") -> Any:
    fields = {"old_password": old, "new_password1": new, "new_password2": new}
    return browser.post("/settings/password/", fields)


def test_a_new_password_signs_out_every_other_browser(browser: Client, alice: User) -> None:
    other = a_browser_of_alice()

    assert change(browser).url == SIGN_INS

    assert browser.get(SIGN_INS).status_code == 200
    assert other.get(SIGN_INS).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password("battery-horse-7")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("wrong", "battery-horse-7", "Wrong password. Nothing was changed."),
        (PASSWORD, "short", "too short"),
        (PASSWORD, "alice@example.org", "too similar"),
    ],
)
def test_a_refused_password_is_explained(browser: Client, old: str, new: str, told: str) -> None:
    assert told in change(browser, old, new).content.decode()


# --- sign-ins ----------------------------------------------------------------------------------


def test_the_browsers_of_a_person_are_listed_with_this_one_marked(browser: Client) -> None:
    a_browser_of_alice("Mozilla/5.0 (Macintosh; Intel Mac OS X 15) Version/19 Safari/605")

    body = browser.get(SIGN_INS).content.decode()

    assert "Firefox on Linux" in body
    assert "Safari on macOS" in body
    assert body.count("this browser") == 1


def test_after_a_new_password_this_browser_is_still_listed(browser: Client) -> None:
    change(browser)
    browser.get("/settings/")

    assert "this browser" in browser.get(SIGN_INS).content.decode()


def test_another_browser_can_be_signed_out(browser: Client, alice: User) -> None:
    other = a_browser_of_alice()
    row = SignIn.objects.for_user(alice).first()
    assert row is not None

    body = browser.post(f"{SIGN_INS}{row.pk}/end/", headers=HTMX).content.decode()

    assert "Browser signed out." in body
    assert other.get(PROFILE).status_code == 302
    assert browser.get(PROFILE).status_code == 200


def test_this_browser_is_signed_out_by_the_menu_only(browser: Client, alice: User) -> None:
    row = SignIn.objects.for_user(alice).get()

    browser.post(f"{SIGN_INS}{row.pk}/end/")

    assert browser.get(PROFILE).status_code == 200


def test_every_other_browser_can_be_signed_out_at_once(browser: Client, alice: User) -> None:
    others = [a_browser_of_alice(), a_browser_of_alice()]

    browser.post(f"{SIGN_INS}end-others/")

    assert [other.get(PROFILE).status_code for other in others] == [302, 302]
    assert browser.get(PROFILE).status_code == 200
    assert SignIn.objects.for_user(alice).count() == 1


def test_no_one_ends_another_persons_sign_in(
    browser: Client, alice: User, bob: User, client_of: Callable[[User], Client]
) -> None:
    row = SignIn.objects.for_user(alice).get()

    assert client_of(bob).post(f"{SIGN_INS}{row.pk}/end/").status_code == 404
    assert browser.get(PROFILE).status_code == 200


def test_the_sign_ins_page_asks_five_queries(
    alice: User, client_of: Callable[[User], Client], django_assert_num_queries: Any
) -> None:
    for _more in range(3):
        a_browser_of_alice()
    browser = client_of(alice)
    with django_assert_num_queries(5):
        browser.get(SIGN_INS)
