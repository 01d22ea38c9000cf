"""A note in a browser: two tabs edit it, recall follows each edit at once, the panel beside a list."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor, signed_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
TEXT = "Fares are stale.\nAsk the airline.\nThe desk opens at nine."
CONTENT = "[name=content]"


def written(visitor: Visitor, text: str = TEXT) -> str:
    """Write a note by the form, and return its page's address."""
    visitor.goto("/notes/new/")
    visitor.page.locator(CONTENT).fill(text)
    visitor.press("Save")
    visitor.page.wait_for_url(re.compile(r"/notes/[0-9a-f-]{36}/"))  # up to 30 s on a busy machine
    expect(visitor.page.locator(".record-words").first).to_contain_text("Fares are")
    return visitor.page.url


def saved(visitor: Visitor, page: str, text: str) -> None:
    visitor.goto(f"{page}edit/")
    visitor.page.locator(CONTENT).fill(text)
    visitor.press("Save")
    expect(visitor.page.locator("#toasts .toast").first).to_contain_text("Saved as version")


def recalled(visitor: Visitor, query: str) -> str:
    visitor.goto(f"/memory/?q={query}")
    return visitor.words()


@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_of_two_tabs_the_second_is_told_keeps_its_text_and_merges(
    visit: Visit, newcomer: str, scripts: bool
) -> None:
    first = signed_in(visit, newcomer, java_script_enabled=scripts)
    page = written(first)
    second = signed_in(visit, newcomer, java_script_enabled=scripts)
    second.goto(f"{page}edit/")
    saved(first, page, TEXT.replace("stale", "fresh"))

    second.page.locator(CONTENT).fill(TEXT.replace("nine", "ten"))
    second.press("Save")
    expect(second.page.locator("#record-edit")).to_contain_text(
        "This item changed while you were editing"
    )
    both = TEXT.replace("stale", "fresh").replace("nine", "ten")
    expect(second.page.locator(CONTENT)).to_have_value(both)
    second.press("Save the merged text")

    expect(second.page.locator("#toasts .toast").first).to_contain_text("Saved as version 3")
    expect(second.page.locator(".record-words").first).to_contain_text("opens at ten")


def test_where_both_changed_one_place_a_side_is_chosen(visit: Visit, newcomer: str) -> None:
    first = signed_in(visit, newcomer)
    page = written(first)
    second = signed_in(visit, newcomer)
    second.goto(f"{page}edit/")
    saved(first, page, TEXT.replace("nine", "eight"))

    second.page.locator(CONTENT).fill(TEXT.replace("nine", "ten"))
    second.press("Save")
    second.page.locator(".merge-hunk").get_by_label("Current", exact=True).check()
    second.press("Edit the merged text")

    expect(second.page.locator(CONTENT)).to_have_value(TEXT.replace("nine", "eight"))
    expect(second.page.locator("#typed")).to_contain_text("opens at ten")


def test_recall_finds_the_new_words_and_not_the_old_and_a_restore_turns_that_round(
    visit: Visit, newcomer: str
) -> None:
    visitor = signed_in(visit, newcomer)
    page = written(visitor, "Fares are stale.")
    saved(visitor, page, "Fares have ripened.")
    assert "Fares have ripened." in recalled(visitor, "ripened")
    assert "Fares are stale." not in recalled(visitor, "stale")

    visitor.goto(f"{page}history/")
    visitor.press("Restore version 1")
    expect(visitor.page.locator("#toasts .toast").first).to_contain_text("Version restored")

    assert "Fares are stale." in recalled(visitor, "stale")
    assert "Fares have ripened." not in recalled(visitor, "ripened")


def test_a_note_goes_to_the_trash_by_a_key_and_is_restored_by_undo(
    visit: Visit, newcomer: str
) -> None:
    visitor = signed_in(visit, newcomer)
    written(visitor)
    visitor.page.locator("h1").click()
    visitor.page.keyboard.press("#")
    expect(visitor.page.locator("main")).to_contain_text("This record is in Trash.")
    visitor.press("Undo")
    expect(visitor.page.locator("#toasts .toast").first).to_contain_text("Change undone.")
    expect(visitor.page.locator("main")).not_to_contain_text("This record is in Trash.")


def test_the_panel_next_to_a_list_pins_a_note(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    written(visitor)
    visitor.goto("/notes/?q=fares")
    visitor.page.locator("[data-row-link]").first.click()
    panel = visitor.page.locator("#record-panel")
    expect(panel).to_contain_text("Where it comes from")
    panel.get_by_role("button", name="Pin").click()
    expect(panel.get_by_role("button", name="Unpin")).to_be_visible()
    assert not visitor.violations()


@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_a_person_writes_and_edits_a_rule_without_evidence(
    visit: Visit, newcomer: str, scripts: bool
) -> None:
    visitor = signed_in(visit, newcomer, java_script_enabled=scripts)
    visitor.goto("/notes/new/")
    visitor.page.locator("[name=kind]").select_option("rule")
    visitor.page.locator(CONTENT).fill("Fares are checked on Mondays.")
    visitor.press("Save")
    expect(visitor.page.locator(".record-words").first).to_contain_text("on Mondays")

    page = visitor.page.url
    visitor.goto(f"{page}edit/")
    visitor.page.locator(CONTENT).fill("Fares are checked on Fridays.")
    visitor.press("Save")
    expect(visitor.page.locator(".record-words").first).to_contain_text("on Fridays")


def test_a_button_pressed_twice_in_a_hurry_makes_one_note(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/notes/new/")
    visitor.page.get_by_label("Text to remember").fill("Lilac blooms in Lanling.")
    visitor.page.get_by_role("button", name="Save").dblclick()
    expect(visitor.page.locator("#toasts .toast")).to_have_count(1)
    visitor.goto("/notes/?q=lilac")
    expect(visitor.page.locator("tbody tr:not(.day)")).to_have_count(1)
