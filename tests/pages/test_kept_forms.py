"""A form that is sent after the session expired is offered again after the sign-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django import forms
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from memory.models import Observation, User
from memory.pages.accounts import views
from memory.services.notes.saving import write_note

SIGN_IN = reverse("memory:sign-in")
REMEMBER = reverse("memory:remember")
TEXT = "Trains to Kyoto leave hourly.\nThe last one leaves at 23:10."


def sign_in(browser: Client, name: str, goal: str = "/") -> Any:
    token = browser.cookies["csrftoken"].value if "csrftoken" in browser.cookies else ""
    sent = {"username": name, "password": f"{name}-horse-battery", "next": goal}
    return browser.post(SIGN_IN, sent | {"csrfmiddlewaretoken": token})


def sent_too_late(browser: Client, **more: str) -> str:
    """Send a form after the session expired, and return where the sign-in leads."""
    Session.objects.all().delete()
    del browser.cookies[settings.SESSION_COOKIE_NAME]
    answer = browser.post(
        REMEMBER, {"text": TEXT, **more}, headers={"Referer": "http://testserver/memory/"}
    )
    where = urlsplit(answer["Location"])
    assert where.path == SIGN_IN
    return parse_qs(where.query)["next"][0]


@pytest.fixture
def browser(alice: User) -> Client:
    """A browser in which Alice signed in."""
    browser = Client()
    sign_in(browser, "alice")
    return browser


def test_the_text_is_there_after_the_sign_in_and_can_be_sent_again(
    alice: User, browser: Client
) -> None:
    goal = sent_too_late(browser, password="secret words", csrfmiddlewaretoken="x y")
    assert sign_in(browser, "alice", goal)["Location"] == goal

    page = browser.get(goal)

    html = page.content.decode()
    assert html.count(TEXT) == 2  # shown, and in the form
    assert f'action="{REMEMBER}"' in html and 'href="/memory/"' in html
    assert "secret words" not in html and "x y" not in html
    browser.post(page.context["address"], dict(page.context["fields"]))
    assert [one.content for one in Observation.objects.for_user(alice)] == [TEXT]


def test_no_one_else_gets_the_text(alice: User, bob: User, browser: Client) -> None:
    goal = sent_too_late(browser)
    sign_in(browser, "bob", goal)

    answer = browser.get(goal)

    assert answer.status_code == 404
    assert "no longer available" in answer.content.decode()
    assert TEXT not in answer.content.decode()


def test_a_form_of_no_one_is_not_kept(alice: User, browser: Client) -> None:
    del browser.cookies["csrftoken"]
    assert sent_too_late(browser) == "/memory/"


def test_who_signed_out_left_nothing(alice: User, browser: Client) -> None:
    browser.post(reverse("memory:sign-out"))
    assert sent_too_late(browser) == "/memory/"


def test_what_is_too_long_or_has_no_text_is_not_kept(alice: User, browser: Client) -> None:
    assert sent_too_late(browser, more="x " * views.MAX_CHARACTERS) == "/memory/"
    sign_in(browser, "alice")
    assert sent_too_late(browser, text="pinned") == "/memory/"


def test_a_form_is_kept_for_a_quarter_of_an_hour(
    alice: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "KEPT_SECONDS", 0)
    goal = sent_too_late(browser)
    sign_in(browser, "alice", goal)

    assert browser.get(goal).status_code == 404


def test_the_text_for_a_note_in_trash_is_there_and_can_be_sent_after_it_is_restored(
    alice: User, bob: User, client_of: Callable[[Any], Client]
) -> None:
    note = write_note(alice, "log", "Trains leave hourly.", by=alice.actor)
    browser, edit = client_of(alice), reverse("memory:note-edit", args=[note.pk])
    initial = browser.get(edit).context["form"].initial
    note.trash(by=alice.actor)

    answer = browser.post(edit, initial | {"content": TEXT, "ttl_days": ""})

    html = answer.content.decode()
    assert answer.status_code == 404
    assert html.count(TEXT) == 2  # shown, and in the form
    assert "restore it in another tab" in html and reverse("memory:trash") in html
    assert client_of(bob).post(edit, {"content": TEXT}).status_code == 404
    assert "Page not found" in browser.post(edit, {"content": "x"}).content.decode()
    cut_off = browser.post(edit, "a form without a boundary", content_type="multipart/form-data")
    assert cut_off.status_code == 404

    note.restore(by=alice.actor)
    browser.post(answer.context["address"], dict(answer.context["fields"]))
    note.refresh_from_db()
    assert note.content == TEXT


def test_no_password_of_any_form_is_kept() -> None:
    todo, names = list(forms.BaseForm.__subclasses__()), set()
    while todo:
        form = todo.pop()
        todo += form.__subclasses__()
        fields: dict[str, forms.Field] = getattr(form, "base_fields", {})
        names |= {
            name for name, field in fields.items() if isinstance(field.widget, forms.PasswordInput)
        }
    assert {"password", "secret"} <= names
    assert [name for name in names if not views._SECRET.search(name)] == []
