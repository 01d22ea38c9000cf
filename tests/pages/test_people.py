"""People: accounts and invitations, for staff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from memory.models import Invitation, User

HTMX = {"HX-Request": "true"}
PEOPLE = "/settings/people/"


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def test_all_accounts_are_listed_and_what_staff_see_is_explained(
    browser: Client, alice: User, bob: User
) -> None:
    body = browser.get(PEOPLE).content.decode()

    assert "alice" in body
    assert "bob" in body
    assert "Admins can see all accounts in the admin site" in body


def test_a_link_is_shown_once(browser: Client, admin: User) -> None:
    body = browser.post(PEOPLE, {"note": "Carol"}).content.decode()

    assert "http://127.0.0.1:8000/invitation/" in body
    assert "/invitation/" not in browser.get(PEOPLE).content.decode().replace("/invitations/", "")
    assert Invitation.objects.get().grants_admin is False


def test_of_a_form_sent_twice_the_link_that_is_seen_works_alone(browser: Client) -> None:
    for _press in range(2):
        body = browser.post(PEOPLE, {"note": "Carol"}).content.decode()

    token = body.partition("/invitation/")[2].partition("/")[0]
    assert Invitation.open_for(token) == Invitation.objects.get()


def test_over_htmx_the_list_comes_back_alone_with_the_link(browser: Client) -> None:
    body = browser.post(PEOPLE, {"note": "Carol", "grants_admin": "on"}, headers=HTMX)

    assert body.content.decode().lstrip().startswith('<div id="people"')
    assert Invitation.objects.get().grants_admin is True


def test_an_invitation_for_no_one_is_explained(browser: Client) -> None:
    assert (
        "Enter a name so you can tell your links apart"
        in browser.post(PEOPLE, {"note": ""}).content.decode()
    )
    assert not Invitation.objects.exists()


def test_an_open_invitation_can_be_revoked(browser: Client, admin: User) -> None:
    invitation, token = Invitation.create_with_token(by=admin, note="Carol")

    browser.post(f"{PEOPLE}invitations/{invitation.pk}/revoke/")

    assert Invitation.open_for(token) is None


def test_a_disabled_person_is_signed_out_at_once_and_can_come_back(
    browser: Client, alice: User
) -> None:
    hers = Client()
    hers.post("/sign-in/", {"username": "alice", "password": "alice-horse-battery"})
    sessions = Session.objects.count()

    browser.post(f"{PEOPLE}{alice.pk}/disable/")

    assert Session.objects.count() == sessions - 1
    assert hers.get("/settings/profile/").status_code == 302
    browser.post(f"{PEOPLE}{alice.pk}/enable/")
    alice.refresh_from_db()
    assert alice.is_active


def test_no_one_disables_themselves_and_is_told_why(browser: Client, admin: User) -> None:
    body = browser.post(f"{PEOPLE}{admin.pk}/disable/", headers=HTMX).content.decode()

    assert "You can’t disable your own account" in body
    admin.refresh_from_db()
    assert admin.is_active


@pytest.mark.parametrize("address", ["", "1/disable/", "1/enable/", "invitations/1/revoke/"])
def test_for_who_isnt_an_admin_there_are_no_people(
    alice: User, client_of: Callable[[User], Client], address: str
) -> None:
    assert client_of(alice).post(PEOPLE + address, {"note": "x"}).status_code == 404
    assert not Invitation.objects.exists()


def test_the_number_of_queries_does_not_grow_with_people(
    browser: Client, admin: User, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        User.objects.create_user(f"person{number}", password=None)
        Invitation.create_with_token(by=admin, note=str(number))
    with django_assert_num_queries(5):
        browser.get(PEOPLE)


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost", True),
        ("http://0.0.0.0:8000", True),
        ("https://beacon.example", False),
        ("http://192.168.1.7:8000", False),
    ],
)
def test_a_link_that_only_this_machine_opens_says_so(
    browser: Client, settings: Any, address: str, warned: bool
) -> None:
    settings.BEACON_URL = address

    body = browser.post(PEOPLE, {"note": "Carol"}).content.decode()

    assert ("This link works only on this machine" in body) is warned


def test_a_new_password_for_someone_is_one_click_away(browser: Client, alice: User) -> None:
    address = f"/admin/memory/user/{alice.pk}/password/"

    assert f'href="{address}"' in browser.get(PEOPLE).content.decode()
    assert browser.get(address).status_code == 200
