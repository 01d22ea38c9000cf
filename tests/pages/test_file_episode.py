"""Writing an entry of a month's file by a form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import MemoryFile
from memory.models.file_format import entries_of
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to
from tests.pages.record_cast import HTMX, text_of

pytestmark = pytest.mark.django_db
NEW = "/files/new/"
PATH = "episodes/2026-02.md"
SENT = {
    "title": "Tokyo flights", "summary": "Spring is cheapest", "date": "2026-02-26",
    "task": "compare flights", "findings": "March 61,000 yen\nApril 84,000 yen", "lesson": "",
}  # fmt: skip


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R226")
def test_an_episode_is_written_by_hand_into_its_month(browser: Client, alice: Any):
    answer = browser.post(NEW, SENT, headers=HTMX)
    assert answer.headers["HX-Redirect"] == f"/files/{PATH}/"
    entry = entries_of(read_file(alice, PATH).content)[0]
    assert (entry.title, entry.summary, entry.date) == (
        "Tokyo flights",
        "Spring is cheapest",
        "2026-02-26",
    )
    assert entry.findings == "March 61,000 yen April 84,000 yen" and not entry.problems


def test_a_second_one_follows_the_first(browser: Client, alice: Any):
    append_to(alice, PATH, "## First\n- Task: t", by=alice.actor)
    html = text_of(browser.post(NEW, SENT, follow=True))
    assert "Added to episodes/2026-02.md, version 2." in html
    titles = [one.title for one in entries_of(read_file(alice, PATH).content)]
    assert titles == ["First", "Tokyo flights"]


def test_the_form_sent_twice_writes_one_entry(browser: Client, alice: Any):
    for _time in range(2):
        browser.post(NEW, SENT)
    file = read_file(alice, PATH)
    assert ([one.title for one in entries_of(file.content)], file.version) == (["Tokyo flights"], 1)


def test_what_departs_from_the_format_is_reported_and_kept(browser: Client):
    sent = SENT | {"summary": "one two three four five six seven eight nine ten"}
    assert "has 10 words. Keep it under 10" in text_of(browser.post(NEW, sent, follow=True))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"title": " "}, "Enter a short title."),
        ({"date": "2026-02-31"}, "Enter a valid date."),
        ({"date": "0026-02-01"}, "one episode file per month"),
        ({"findings": ""}, "Enter findings, a decision or a lesson"),
        ({"findings": "é" * 5_000}, "10,01"),
    ],
)
def test_what_isnt_an_episode_is_explained_and_nothing_typed_is_lost(
    browser: Client, sent: dict[str, str], why: str
):
    answer = browser.post(NEW, SENT | sent, headers=HTMX)
    assert answer.status_code == 200
    assert why in text_of(answer) and "compare flights" in text_of(answer)
    assert not MemoryFile.objects.filter(path__startswith="episodes/").exists()


def test_the_form_works_without_scripts_and_begins_with_today(browser: Client):
    html = text_of(browser.get(NEW))
    assert re.search(r'name="date" value="\d+ \w{3,9} 20\d\d"', html)
    assert 'action="/files/new/"' in html


def test_a_strangers_episode_goes_to_their_own_month(
    browser: Client, client_of: Callable[[Any], Client], alice: Any, bob: Any
):
    browser.post(NEW, SENT)
    client_of(bob).post(NEW, SENT | {"title": "Bob's"})
    assert "Bob" not in read_file(alice, PATH).content
    assert [one.title for one in entries_of(read_file(bob, PATH).content)] == ["Bob's"]


def test_the_form_takes_few_queries(browser: Client, django_assert_max_num_queries: Any):
    with django_assert_max_num_queries(6):
        browser.get(NEW)
