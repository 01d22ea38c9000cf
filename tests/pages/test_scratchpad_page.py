"""The scratchpad's pages: prefixes, search, setting, editing a version, Trash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import ScratchpadEntry, User
from memory.models.actors import Actor
from memory.services import scratchpad

HTMX = {"HX-Request": "true"}
LIST, NEW = reverse("memory:scratchpad"), reverse("memory:scratchpad-new")
AGENT = Actor("agent", "claude")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def entry(alice: User) -> ScratchpadEntry:
    return scratchpad.set_value(alice, "plan/next", "ask the maker", by=AGENT)


def edit(entry: ScratchpadEntry) -> str:
    return reverse("memory:scratchpad-edit", args=[entry.pk])


def keys(browser: Client, **asked: str) -> list[str]:
    return [row["entry"].key for row in browser.get(LIST, asked).context["rows"]]


def test_entries_stand_sorted_with_who_set_them(browser: Client, alice: User, entry: Any):
    scratchpad.set_value(alice, "a", '{"b": [1, 2]}', by=alice.actor)
    page = browser.get(LIST)
    rows = page.context["rows"]
    assert [(row["entry"].key, row["actor"], row["is_json"]) for row in rows] == [
        ("a", "you", True),
        ("plan/next", "the agent “claude”", False),
    ]
    assert "&quot;b&quot;: [\n" in page.content.decode()


@pytest.mark.requirement("R101")
def test_groups_of_keys_are_walked_into_by_their_parts(browser: Client, alice: User, entry: Any):
    for key in ("plan/next/one", "plan/next/two", "other:x", "%_/x", "plain"):
        scratchpad.set_value(alice, key, "x", by=alice.actor)
    page = browser.get(LIST).context
    # Groups of one key are left out: the key is in the list below.
    assert [(chip["part"], chip["number"]) for chip in page["chips"]] == [("plan/", 3)]
    deeper = browser.get(f"{LIST}?{page['chips'][0]['address']}").context
    assert [(chip["part"], chip["number"]) for chip in deeper["chips"]] == [("next/", 2)]
    assert keys(browser, prefix="%_") == ["%_/x"]


@pytest.mark.requirement("R102")
def test_keys_and_values_are_searched_in_any_case(browser: Client, alice: User, entry: Any):
    scratchpad.set_value(alice, "other", "100 %", by=alice.actor)
    assert keys(browser, q="MAKER") == ["plan/next"]
    assert keys(browser, q="%") == ["other"]


@pytest.mark.requirement("R103")
def test_a_sessions_entries_are_reported_as_such(browser: Client, alice: User, entry: Any):
    scratchpad.set_value(alice, "here", "x", by=AGENT, scope="session:12")
    assert keys(browser) == ["plan/next"]
    html = browser.get(LIST, {"scope": "session:12"}).content.decode()
    assert "only for session 12" in html
    assert "here" in html


def test_over_htmx_the_list_alone_answers(browser: Client, entry: Any):
    html = browser.get(LIST, headers={**HTMX, "HX-Target": "scratchpad"}).content.decode()
    assert html.lstrip().startswith('<section id="scratchpad"')


def test_an_empty_scratchpad_leads_to_the_first_value(browser: Client):
    assert NEW in browser.get(LIST).content.decode()
    assert "No matching entries" in browser.get(LIST, {"q": "nothing"}).content.decode()


@pytest.mark.parametrize("asked", ["scope=nobody", "scope=%00", "prefix=%00", "cursor=x", "q=%00"])
def test_what_cannot_be_asked_isnt_an_error(browser: Client, entry: Any, asked: str):
    assert browser.get(f"{LIST}?{asked}").status_code == 200


def test_pages_follow_each_other_also_where_keys_look_like_days(browser: Client, alice: User):
    names = sorted(f"2026-01-{day:02} {hour:02}:00" for day in range(1, 28) for hour in (0, 9, 21))
    ScratchpadEntry.objects.bulk_create(ScratchpadEntry(owner=alice, key=name) for name in names)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = browser.get(LIST, {"cursor": cursor}).context
        seen += [row["entry"].key for row in page["rows"]]
        cursor = page["next_cursor"]
    assert seen == names


def test_the_list_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(60):
        scratchpad.set_value(alice, f"a/{number}", "x" * 3000, by=alice.actor)
    with django_assert_max_num_queries(9):
        browser.get(LIST)


# --- setting and editing --------------------------------------------------------------------------


@pytest.mark.requirement("R99")
def test_a_value_is_set_under_a_key(browser: Client, alice: User):
    asked = {"key": " plan/a b ", "value": "  x\n", "scope": "owner"}
    assert browser.post(NEW, asked).url == LIST  # type: ignore[attr-defined]
    assert scratchpad.get_entry(alice, "plan/a b").value == "  x\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"key": "x" * 1000}, "at most 200 characters, but this one has 1000"),
        ({"key": "\x00 "}, "Enter a key"),
        ({"key": "plan/next"}, "The key “plan/next” already exists"),
        ({"value": "y" * 70_000}, "this one is 70,000"),
        ({"scope": "everybody"}, "A scope must be"),
    ],
)
def test_what_cannot_be_set_is_explained_and_kept(
    browser: Client, entry: Any, asked: dict[str, str], said: str
):
    answer = browser.post(NEW, {"key": "k", "value": "typed words", "scope": "owner"} | asked)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert asked.get("value", "typed words") in answer.content.decode()
    assert ScratchpadEntry.objects.count() == 1


def test_an_entry_is_edited_over_htmx_in_its_row(browser: Client, entry: ScratchpadEntry):
    form = browser.get(edit(entry), headers=HTMX).content.decode()
    assert form.lstrip().startswith('<div id="scratchpad_edit"')

    asked = {"key": "plan/then", "value": "new", "version": 1, "next": LIST}
    answer = browser.post(edit(entry), asked, headers=HTMX)
    assert answer["HX-Redirect"] == LIST
    entry.refresh_from_db()
    assert (entry.key, entry.value) == ("plan/then", "new")


def test_the_second_of_two_tabs_is_reported_and_keeps_its_words(
    browser: Client, entry: ScratchpadEntry, alice: User
):
    scratchpad.set_value(alice, entry.key, "theirs", by=AGENT)

    asked = {"key": entry.key, "value": "mine", "version": 1}
    html = browser.post(edit(entry), asked).content.decode()

    entry.refresh_from_db()
    assert entry.value == "theirs"
    assert "This item changed while you were editing" in html
    assert "mine" in html
    asked["version"] = 2
    browser.post(edit(entry), asked)
    assert scratchpad.get_entry(alice, entry.key).value == "mine"


def test_a_key_that_is_taken_keeps_both_values(browser: Client, entry: Any, alice: User):
    scratchpad.set_value(alice, "other", "x", by=alice.actor)
    html = browser.post(edit(entry), {"key": "other", "value": "mine", "version": 1})
    assert "“other” already has a value" in html.content.decode()
    entry.refresh_from_db()
    assert (entry.key, entry.value) == ("plan/next", "ask the maker")


def test_an_entry_goes_to_the_trash_with_a_way_back(browser: Client, entry: ScratchpadEntry):
    address = reverse("memory:record-trash", args=["scratchpadentry", entry.pk])
    page = browser.post(address, {"next": LIST}, follow=True)
    entry.refresh_from_db()
    assert entry.trashed_at is not None
    assert "Undo" in page.content.decode()


def test_a_stranger_neither_sees_nor_edits_it(
    entry: ScratchpadEntry, bob: User, client_of: Callable[[User], Client]
):
    bobs = client_of(bob)
    assert b"ask the maker" not in bobs.get(LIST).content
    assert bobs.get(edit(entry)).status_code == 404
    assert bobs.post(edit(entry), {"key": "a", "value": "b", "version": 1}).status_code == 404
