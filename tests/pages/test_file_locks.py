"""Locking a memory file or single sections of it for all but people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.models import MemoryFile
from memory.models.actors import REFLECTOR
from memory.models.errors import Locked
from memory.pages.files.editing import PAGE, sections_to_lock
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from tests.pages.record_cast import HTMX, text_of
from tests.undo import undone

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
LOCK = f"/files/{USER}/lock/"
TEXT = "# User\n\n> Summary: me\n\n## Work\n\n- Stand-up: Tue\n\n### Team\n\n- Mei\n\n## Home\n\n- A cat\n"


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    save_file(alice, USER, TEXT, by=alice.actor)
    return client_of(alice)


def now(owner: Any) -> MemoryFile:
    return read_file(owner, USER)


def anchor(owner: Any, *heading: str) -> str:
    return next(
        r["anchor"]
        for r in sections_to_lock(now(owner), begin=0)["rows"]
        if r["heading"] == heading
    )


@pytest.mark.requirement("R226")
def test_a_section_is_locked_for_agents_and_undone(browser: Client, alice: Any):
    answer = browser.post(LOCK, {"lock-section": anchor(alice, "User", "Work")}, follow=True)

    assert now(alice).section_locks == [["User", "Work"]]
    with pytest.raises(Locked):
        save_file(alice, USER, TEXT.replace("Tue", "Wed"), by=REFLECTOR)
    html = answer.content.decode()
    assert "Locked: User › Work" in html and "by “Work”" in html
    undone(browser, html)
    assert now(alice).section_locks == []


def test_a_section_is_unlocked_over_htmx(browser: Client, alice: Any):
    browser.post(LOCK, {"lock-section": anchor(alice, "User", "Home")})

    headers = HTMX | {"HX-Target": "file-locks"}
    asked = {"unlock": anchor(alice, "User", "Home")}
    html = text_of(browser.post(LOCK, asked, headers=headers))

    assert now(alice).section_locks == []
    assert html.startswith('<div id="file-locks"') and "Unlocked: User › Home" in html


def test_a_section_is_locked_and_unlocked_where_it_is_read(browser: Client, alice: Any):
    page, work = f"/files/{USER}/", anchor(alice, "User", "Work")
    assert f'name="lock-section" value="{work}"' in text_of(browser.get(page))

    answer = browser.post(LOCK, {"lock-section": work, "next": page})

    assert answer["Location"] == f"{page}#{work}"
    html = text_of(browser.get(page))
    assert now(alice).section_locks == [["User", "Work"]] and "Locked: User › Work" in html
    assert html.count('name="unlock"') == 1 and html.count("only you can edit") == 2
    browser.post(LOCK, {"unlock": work, "next": page})
    assert now(alice).section_locks == []


@pytest.mark.parametrize("lock", ["append-only", "read-only"])
def test_the_whole_file_is_locked_and_opened(browser: Client, alice: Any, lock: str):
    browser.post(LOCK, {"lock": lock})
    assert now(alice).lock == lock
    with pytest.raises(Locked):
        save_file(alice, USER, TEXT.replace("Tue", "Wed"), by=REFLECTOR)

    browser.post(LOCK, {"lock": "open"})
    assert now(alice).lock == "open"


@pytest.mark.parametrize(
    "asked", [{"lock": "shut"}, {"lock-section": "section-gone-123456"}, {"unlock": "\x00"}]
)
def test_what_there_is_not_is_refused_with_the_reason(
    browser: Client, alice: Any, asked: dict[str, str]
):
    answer = browser.post(LOCK, asked)

    assert answer.status_code == 409 and now(alice).version == 2
    assert "isn’t a valid lock" in text_of(answer) or "is no longer in" in text_of(answer)


def test_the_same_again_changes_nothing(browser: Client, alice: Any):
    answer = browser.post(LOCK, {"lock": "open"}, follow=True)
    assert now(alice).version == 2 and "Nothing changed" in text_of(answer)


def test_a_file_without_headings_says_what_to_do(browser: Client, alice: Any):
    save_file(alice, USER, "Just words.\n", by=alice.actor)
    assert "No sections yet" in text_of(browser.get(LOCK))


def test_a_stranger_locks_nothing_of_hers(browser: Client, client_of: Any, bob: Any, alice: Any):
    path = append_to(alice, "episodes/2026-02.md", "## Tokyo", by=alice.actor).file.path
    theirs = client_of(bob)

    theirs.post(LOCK, {"lock": "read-only"})

    assert now(alice).lock == "open"
    assert theirs.get(f"/files/{path}/lock/").status_code == 404


def test_many_sections_come_in_pages_with_few_queries(browser: Client, alice: Any):
    path = "episodes/2026-02.md"
    save_file(alice, path, "".join(f"## Entry {n}\n" for n in range(PAGE + 9)), by=alice.actor)

    with CaptureQueriesContext(connection) as asked:
        first = text_of(browser.get(f"/files/{path}/lock/"))

    assert "Entry 199" in first and "Entry 200" not in first and len(asked) <= 12
    assert "Entry 208" in text_of(browser.get(f"/files/{path}/lock/?from={PAGE}"))
