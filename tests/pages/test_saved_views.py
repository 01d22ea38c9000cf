"""Saved views of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from memory.models import SavedView
from tests.pages.record_cast import days, note, text_of
from tests.research.factories import make_report, make_run, make_topic
from tests.undo import undone

SAVE = "/views/save/"
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


def said(answer: Any) -> str:
    return str(next(iter(get_messages(answer.wsgi_request))))


def save(browser: Client, name: str = "Rules", **more: str) -> Any:
    data = {"page": "notes", "name": name, "query": "q=kind%3Arule&cursor=x&sort=oldest"}
    return browser.post(SAVE, data | more)


def test_a_saved_view_is_on_its_list_without_the_page(browser: Client, alice: Any):
    save(browser)

    page = text_of(browser.get("/notes/"))

    assert 'href="/notes/?q=kind%3Arule&amp;sort=oldest"' in page
    assert "<bdi>Rules</bdi></a>" in page
    assert "Rules" not in text_of(browser.get("/observations/"))


LISTS = {
    "activity": "/activity/",
    "content": "/content/",
    "files": "/files/",
    "library": "/library/",
    "notes": "/notes/",
    "observations": "/observations/",
    "recall": "/memory/",
    "reports": "/reports/",
    "topics": "/topics/",
}


@pytest.mark.requirement("R377")
@pytest.mark.parametrize("page", SavedView.Page.values)
def test_every_list_has_its_views_and_a_link_to_the_shown_one(
    browser: Client, alice: Any, page: str
):
    note(alice)
    topic = make_topic(alice)
    make_report(make_run(topic))
    save(browser, "My view", page=page, query="q=bees&cursor=x")

    shown = text_of(browser.get(LISTS[page] + "?q=bees"))

    assert f'href="{LISTS[page]}?q=bees" aria-current="true"><bdi>My view</bdi>' in shown
    if page != "content":  # its form is older than the filter bar
        assert f'data-copy-text="http://testserver{LISTS[page]}?q=bees"' in shown
    browser.post("/pins/", {"what": f"view:{SavedView.objects.get().pk}", "on": "1"})
    assert f'href="{LISTS[page]}?q=bees"' in text_of(browser.get("/settings/profile/"))


def test_the_same_name_is_saved_again(browser: Client):
    save(browser)
    save(browser, query="q=kind%3Alog")

    assert [view.query for view in SavedView.objects.all()] == ["q=kind%3Alog"]


def test_those_from_the_start_find_what_they_say(browser: Client, alice: Any):
    note(alice, "Soon over", stability="volatile", ttl_days=3, expires_at=days(3))
    note(alice, "From a page", trust="external")

    page = text_of(browser.get("/notes/"))
    assert "expiring this week" in page
    assert "external, unreviewed" in page
    assert "Soon over" in text_of(browser.get("/notes/?q=is%3Aexpiring&sort=expires"))
    assert "From a page" in text_of(browser.get("/notes/?q=trust%3Aexternal"))


def test_a_deleted_view_is_restored_by_undo(browser: Client):
    save(browser)
    view = SavedView.objects.get()

    page = browser.post(f"/views/{view.pk}/delete/", {"next": "/notes/?q=x"}, follow=True)
    assert not SavedView.objects.exists()
    undone(browser, page)

    assert SavedView.objects.get().query == "q=kind%3Arule&sort=oldest"


def test_undo_of_a_view_that_was_saved_again_or_deleted_changes_nothing(browser: Client):
    page = browser.post(SAVE, {"page": "notes", "name": "Rules", "query": "q=one"}, follow=True)
    browser.post(SAVE, {"page": "notes", "name": "Rules", "query": "q=two"})

    assert "This view has changed since then" in text_of(undone(browser, page))
    assert SavedView.objects.get().query == "q=two"

    SavedView.objects.all().delete()
    refused = undone(browser, page)
    assert refused.status_code == 409
    assert "no longer exists" in text_of(refused)


def test_a_stranger_neither_sees_nor_deletes_it(client_of: ClientOf, browser: Client, bob: Any):
    save(browser)
    view = SavedView.objects.get()

    assert "Rules" not in text_of(client_of(bob).get("/notes/"))
    assert client_of(bob).post(f"/views/{view.pk}/delete/").status_code == 404
    assert Client().post(SAVE)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": " "}, "Enter a name"),
        ({"name": "x" * 61}, "has 61 characters, but the limit is 60"),
        ({"page": "poems"}, "no list with this name"),
        ({"query": "q=" + "x" * 20_000}, "too long"),
    ],
)
def test_what_cannot_be_saved_is_explained(browser: Client, more: dict[str, str], words: str):
    answer = save(browser, **more)

    assert words in said(answer)
    assert not SavedView.objects.exists()


def test_there_is_an_end_to_them(browser: Client, alice: Any):
    for number in range(SavedView.MAX):
        SavedView.objects.create(owner=alice, page="notes", name=str(number))

    assert "limit of 30 saved views" in said(save(browser))


def test_next_leads_nowhere_else(browser: Client):
    answer = save(browser, next="https://example.org/")

    assert answer["Location"] == "/notes/"
