"""Deleting an account on its page: export first, name and password, and what staff may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.accounts.archive import exporter
from memory.models import Archive, Note, User

PAGE, EXPORT = reverse("memory:account-delete"), reverse("memory:account-export")
RIGHT = {"name": "alice", "password": "alice-horse-battery"}


@pytest.fixture
def browser(alice: User) -> Client:
    client = Client()
    client.post("/sign-in/", {"username": "alice", "password": "alice-horse-battery"})
    return client


def test_name_and_password_delete_the_account_and_end_the_visit(browser: Client) -> None:
    answer = browser.post(PAGE, RIGHT, follow=True)
    assert "Your account and all its data have been deleted" in answer.content.decode()
    assert not User.objects.exists()
    assert browser.get("/settings/profile/").status_code == 302


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (RIGHT | {"name": "bob"}, "That doesn’t match"),
        (RIGHT | {"password": "guess"}, "Wrong password"),
        ({}, "This field is required."),
    ],
)
def test_what_is_typed_wrong_deletes_nothing(
    browser: Client, typed: dict[str, str], said: str
) -> None:
    assert said in browser.post(PAGE, typed).content.decode()
    assert User.objects.filter(username="alice").exists()


def test_who_tries_many_passwords_is_locked_out(browser: Client) -> None:
    for _try in range(5):
        last = browser.post(PAGE, RIGHT | {"password": "guess"})
    assert last.status_code == 429
    browser.post(PAGE, RIGHT)
    assert User.objects.filter(username="alice").exists()


def test_the_page_counts_what_goes(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    Note.objects.create(owner=alice, content="A note")
    with django_assert_max_num_queries(12):
        html = browser.get(PAGE).content.decode()
    assert "<dt>Notes</dt>" in html
    assert "First, export your data" in html


def test_an_export_is_created_by_one_press_and_read_back(browser: Client, alice: User) -> None:
    html = browser.post(EXPORT, follow=True).content.decode()
    assert "Beacon checked that it contains every record" in html
    assert Archive.objects.get(owner=alice).result["problem"] == ""
    assert "Your data has changed since" not in html
    note = Note.objects.filter(owner=alice).first()
    assert note is not None
    note.change(by=alice.actor, content="Other words")
    assert "Your data has changed since" in browser.get(PAGE).content.decode()


def test_an_export_that_was_damaged_is_said_to_be(browser: Client, alice: User) -> None:
    browser.post(EXPORT)
    row = Archive.objects.get(owner=alice)
    data = bytearray(row.file.read_bytes())
    data[200:260] = bytes(60)
    row.file.write_bytes(bytes(data))
    assert "damaged" in exporter.problem_of(row)
    row.file.unlink()
    assert "no longer exists" in exporter.problem_of(row)


def test_the_last_admin_account_is_shown_why_it_stays(
    admin: User, client_of: Callable[[User], Client]
) -> None:
    html = client_of(admin).get(PAGE).content.decode()
    assert "Invite another admin" in html
    assert 'name="password"' not in html


def test_staff_delete_another_by_their_own_password(
    admin: User, alice: User, client_of: Callable[[User], Client]
) -> None:
    browser, page = client_of(admin), reverse("memory:person-delete", args=[alice.pk])
    assert "disable the account instead" in browser.get(page).content.decode()
    browser.post(page, RIGHT)
    assert User.objects.filter(pk=alice.pk).exists()  # it was alice's password
    html = browser.post(
        page, {"name": "alice", "password": "admin-horse-battery"}, follow=True
    ).content.decode()
    assert "and all its data have been deleted" in html
    assert not User.objects.filter(pk=alice.pk).exists()
    assert browser.get(reverse("memory:person-delete", args=[admin.pk])).status_code == 302
