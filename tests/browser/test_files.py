"""Memory files in a browser: edited, previewed, kept as drafts, and changed by two at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, expect

from tests.browser.file_places import EDITOR, write
from tests.browser.test_signed_out import sign_in_in_another_tab
from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
PAGE = "/files/facts/user.md/"
TEXT = "# User\n\n- Stand-up: Tue 10:00\n\n## Home\n\n- City: Lanling\n"
TOAST = "#toasts .toast"


def signed_in(visit: Visit, name: str, **options: object) -> Visitor:
    made = visit(**options)
    made.sign_in(name)
    made.goto(f"{PAGE}edit/")
    return made


def fill(visitor: Visitor, text: str) -> None:
    """Type over the whole text: into the editor, or without scripts into the field."""
    if visitor.page.locator(EDITOR).count():
        write(visitor, text)
    else:
        visitor.page.locator("[name=content]").fill(text)


def saved(visitor: Visitor, text: str) -> None:
    visitor.goto(f"{PAGE}edit/")
    fill(visitor, text)
    visitor.press("Save")
    expect(visitor.page.locator(TOAST).first).to_contain_text("Saved as version")


@pytest.mark.requirement("R226")
def test_bytes_are_counted_while_one_types_and_keys_save(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    fill(visitor, "# User\n\n- 建军\n")
    expect(visitor.page.locator("[data-size]")).to_have_text("17")
    visitor.press("Preview")
    expect(visitor.page.locator("#file-preview article")).to_contain_text("建军")
    visitor.page.locator(EDITOR).press("Control+s")
    expect(visitor.page.locator(".file-text")).to_contain_text("建军")
    visitor.press("Undo")
    expect(visitor.page.locator(".file-text")).not_to_contain_text("建军")


def test_tab_leaves_the_editor_and_the_plain_field_is_remembered(
    visit: Visit, newcomer: str
) -> None:
    visitor = signed_in(visit, newcomer)
    visitor.page.locator(EDITOR).press("Tab")
    assert visitor.page.evaluate("document.activeElement.closest('.file-code')") is None
    visitor.press("Plain text field")
    visitor.goto(f"{PAGE}edit/")
    expect(visitor.page.locator("[name=content]")).to_be_visible()
    assert visitor.page.locator(EDITOR).count() == 0


TWO_WAYS = "# User\n\n- שם: משה כהן מחיפה (Haifa)\n- City: حيفا\n- اللغة: يفضل العربية\n"
DIRECTIONS = """lines => lines.filter(line => line.textContent.trim()).map(
    line => [getComputedStyle(line).direction, getComputedStyle(line).textAlign])"""


def test_each_line_is_edited_in_its_own_direction(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    fill(visitor, TWO_WAYS)

    lines = visitor.page.locator(f"{EDITOR} .cm-line")
    expect(lines.nth(2)).to_have_attribute("dir", "auto")
    shown = lines.evaluate_all(DIRECTIONS)
    assert shown == [[way, "start"] for way in ("ltr", "rtl", "ltr", "rtl")]
    visitor.page.locator(EDITOR).press("Control+End")
    visitor.page.keyboard.insert_text("- שבת")  # a line that was not there when the file was opened
    expect(lines.nth(5)).to_have_css("direction", "rtl")

    visitor.press("Plain text field")
    expect(visitor.page.locator("[name=content]")).to_have_attribute("dir", "auto")
    expect(visitor.page.locator("[name=content]")).to_have_css("unicode-bidi", "plaintext")


@pytest.mark.requirement("R226")
@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_of_two_tabs_the_second_merges_and_is_asked_where_both_changed(
    visit: Visit, newcomer: str, scripts: bool
) -> None:
    first = signed_in(visit, newcomer, java_script_enabled=scripts)
    saved(first, TEXT)
    second = signed_in(visit, newcomer, java_script_enabled=scripts)
    saved(first, TEXT.replace("Lanling", "Jinan"))

    fill(second, TEXT.replace("Tue", "Wed"))
    second.press("Save")
    expect(second.page.locator(TOAST).first).to_contain_text("the two changes do not touch")
    expect(second.page.locator(".file-text")).to_contain_text("Wed 10:00")
    expect(second.page.locator(".file-text")).to_contain_text("Jinan")

    second.goto(f"{PAGE}edit/")
    saved(first, TEXT.replace("Tue", "Fri"))
    fill(second, TEXT.replace("Tue", "Sat"))
    second.press("Save")
    expect(second.page.locator(".merge-hunk").first).to_contain_text("Fri 10:00")
    second.page.get_by_label("Both, theirs first").first.check()
    second.press("Put together with these sides")
    expect(second.page.get_by_role("heading", name="Put together anew")).to_be_visible()
    second.press("Save over version")
    expect(second.page.locator(".file-text")).to_contain_text("Fri 10:00")
    expect(second.page.locator(".file-text")).to_contain_text("Sat 10:00")


@pytest.mark.requirement("R226")
def test_a_draft_survives_a_closed_tab(visit: Visit, newcomer: str) -> None:
    first = signed_in(visit, newcomer)
    write(first, "- typed and not saved\n", anew=False)
    expect(first.page.locator("#file-draft")).to_contain_text("Kept as a draft at")
    first.page.close()

    second = signed_in(visit, newcomer)
    expect(second.page.locator("#file-draft")).to_contain_text("You have an unsaved draft")
    second.follow("Take it up")
    expect(second.page.locator(EDITOR)).to_contain_text("typed and not saved")
    second.press("Save")
    expect(second.page.locator(".file-text")).to_contain_text("typed and not saved")


def test_who_is_signed_out_meanwhile_keeps_what_was_typed(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    visitor.context.clear_cookies(name="sessionid")
    write(visitor, "- typed while signed out\n", anew=False)
    expect(visitor.page.locator("#notice")).to_contain_text("You are signed out")

    sign_in_in_another_tab(visitor, newcomer)
    visitor.press("Save")
    expect(visitor.page.locator(".file-text")).to_contain_text("typed while signed out")


def test_leaving_with_unsaved_words_asks_first(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    visitor.page.on("dialog", answer)
    write(visitor, "- typed\n", anew=False)
    visitor.follow("Cancel")
    visitor.page.wait_for_url(f"**{PAGE}")
    assert asked == ["beforeunload"]


def test_without_scripts_a_draft_is_kept_and_an_episode_written(
    visit: Visit, newcomer: str
) -> None:
    visitor = signed_in(visit, newcomer, java_script_enabled=False)
    fill(visitor, TEXT)
    visitor.press("Keep as a draft")
    expect(visitor.page.locator(TOAST).first).to_contain_text("Your draft is kept")
    assert visitor.page.locator("[name=content]").input_value() == TEXT

    visitor.goto("/files/new/")
    for label, words in (("Title", "Flights"), ("Summary", "Spring"), ("Task", "compare")):
        visitor.page.get_by_label(label).fill(words)
    visitor.page.get_by_label("Findings").fill("March is cheapest")
    visitor.press("Add to its month")
    expect(visitor.page.locator(".file-text")).to_contain_text("March is cheapest")


def test_enter_in_the_note_saves_and_drops_no_draft(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    with visitor.page.expect_response(lambda answer: "/draft/" in answer.url):
        fill(visitor, TEXT)
    expect(visitor.page.locator("#file-draft")).to_contain_text("Kept as a draft")
    visitor.page.locator("[name=note]").fill("moved")
    visitor.page.locator("[name=note]").press("Enter")
    expect(visitor.page.locator(TOAST).first).to_contain_text("Saved as version")
    expect(visitor.page.locator(".file-text")).to_contain_text("Lanling")


def test_a_file_is_printed_without_what_is_pressed(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    saved(visitor, TEXT)
    visitor.goto(PAGE)

    visitor.page.emulate_media(media="print")

    expect(visitor.page.locator(".file-text")).to_contain_text("Lanling")
    expect(visitor.page.locator(".file-text")).to_be_visible()
    expect(visitor.page.locator(".file-lock").first).to_be_hidden()
