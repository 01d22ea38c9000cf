"""The navigation: seven places with their tabs, pinned items, and old addresses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from memory.models import MemoryFile, SavedView, Topic, User
from research.pages import places
from tests.research.factories import make_topic
from tests.undo import undone

NONE = "00000000-0000-4000-8000-000000000000"


def rail(browser: Client, path: str) -> Any:
    return browser.get(path).context


def test_the_rail_has_seven_places_and_a_foot_of_three(browser: Client):
    shown = rail(browser, "/")

    assert [str(item["label"]) for section in shown["nav"] for item in section] == [
        "Home", "Inbox", "Ask", "Topics", "Memory", "Library", "Agents",
    ]  # fmt: skip
    assert [str(item["label"]) for item in shown["nav_foot"]] == ["Activity", "Trash", "Settings"]
    assert [str(item["label"]) for item in shown["nav_bar"]] == [
        "Home",
        "Inbox",
        "Topics",
        "Memory",
    ]


@pytest.mark.parametrize(
    ("path", "place", "tab"),
    [
        ("/", "Home", None),
        ("/reports/", "Topics", "Reports"),
        ("/schedule/", "Topics", "Schedule"),
        ("/topics/new/", "Topics", None),
        ("/memory/", "Memory", "All"),
        ("/memory/?show=fact", "Memory", "Facts"),
        ("/memory/?show=note", "Memory", "All"),
        ("/files/", "Memory", "Files"),
        ("/files/facts/user.md/", "Memory", None),
        ("/settings/tokens/", "Agents", "API tokens"),
        ("/agents/", "Agents", "Context"),
        ("/agents/?agent=ask&message=fares", "Agents", "Context"),
        ("/agents/activity/?actor=agent:x", "Agents", "Activity"),
        ("/agents/permissions/", "Agents", "Permissions"),
        ("/settings/soul/", "Agents", "Identity"),
        ("/scratchpad/", "Agents", "Working data"),
        ("/settings/profile/", "Settings", None),
    ],
)
def test_every_page_is_in_a_place_and_lists_tabs_pages_only(
    browser: Client, path: str, place: str, tab: str | None
):
    shown = rail(browser, path)

    assert shown["nav_place"].label == place
    assert shown["nav_in_more"] == (place in {"Ask", "Library", "Agents", "Settings"})
    assert [one.label for one, is_open, _number in shown["nav_tabs"] if is_open] == (
        [tab] if tab else []
    )


def test_every_key_opens_one_page():
    every = [one for section in places.SECTIONS for one in section]
    every += [tab for one in every for tab in (*one.leaves(), *one.also)]
    keys = [one.key for one in every if one.key]

    assert sorted(keys) == sorted(set(keys))
    # The keys of pages that had their own entry in the rail before.
    assert set("hqtrelfnokpvwcxads") <= set(keys)


def test_a_tab_keeps_its_key_on_every_page(browser: Client):
    page = browser.get("/library/").content.decode()

    assert re.search(r'<a href="/notes/" data-hotkey="g n"', page)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/recall/?q=a+b&show=note", "/memory/?q=a+b&show=note"),
        ("/recall/hits.csv?q=a", "/memory/hits.csv?q=a"),
        ("/settings/agents/", "/agents/permissions/"),
        ("/settings/review/", "/agents/permissions/"),
        ("/context/?message=fares", "/agents/?message=fares"),
        ("/context/context.txt", "/agents/context.txt"),
        ("/settings/agents/7/", "/agents/7/"),
    ],
)
def test_old_addresses_redirect_permanently_and_keep_a_form(browser: Client, old: str, new: str):
    read, sent = browser.get(old), browser.post(old)

    assert (read.status_code, read["Location"]) == (301, new)
    assert (sent.status_code, sent["Location"]) == (308, new)


# --- pinned items ---


def pin(browser: Client, what: str, on: str = "1") -> Any:
    return browser.post("/pins/", {"what": what, "on": on, "next": "/library/"})


def shown_pins(browser: Client) -> list[tuple[str, str]]:
    return [(one["label"], one["url"]) for one in rail(browser, "/library/")["nav_pinned"]]


def test_topics_files_and_views_are_pinned_in_order_and_unpinned(browser: Client, alice: User):
    topic = make_topic(alice, "Lithium <b>")
    view = SavedView.objects.create(owner=alice, page="notes", name="Mine", query="q=a")

    for what in (f"view:{view.pk}", f"topic:{topic.pk}", "file:facts/user.md", f"view:{view.pk}"):
        assert pin(browser, what)["Location"] == "/library/"

    assert shown_pins(browser) == [
        ("Lithium <b>", f"/topics/{topic.slug}/"),
        ("facts/user.md", "/files/facts/user.md/"),
        ("Mine", "/notes/?q=a"),
    ]
    assert "Lithium &lt;b&gt;" in browser.get("/library/").content.decode()
    pin(browser, f"topic:{topic.pk}", on="")
    assert [label for label, _url in shown_pins(browser)] == ["facts/user.md", "Mine"]


def test_the_toast_takes_a_pin_back(browser: Client, alice: User):
    topic = make_topic(alice)
    answer = browser.post("/pins/", {"what": f"topic:{topic.pk}", "on": "1"}, follow=True)

    answer = undone(browser, answer)
    assert shown_pins(browser) == []
    undone(browser, answer)
    assert len(shown_pins(browser)) == 1


@pytest.mark.parametrize(
    "what",
    ["", "topic:", f"topic:{NONE}", "file:facts/none.md", "view:x", "view:9" + "9" * 30, "x:1"],
)
def test_what_is_not_there_cannot_be_pinned(browser: Client, alice: User, what: str):
    assert pin(browser, what).status_code == 404
    assert User.objects.get(pk=alice.pk).pinned == []


def test_a_topic_of_another_person_is_not_there(browser: Client, bob: User):
    assert pin(browser, f"topic:{make_topic(bob).pk}").status_code == 404


def test_a_trashed_topic_is_not_listed_until_it_is_back(browser: Client, alice: User):
    topic = make_topic(alice)
    pin(browser, f"topic:{topic.pk}")
    topic.trash(by=alice.actor)
    assert shown_pins(browser) == []
    assert pin(browser, f"topic:{topic.pk}", on="").status_code == 302, "it can be unpinned"


def test_pins_of_deleted_items_are_neither_listed_nor_counted(browser: Client, alice: User):
    topics = [make_topic(alice, f"Topic {n}") for n in range(places.MAX_PINNED)]
    view = SavedView.objects.create(owner=alice, page="notes", name="Mine", query="q=a")
    for what in (f"view:{view.pk}", "file:facts/user.md", f"topic:{topics[0].pk}"):
        pin(browser, what)
    view.delete()
    MemoryFile.objects.filter(owner=alice, path="facts/user.md").delete()
    assert [label for label, _url in shown_pins(browser)] == ["Topic 0"]

    for topic in topics:
        pin(browser, f"topic:{topic.pk}")
    assert len(shown_pins(browser)) == places.MAX_PINNED
    assert len(User.objects.get(pk=alice.pk).pinned) == places.MAX_PINNED


def test_more_than_a_rail_holds_are_refused_and_nothing_is_lost(browser: Client, alice: User):
    topics = [make_topic(alice, f"Topic {n}") for n in range(places.MAX_PINNED + 1)]
    for topic in topics:
        pin(browser, f"topic:{topic.pk}")

    assert "Unpin one first" in browser.get("/library/").content.decode()
    assert len(shown_pins(browser)) == places.MAX_PINNED
    assert Topic.objects.filter(pk=topics[-1].pk).exists()
