"""Editing memory files: saving, previewing, drafts, and two windows that edit one file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from memory.models import FileDraft, MemoryFile, Revision
from memory.models.actors import REFLECTOR
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.files.texts import MAX_FACTS
from memory.services.search.recall import recall
from tests.pages.record_cast import HTMX, text_of

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
EDIT, DRAFT, PREVIEW = (f"/files/{USER}/{name}/" for name in ("edit", "draft", "preview"))
TEXT = "# User\n\n> Summary: me\n\n- Name: 建军\n- Stand-up: Tue 10:00\n- City: Lanling\n"
MOVED = TEXT.replace("Tue", "Wed")
WINDOW = str(uuid4())


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    save_file(alice, USER, TEXT, by=alice.actor, why="set out")
    return client_of(alice)


def typed(text: str, *, seen: int = 2, **more: Any) -> dict[str, Any]:
    """What the editor sends."""
    return {"content": text.replace("\n", "\r\n"), "seen": seen, "window": WINDOW} | more


def body(text: str) -> str:
    """The text without its summary line, which a save writes again."""
    kept = "".join(line for line in text.splitlines(True) if not line.startswith("> Summary"))
    return kept.replace("\n\n\n", "\n\n")


def stands(owner: Any, path: str = USER) -> MemoryFile:
    return read_file(owner, path)


@pytest.mark.requirement("R161", "R226")
def test_a_file_is_edited_and_recall_follows_at_once(browser: Client, alice: Any):
    assert "Stand-up: Tue 10:00" in text_of(browser.get(EDIT))

    answer = browser.post(EDIT, typed(MOVED, note="moved"), follow=True)

    assert (body(stands(alice).content), stands(alice).version) == (body(MOVED), 3)
    assert Revision.objects.for_user(alice).order_by("-id")[0].reason == "moved"
    assert "Saved as version 3." in text_of(answer) and "/undo/" in text_of(answer)
    assert recall(alice, "Wed 10:00")


def test_over_htmx_a_save_leads_to_the_file(browser: Client):
    answer = browser.post(EDIT, typed(MOVED), headers=HTMX)
    assert answer.headers["HX-Redirect"] == f"/files/{USER}/"


def test_a_text_that_says_what_stands_makes_no_version(browser: Client, alice: Any):
    html = text_of(browser.post(EDIT, typed(TEXT), follow=True))
    assert "Nothing changed" in html and stands(alice).version == 2


def test_a_line_typed_at_the_end_leaves_the_file_its_last_line_break(browser: Client, alice: Any):
    browser.post(EDIT, typed(TEXT + "- Tea: green"))
    assert stands(alice).content.endswith("\n- Tea: green\n")
    assert not FileDraft.objects.for_user(alice).exists()


def test_a_file_that_ends_without_a_line_break_stays_so(browser: Client, alice: Any):
    save_file(alice, USER, TEXT.rstrip(), by=alice.actor, seen=2)
    before = stands(alice)
    browser.post(EDIT, typed(before.content, seen=before.version))
    assert stands(alice).version == before.version and not before.content.endswith("\n")


@pytest.mark.requirement("R226")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "# User\n\n" + "𝒳\n" * (MAX_FACTS // 5),
            "over the limit of 15,360",
        ),
        ("# User\n\n" + "word " * 2_000, "is 10,000 bytes"),
    ],
    ids=["over budget", "long line"],
)
def test_what_is_refused_stays_in_the_form_and_as_a_draft(
    browser: Client, alice: Any, text: str, why: str
):
    answer = browser.post(EDIT, typed(text, note="my note"), headers=HTMX)
    html = answer.content.decode()
    assert answer.status_code == 200 and why in html and "my note" in html
    assert text[:30] in html.replace("\r", "") and "aria-invalid" in html
    assert stands(alice).content == TEXT
    assert FileDraft.objects.for_user(alice).get().content == text


def test_how_many_bytes_are_too_many_is_counted_without_scripts(browser: Client):
    html = text_of(browser.post(PREVIEW, typed("é" * 10_000)))
    assert "bytes over the limit" in html and "this file <b data-size>20,000</b>" in html


@pytest.mark.parametrize("size", [15_300, 300_000], ids=["its summary line", "any file"])
def test_a_refusal_and_the_meter_tell_the_same_total(browser: Client, alice: Any, size: int):
    """The refused text counts with its summary line, which the writer did not type."""
    text = "# User\n\n" + ("- word\n" * (size // 7))

    html = text_of(browser.post(EDIT, typed(text), headers=HTMX))

    told = re.search(r"fact files would be ([\d,]+) bytes,.*\(facts/user.md: ([\d,]+),", html)
    assert told is not None
    assert f"<b data-used>{told[1]}</b>" in html and f"<b data-size>{told[2]}</b>" in html
    added = re.search(r'data-added="(\d+)"', html)
    assert added is not None
    assert int(told[2].replace(",", "")) == len(text) + int(added[1])


def test_a_form_without_a_version_is_explained(browser: Client, alice: Any):
    for sent in ({"content": MOVED}, typed(MOVED, seen=-1), typed(MOVED, window="x")):
        answer = browser.post(EDIT, sent)
        assert answer.status_code == 200 and "Wed 10:00" in text_of(answer)
    assert stands(alice).version == 2


# --- two who edit at once -------------------------------------------------------------------------


def test_changes_that_do_not_touch_are_joined_and_said(browser: Client, alice: Any):
    save_file(alice, USER, TEXT.replace("Lanling", "Jinan"), by=REFLECTOR, seen=2)

    html = text_of(browser.post(EDIT, typed(MOVED), follow=True))

    assert "merged with other changes" in html
    assert body(stands(alice).content) == body(MOVED.replace("Lanling", "Jinan"))


def test_a_summary_line_left_out_is_nothing_to_differ_about(browser: Client, alice: Any):
    save_file(alice, USER, TEXT.replace("Lanling", "Jinan"), by=REFLECTOR, seen=2)
    browser.post(EDIT, typed(body(MOVED)))
    assert body(stands(alice).content) == body(MOVED.replace("Lanling", "Jinan"))


@pytest.fixture
def clashed(browser: Client, alice: Any) -> Any:
    """The merge screen of mine (Wed) on theirs (Fri)."""
    save_file(alice, USER, TEXT.replace("Tue", "Fri"), by=REFLECTOR, seen=2)
    return browser.post(EDIT, typed(MOVED, note="my note"), headers=HTMX)


@pytest.mark.requirement("R226")
def test_the_same_line_changed_twice_is_a_merge_screen(clashed: Any, alice: Any):
    html = text_of(clashed)
    assert clashed.status_code == 200 and "This item changed while you were editing" in html
    assert "reflection" in html and "Save with these choices" in html and "my note" in html
    for said in ("Tue 10:00", "Wed 10:00", "Fri 10:00"):
        assert said in html
    assert "Fri" in stands(alice).content
    assert FileDraft.objects.for_user(alice).get().content == MOVED


@pytest.mark.parametrize(
    ("side", "days"), [("theirs", ["Fri"]), ("mine", ["Wed"]), ("both", ["Fri", "Wed"])]
)
def test_a_side_is_chosen_for_each_place(clashed: Any, browser: Client, side: str, days: list[str]):
    sent = typed("x", seen=3, mine=MOVED, base_version=2, compose="1", **{"choice-0": side})
    answer = browser.post(EDIT, sent)
    made = body(answer.context["form"]["content"].value())
    assert [day for day in ("Tue", "Fri", "Wed") if day in made] == days
    assert "City: Lanling" in made


def test_the_choices_are_saved_without_another_step(clashed: Any, browser: Client, alice: Any):
    sent = typed("x", seen=3, mine=MOVED, base_version=2, merge="1")
    browser.post(EDIT, sent | {"choice-0": "both"})
    saved = stands(alice)
    assert ("Fri" in saved.content, "Wed" in saved.content, saved.version) == (True, True, 4)


def test_what_was_merged_is_saved_over_the_newer_version(clashed: Any, browser: Client, alice: Any):
    browser.post(EDIT, typed(MOVED, seen=3, mine=MOVED, base_version=2))
    assert (body(stands(alice).content), stands(alice).version) == (body(MOVED), 4)
    assert not FileDraft.objects.for_user(alice).exists()


def test_a_merge_that_is_stale_again_is_another_merge(clashed: Any, browser: Client, alice: Any):
    save_file(alice, USER, TEXT.replace("Tue", "Sat"), by=REFLECTOR, seen=3)
    html = text_of(browser.post(EDIT, typed(MOVED, seen=3)))
    assert "Save with these choices" in html and "Sat 10:00" in html


def test_a_month_that_went_to_the_trash_can_be_made_again(browser: Client, alice: Any):
    path = "episodes/2026-02.md"
    append_to(alice, path, "## A\n- Task: t", by=alice.actor).file.trash(by=alice.actor)
    text = "# 2026-02 Episodes\n\n## Mine\n- Task: kept\n"

    html = text_of(browser.post(f"/files/{path}/edit/", typed(text, seen=1)))
    assert "has since been moved to Trash" in html and "Mine" in html
    browser.post(f"/files/{path}/edit/", typed(text, seen=0))
    assert "## Mine" in stands(alice, path).content


# --- preview and drafts ---------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["htmx", "without scripts"])
def test_a_preview_shows_the_page_and_the_changes_and_stores_nothing(
    browser: Client, alice: Any, headers: dict[str, str]
):
    text = MOVED.replace("Name", "**Name**") + "<script>alert(1)</script>\n"
    html = browser.post(PREVIEW, typed(text), headers=headers).content.decode()
    assert "<strong>Name</strong>" in html and "<script>alert" not in html
    assert "Changes" in html and "<ins>" in html
    assert stands(alice).version == 2 and not FileDraft.objects.exists()


def test_a_preview_shows_how_an_entry_departs_from_the_format(browser: Client):
    path = "/files/episodes/2026-02.md/preview/"
    html = text_of(browser.post(path, typed("# E\n\n## Bare\n", seen=0), headers=HTMX))
    assert "“Bare” has no Summary line." in html


@pytest.mark.requirement("R226")
def test_what_is_typed_is_kept_offered_and_taken_up(browser: Client, alice: Any):
    html = text_of(browser.post(DRAFT, typed(MOVED, note="why"), headers=HTMX))
    assert "Draft saved at" in html and stands(alice).content == TEXT

    assert "You have an unsaved draft" in text_of(browser.get(EDIT))
    form = browser.get(EDIT, {"draft": "1"}).context["form"]
    begun = {name: form[name].value() for name in ("content", "note", "seen")}
    assert begun == {"content": MOVED, "note": "why", "seen": 2}
    assert str(form["window"].value()) == WINDOW


def test_another_windows_draft_is_not_written_over(browser: Client, alice: Any):
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    other = typed(TEXT + "- New\n", window=str(uuid4()))
    html = text_of(browser.post(DRAFT, other, headers=HTMX))
    assert "Another window already has a draft" in html
    assert FileDraft.objects.for_user(alice).get().content == MOVED


def test_a_save_drops_another_windows_draft_of_the_same_text_alone(browser: Client, alice: Any):
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    browser.post(EDIT, typed(TEXT + "- New\n", window=str(uuid4())))
    assert FileDraft.objects.for_user(alice).get().content == MOVED

    browser.post(EDIT, typed(MOVED, seen=3, window=str(uuid4())))

    assert not FileDraft.objects.for_user(alice).exists()


def test_a_draft_that_says_what_stands_is_none(browser: Client, alice: Any):
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    browser.post(DRAFT, typed(TEXT), headers=HTMX)
    assert not FileDraft.objects.for_user(alice).exists()


def test_a_draft_that_comes_in_behind_its_own_save_is_none(browser: Client, alice: Any):
    late = TEXT.replace("Tue", "Wed") + "- Tea: green"
    browser.post(EDIT, typed(late))
    browser.post(DRAFT, typed(late), headers=HTMX)
    assert not FileDraft.objects.for_user(alice).exists()

    browser.post(DRAFT, typed(late + "\n- Cups: six"), headers=HTMX)
    assert FileDraft.objects.for_user(alice).get().content.endswith("six")


def test_without_scripts_a_draft_is_kept_by_its_button(browser: Client):
    html = text_of(browser.post(DRAFT, typed(MOVED), follow=True))
    assert "Draft saved" in html and "Wed 10:00" in html


def test_a_draft_is_dropped_and_what_is_typed_next_to_it_stays(browser: Client, alice: Any):
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    beside = typed("# typed\n", window=str(uuid4()), drop=WINDOW)
    assert "# typed" in text_of(browser.post(DRAFT, beside))
    assert not FileDraft.objects.for_user(alice).exists()
    own = browser.post(DRAFT, typed(MOVED, drop=WINDOW), headers=HTMX)
    assert own.headers["HX-Redirect"] == EDIT


# --- strangers and queries ------------------------------------------------------------------------


def test_a_stranger_edits_and_keeps_their_own_alone(
    browser: Client, client_of: Callable[[Any], Client], alice: Any, bob: Any
):
    append_to(alice, "episodes/2026-02.md", "## A\n- Task: t", by=alice.actor)
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    theirs = client_of(bob)

    theirs.post(EDIT, typed("# Bob\n", seen=1))
    assert theirs.get("/files/episodes/2026-02.md/edit/").status_code == 404
    assert "Wed" not in text_of(theirs.get(f"{EDIT}?draft=1"))
    theirs.post(DRAFT, typed("# Bob's\n", drop=WINDOW), headers=HTMX)
    assert stands(alice).content == TEXT and FileDraft.objects.for_user(alice).exists()


def test_the_editor_takes_few_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(20):
        save_file(alice, USER, TEXT + f"- {number}\n", by=REFLECTOR)
    browser.post(DRAFT, typed(MOVED), headers=HTMX)
    with django_assert_max_num_queries(12):
        browser.get(EDIT)
    with django_assert_max_num_queries(12):
        browser.post(PREVIEW, typed(MOVED))
