"""The tree of memory files, and each of them to read."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.models import MirroredFile
from memory.models.actors import REFLECTOR
from memory.services.files.saving import append_to, save_file
from tests.pages.record_cast import text_of
from tests.undo import undone

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
ENTRY = "## Tokyo flights\n- Summary: Spring cheapest\n- Date: 2026-02-26\n- Task: compare flights"


@pytest.fixture
def browser(alice: Any, client_of: Any) -> Client:
    made: Client = client_of(alice)
    return made


def month(owner: Any, number: int) -> str:
    """Write one entry into a month's file."""
    path = f"episodes/20{10 + number // 12:02}-{number % 12 + 1:02}.md"
    append_to(owner, path, ENTRY, by=REFLECTOR, why="worth keeping")
    return path


@pytest.mark.requirement("R139", "R150", "R161", "R226")
def test_the_tree_shows_facts_with_their_budget_and_the_months(browser: Client, alice: Any):
    path = month(alice, 1)

    html = text_of(browser.get("/files/"))

    assert USER in html and "facts/memory.md" in html and path in html
    assert "of 15,360 bytes" in html
    assert "s reflection" in html and "worth keeping" in html


def test_without_an_episode_the_tree_says_how_one_comes(browser: Client):
    assert "No journal yet" in text_of(browser.get("/files/"))


def test_what_was_not_taken_in_from_disk_is_reported(browser: Client, alice: Any):
    MirroredFile.objects.update_or_create(
        owner=alice, path=USER, defaults={"problem": "It is not UTF-8."}
    )
    assert "not imported from disk" in text_of(browser.get("/files/"))
    assert "It is not UTF-8." in text_of(browser.get(f"/files/{USER}/"))


@pytest.mark.requirement("R161")
def test_a_file_is_shown_as_its_markdown_is_meant_and_as_it_is(browser: Client, alice: Any):
    text = "# User\n\n> Summary: me\n\n- **Name**: 建军 <script>alert(1)</script>\n"
    save_file(alice, USER, text, by=alice.actor, seen=1)

    html = browser.get(f"/files/{USER}/").content.decode()
    source = browser.get(f"/files/{USER}/source/")

    assert "<strong>Name</strong>: 建军" in html and "<script>alert" not in html
    assert source.content.decode() == text
    assert source["Content-Type"].startswith("text/plain")


def test_a_section_that_is_locked_says_so(browser: Client, alice: Any):
    file = save_file(alice, USER, "# User\n\n## Work\n\n- Wed 10:00\n", by=alice.actor).file
    file.change(by=alice.actor, section_locks=[["User", "Work"]])

    assert "only you can edit this section" in text_of(browser.get(f"/files/{USER}/"))


@pytest.mark.parametrize(
    "path",
    ["facts/other.md", "episodes/2026-13.md", "facts/../facts/user.md", "Facts/user.md", "x"],
)
def test_no_other_name_leads_anywhere(browser: Client, path: str):
    assert browser.get(f"/files/{path}/").status_code == 404


def test_a_month_without_a_file_is_not_found(browser: Client):
    assert browser.get("/files/episodes/2026-02.md/").status_code == 404


def test_a_stranger_sees_their_own_files_alone(client_of: Any, alice: Any, bob: Any):
    save_file(alice, USER, "# Alice's own words\n", by=alice.actor)
    path = month(alice, 3)

    theirs = client_of(bob)

    assert "Alice's own" not in text_of(theirs.get(f"/files/{USER}/"))
    assert theirs.get(f"/files/{path}/").status_code == 404
    assert path not in text_of(theirs.get("/files/"))


def test_the_tree_takes_a_fixed_number_of_queries(browser: Client, alice: Any):
    month(alice, 0)
    with CaptureQueriesContext(connection) as few:
        browser.get("/files/")
    for number in range(1, 20):
        month(alice, number)
    with CaptureQueriesContext(connection) as many:
        browser.get("/files/")
    assert len(few) == len(many) <= 12


def test_a_month_goes_to_the_trash_from_its_page_and_is_restored(browser: Client, alice: Any):
    path = month(alice, 3)
    page = browser.get(f"/files/{path}/")
    file = page.context["file"]
    act = f"/records/memoryfile/{file.pk}/trash/"
    assert act in text_of(page)

    page = browser.post(act, {"next": "/files/"}, follow=True)
    assert browser.get(f"/files/{path}/").status_code == 404
    undone(browser, page)
    assert browser.get(f"/files/{path}/").status_code == 200


def test_a_fact_file_cannot_be_deleted(browser: Client):
    assert "/trash/" not in text_of(browser.get(f"/files/{USER}/")).split("<main", 1)[1]


@pytest.mark.parametrize("tab", ["", "edit/", "history/", "blame/", "lock/", "condense/"])
def test_every_tab_of_a_file_is_headed_by_its_path(browser: Client, tab: str):
    html = browser.get(f"/files/{USER}/{tab}").content.decode()
    heading = html[html.index("<h1>") : html.index("</h1>")]

    assert f'<span class="mono">{USER}</span>' in heading
