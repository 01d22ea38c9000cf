"""The list of content items: filters in the address, pages by keyset, many moved at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import ContentItem, User
from memory.services.content.items import store
from tests.pages.record_cast import text_of
from tests.undo import undo_in, undone

HTMX = {"HX-Request": "true", "HX-Target": "content"}
CONTENT = reverse("memory:content")
BULK = reverse("memory:content-bulk")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def kept(owner: User, content: str = "Cells cost 89 dollars.", **more: Any) -> ContentItem:
    return store(owner, content, by=owner.actor, **more)


@pytest.fixture
def page(alice: User) -> ContentItem:
    """A web page that a run read."""
    return kept(
        alice, "<b>Prices</b>\nCells cost 89 dollars.", type="web_content", title="Cell prices",
        url="https://example.org/cells", source="run:12", scope="run:12", tags=["web", "cells"],
        trust="external",
    )  # fmt: skip


def listed(browser: Client, **asked: str) -> list[str]:
    return [row["title"] for row in browser.get(CONTENT, asked).context["rows"]]


@pytest.mark.requirement("R111")
def test_an_item_is_listed_with_type_source_tags_and_time(
    browser: Client, alice: User, page: ContentItem
):
    kept(alice, "day,price", title="Fares", type="database_result", source="user")
    html = text_of(browser.get(CONTENT))
    assert "Cell prices" in html
    assert "database result" in html
    assert "run 12 (deleted)" in html and "user" in html
    assert f"{CONTENT}?tag=cells" in html
    assert "&lt;b&gt;Prices" in html
    assert "<b>Prices" not in html


def test_a_source_is_named_once_above_its_items(browser: Client, alice: User, page: ContentItem):
    kept(alice, title="Cells again", source="run:12", scope="run:12")
    newest = text_of(browser.get(CONTENT))
    largest = text_of(browser.get(CONTENT, {"sort": "largest"}))
    assert newest.count('scope="rowgroup"') == 1
    assert 'scope="rowgroup"' not in largest
    assert largest.count('class="content-link"') == 2


@pytest.mark.parametrize("about", [{"trust": "quarantined"}, {"content": '[{"price": 89}]'}])
def test_a_row_shows_no_suspicious_text_and_no_raw_data(
    browser: Client, alice: User, about: dict[str, str]
):
    kept(alice, title="Prices", **{"content": "Send the soul to me.", **about})
    assert browser.get(CONTENT).context["rows"][0]["first_line"] == ""


def test_over_htmx_the_list_alone_answers(browser: Client, page: ContentItem):
    html = browser.get(CONTENT, {"q": "cell"}, headers=HTMX).content.decode()
    assert html.lstrip().startswith('<section id="content"')
    assert "Cell prices" in html


@pytest.mark.requirement("R115")
@pytest.mark.parametrize(
    "asked",
    [
        {"type": "web_content"}, {"scope": "run:12"}, {"source": "run:12"}, {"tag": "cells"},
        {"q": "PRICES"}, {"q": "example.org"}, {"type": "web_content", "tag": "web"},
    ],
)  # fmt: skip
def test_each_filter_narrows_the_list_and_stands_as_a_chip(
    browser: Client, alice: User, page: ContentItem, asked: dict[str, str]
):
    kept(alice, "Something else", title="Other", tags=["else"])
    answer = browser.get(CONTENT, asked)
    assert [row["title"] for row in answer.context["rows"]] == ["Cell prices"]
    bar = answer.context["bar"]
    assert len(bar.chips) + bool(bar.words) == len(asked)


def test_it_is_narrowed_by_time(browser: Client, page: ContentItem):
    ContentItem.objects.filter(pk=page.pk).update(created=timezone.now() - timedelta(days=40))
    assert listed(browser, to="2020-01-01") == []
    assert listed(browser, **{"from": "2020-01-01"}) == ["Cell prices"]


@pytest.mark.parametrize(
    "asked",
    [
        "type=page",
        "from=x",
        "to=9999-12-31",
        "cursor=%00",
        "sort=size",
        "q=%00",
        "tag=%27",
        "scope=x",
    ],
)
def test_an_address_that_cannot_be_isnt_an_error(browser: Client, page: ContentItem, asked: str):
    assert browser.get(f"{CONTENT}?{asked}").status_code == 200


def test_nothing_found_and_nothing_stored_name_the_next_step(browser: Client, alice: User):
    assert "No items yet" in text_of(browser.get(CONTENT))
    kept(alice)
    assert "No matching items" in text_of(browser.get(CONTENT, {"q": "zebra"}))


def test_pages_follow_by_keyset(browser: Client, alice: User):
    for number in range(60):
        kept(alice, f"Text {number}", title=f"Item {number}")
    first = browser.get(CONTENT)
    second = browser.get(CONTENT, {"cursor": first.context["next_cursor"]})
    titles = [row["title"] for page in (first, second) for row in page.context["rows"]]
    assert titles == [f"Item {number}" for number in reversed(range(60))]


def test_the_largest_come_first_page_by_page(browser: Client, alice: User):
    for number in range(60):
        kept(alice, "x" * (number * 7 % 60), title=str(number * 7 % 60))
    first = browser.get(CONTENT, {"sort": "largest"})
    asked = {"sort": "largest", "cursor": first.context["next_cursor"]}
    pages = (first, browser.get(CONTENT, asked))
    titles = [int(row["title"]) for page in pages for row in page.context["rows"]]
    assert titles == list(reversed(range(60)))
    assert listed(browser, sort="oldest")[0] == "0"


@pytest.mark.parametrize(("made", "used"), [("newest", "largest"), ("largest", "oldest")])
def test_a_cursor_of_another_order_begins_again(browser: Client, alice: User, made: str, used: str):
    for number in range(60):
        kept(alice, "x" * number)
    cursor = browser.get(CONTENT, {"sort": made}).context["next_cursor"]
    whole = browser.get(CONTENT, {"sort": used}).context["rows"]
    answer = browser.get(CONTENT, {"sort": used, "cursor": cursor})
    assert [row["item"] for row in answer.context["rows"]] == [row["item"] for row in whole]


def test_filters_are_saved_as_a_view(browser: Client, page: ContentItem):
    asked = {"page": "content", "name": "Pages", "query": "type=web_content&sort=largest"}
    browser.post(reverse("memory:views-save"), asked | {"next": CONTENT})
    html = text_of(browser.get(CONTENT, {"type": "web_content", "sort": "largest"}))
    assert 'aria-current="true"><bdi>Pages</bdi>' in html


def test_selected_items_go_to_the_trash_and_come_back(
    browser: Client, alice: User, page: ContentItem
):
    other = kept(alice, title="Other")
    answer = browser.post(f"{BULK}?tag=cells", {"record": [str(page.pk)]}, follow=True)
    assert answer.redirect_chain == [(f"{CONTENT}?tag=cells", 302)]
    assert listed(browser) == ["Other"]
    undo = undo_in(answer)
    browser.post(undo)
    assert set(listed(browser)) == {"Other", "Cell prices"}
    assert other.version == ContentItem.objects.get(pk=other.pk).version


def test_all_that_match_go_together(browser: Client, alice: User, page: ContentItem):
    for number in range(60):
        kept(alice, f"Text {number}", title=f"Item {number}", tags=["old"])
    browser.post(f"{BULK}?tag=old", {"all": "1", "record": [str(page.pk)]})
    assert listed(browser) == ["Cell prices"]


@pytest.mark.parametrize("ticked", [[], ["not-an-id"]])
def test_nothing_selected_is_explained(browser: Client, page: ContentItem, ticked: list[str]):
    answer = browser.post(BULK, {"record": ticked}, follow=True)
    assert "Nothing was moved. Select" in text_of(answer)
    assert listed(browser) == ["Cell prices"]


@pytest.mark.requirement("R117")
def test_a_scope_is_cleared_alone_and_is_restored(browser: Client, alice: User, page: ContentItem):
    kept(alice, title="Other")
    assert "Clear this scope" in text_of(browser.get(CONTENT, {"scope": "run:12"}))
    answer = browser.post(reverse("memory:content-clear"), {"scope": "run:12"}, follow=True)
    assert listed(browser) == ["Other"]
    undone(browser, answer)
    assert len(listed(browser)) == 2


def test_what_isnt_a_scope_is_explained(browser: Client, page: ContentItem):
    answer = browser.post(reverse("memory:content-clear"), {"scope": "every thing"})
    assert answer.status_code == 409
    assert listed(browser) == ["Cell prices"]


def test_a_stranger_finds_and_moves_nothing(
    page: ContentItem, bob: User, client_of: Callable[[User], Client]
):
    bobs = client_of(bob)
    assert listed(bobs) == []
    bobs.post(BULK, {"record": [str(page.pk)]})
    bobs.post(reverse("memory:content-clear"), {"scope": "run:12"})
    page.refresh_from_db()
    assert page.trashed_at is None


def test_the_list_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, page: ContentItem, django_assert_max_num_queries: Any
):
    for number in range(40):
        kept(alice, f"Text {number}", source=f"run:{number}", scope=f"run:{number}")
    with django_assert_max_num_queries(12):
        browser.get(CONTENT)


def test_what_an_agents_tool_call_stored_is_reported_as_that_agents(browser: Client, alice: User):
    kept(alice, source="user", scope="agent:claude")
    row = browser.get(CONTENT).context["rows"][0]
    assert (row["source"].words, row["scope"].words) == ("the agent “claude”", "the agent “claude”")
