"""What became of a memory file: its history, any two versions, an older one put back, blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.models import MemoryFile, Revision
from memory.models.actors import REFLECTOR
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, lock_section, save_file
from tests.pages.record_cast import HTMX, text_of
from tests.undo import undone

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
HISTORY, COMPARE, RESTORE, BLAME = (
    f"/files/{USER}/{name}/" for name in ("history", "compare", "restore", "blame")
)
TEXT = "# User\n\n> Summary: me\n\n- Name: 建军\n- Stand-up: Tue 10:00\n"
MOVED = TEXT.replace("Tue", "Wed")


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    """Alice's, whose file Beacon's reflection has changed once."""
    save_file(alice, USER, TEXT, by=alice.actor, why="set out")
    save_file(alice, USER, MOVED, by=REFLECTOR, why="the stand-up moved", source="run:7")
    return client_of(alice)


def now(owner: Any) -> MemoryFile:
    return read_file(owner, USER)


# --- history --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R226")
def test_a_history_says_who_when_why_and_by_how_much(browser: Client):
    html = text_of(browser.get(HISTORY))

    assert "Version 3" in html and "s reflection" in html and "The stand-up moved" in html
    assert "run 7" in html and "0 bytes" in html
    assert "Version 2" in html and "Set out" in html
    assert "created" in html.lower()


def test_a_history_reports_locks_by_their_section(browser: Client, alice: Any):
    lock_section(now(alice), ["User"], by=alice.actor, locked=True)
    assert "Locked the section “User”" in text_of(browser.get(HISTORY))


def test_a_comparison_is_set_as_the_source_that_it_is(browser: Client):
    assert 'class="stack compare of-source"' in text_of(browser.get(COMPARE))


def test_a_strangers_history_is_their_own(browser: Client, client_of: Any, bob: Any, alice: Any):
    path = append_to(alice, "episodes/2026-02.md", "## Tokyo", by=alice.actor).file.path
    theirs = client_of(bob)

    assert "the stand-up moved" not in text_of(theirs.get(HISTORY))
    assert "建军" not in text_of(theirs.get(COMPARE)) + text_of(theirs.get(BLAME))
    for name in ("history", "compare", "blame"):
        assert theirs.get(f"/files/{path}/{name}/").status_code == 404
    assert theirs.post(f"/files/{path}/restore/", {"version": 1}).status_code == 404


def test_who_is_not_signed_in_is_sent_to_sign_in(client: Client):
    for url in (HISTORY, COMPARE, BLAME):
        assert "/sign-in/" in client.get(url)["Location"]


def test_a_long_history_comes_in_pages_and_loads_no_text(browser: Client, alice: Any):
    for turn in range(30):
        save_file(alice, USER, f"{MOVED}- Turn {turn}\n", by=alice.actor, why=f"turn {turn}")

    with CaptureQueriesContext(connection) as asked:
        first = text_of(browser.get(HISTORY))
    cursor = first.partition("cursor=")[2].partition('"')[0]
    second = text_of(browser.get(f"{HISTORY}?cursor={cursor}"))

    assert "Version 33" in first and "Version 8<" not in first
    assert "Version 8" in second and "Created" in second
    assert len(asked) <= 12
    told = [one["sql"] for one in asked if 'FROM "memory_revision"' in one["sql"]]
    assert all('"memory_revision"."after",' not in sql for sql in told)


@pytest.mark.parametrize("cursor", ["x", "%00", "WyJ4IiwieCJd", "W10"])
def test_a_cursor_that_means_nothing_shows_the_first_page(browser: Client, cursor: str):
    assert "Version 3" in text_of(browser.get(f"{HISTORY}?cursor={cursor}"))


# --- two versions ---------------------------------------------------------------------------------------


@pytest.mark.requirement("R226")
def test_any_two_versions_are_held_against_each_other_word_by_word(browser: Client):
    html = text_of(browser.get(COMPARE, {"from": 2, "to": 3}))

    assert "Tue</del>" in html and "Wed</ins>" in html
    assert "1 line differs" in html
    assert "the stand-up moved" in html and "Restore version 2" in html


def test_over_htmx_the_comparison_alone_comes(browser: Client):
    headers = HTMX | {"HX-Target": "file-compare"}
    answer = browser.get(COMPARE, {"from": 1, "to": 3, "view": "side"}, headers=headers)

    html = text_of(answer)
    assert html.startswith('<section id="file-compare"') and "text-sides" in html


@pytest.mark.parametrize(
    "query", ["", "from=0&to=3", "from=1&to=99", "from=x&to=²", "from=-1&to=2", "from=2", "to="]
)
def test_versions_that_there_are_not_show_the_last_change(browser: Client, query: str):
    html = text_of(browser.get(f"{COMPARE}?{query}"))
    assert "Version 2 compared with version 3" in html


def test_what_is_unchanged_is_folded_until_asked_for(browser: Client, alice: Any):
    lines = "".join(f"- Line {n}\n" for n in range(40))
    save_file(alice, USER, f"{MOVED}{lines}", by=alice.actor)
    save_file(alice, USER, f"{MOVED}{lines}- More\n", by=alice.actor)

    assert "unchanged lines" in text_of(browser.get(COMPARE))
    assert "Line 20" in text_of(browser.get(COMPARE, {"from": 4, "to": 5, "show": "all"}))


# --- restore --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R226")
def test_an_older_version_is_restored_as_a_new_one_with_undo(browser: Client, alice: Any):
    answer = browser.post(RESTORE, {"version": 2, "seen": 3}, follow=True)

    assert (now(alice).version, "Tue" in now(alice).content) == (4, True)
    undone(browser, answer)
    assert now(alice).version == 5 and now(alice).content == MOVED


def test_a_restore_over_someone_elses_change_shows_what_it_would_change(
    browser: Client, alice: Any
):
    save_file(alice, USER, f"{MOVED}- Cat: Mao\n", by=REFLECTOR)

    answer = browser.post(RESTORE, {"version": 2, "seen": 3}, follow=True)

    assert now(alice).version == 4
    assert "Nothing was restored" in text_of(answer)
    assert "Version 2 compared with version 4" in text_of(answer)


def test_restoring_what_stands_changes_nothing(browser: Client, alice: Any):
    answer = browser.post(RESTORE, {"version": 3, "seen": 3}, follow=True)
    assert now(alice).version == 3 and "Nothing changed" in text_of(answer)


@pytest.mark.parametrize("version", ["", "99", "x", "-2"])
def test_restoring_no_version_is_refused_with_the_reason(browser: Client, alice: Any, version: str):
    answer = browser.post(RESTORE, {"version": version, "seen": 3})
    assert answer.status_code == 409 and "has no version" in text_of(answer)
    assert now(alice).version == 3


# --- blame ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R184")
def test_blame_names_who_wrote_each_line_when_why_and_in_which_run(browser: Client):
    html = text_of(browser.get(BLAME))

    before, _line, after = html.partition("Stand-up: Wed")
    assert "set out" in before.partition("Name: 建军")[0] and after
    told = before.rpartition('class="who"')[2]
    assert "the stand-up moved" in told and "run 7" in told and "from=2&amp;to=3" in told


def test_a_generated_summary_line_is_signed_beacon_on_a_persons_save(browser: Client, alice: Any):
    save_file(alice, USER, "# User\n\n- Name: 建军\n- Tea\n", by=alice.actor, why="emptied")

    blame = text_of(browser.get(BLAME))
    line = blame.partition("&gt; Summary: Name: 建军, Tea")[0].rpartition('class="who"')[2]
    assert "<b><bdi>Beacon</bdi></b>" in line and "generated when you saved" in line
    assert "emptied" not in line
    assert "Summary line generated by Beacon" in text_of(browser.get(HISTORY))

    older = text_of(browser.get(BLAME, {"version": 3}))
    assert (
        "<b>Beacon</b>" not in older.partition("&gt; Summary: me")[0].rpartition('class="who"')[2]
    )


def test_the_editor_marks_whose_the_summary_line_is(browser: Client, alice: Any):
    edit, page = f"/files/{USER}/edit/", f"/files/{USER}/"
    assert "Written by you" in text_of(browser.get(edit))

    save_file(alice, USER, "# User\n\n- Name: 建军\n", by=alice.actor)

    html = text_of(browser.get(edit))
    assert "Generated by Beacon" in html and "The summary on line 3" in html
    assert "Generated by Beacon" in text_of(browser.get(page))


def test_blame_of_an_older_version_is_kept(browser: Client):
    html = text_of(browser.get(BLAME, {"version": 2}))
    assert "Stand-up: Tue" in html and "This is version 2" in html
    assert "the stand-up moved" not in html


@pytest.mark.parametrize("query", ["version=99", "version=x", "line=99999999", "line=-1", "line="])
def test_blame_of_what_there_is_not_shows_the_file(browser: Client, query: str):
    assert "Stand-up: Wed" in text_of(browser.get(f"{BLAME}?{query}"))


def test_blame_of_very_many_lines_comes_in_pages(browser: Client, alice: Any):
    lines = "- a\n" * 2_500
    save_file(alice, USER, lines, by=alice.actor)

    html = text_of(browser.get(BLAME, {"line": 1_500}))

    assert 'id="L1500"' in html and 'id="L1000"' not in html and 'id="L2001"' not in html


def test_pages_of_a_file_take_as_many_queries_however_many_changes(browser: Client, alice: Any):
    def asked(url: str) -> int:
        with CaptureQueriesContext(connection) as found:
            assert browser.get(url).status_code == 200
        return len(found)

    few = [asked(url) for url in (HISTORY, COMPARE, BLAME)]
    for turn in range(12):
        text = f"{now(alice).content}- Turn {turn}\n"
        save_file(alice, USER, text, by=REFLECTOR, source=f"run:{turn}")
    many = [asked(url) for url in (HISTORY, COMPARE, BLAME)]

    assert few == many and max(many) <= 12
    assert Revision.objects.for_user(alice).count() >= 15
