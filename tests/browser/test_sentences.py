"""Only by keyboard: open a citation, reach a sentence, correct it, and undo that."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]


def test_a_sentence_is_reached_corrected_and_undone_by_keyboard(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=cast["report 2"])
    page = visitor.page
    page.locator("#full-report > summary").click()
    sentence = page.locator(".body .said[tabindex]").first
    sentence.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(sentence).to_be_focused()
    expect(page.locator(".correct-this")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # from the button to the sentence's citation
    card = page.locator(".cite-card")
    expect(card).to_contain_text("show in page")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    sentence.focus()
    page.keyboard.press("Enter")
    place = page.locator(".report .edit-here")
    expect(place.locator("[name=right]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(place.locator("form")).to_have_count(0)
    expect(sentence).to_be_focused()
    page.keyboard.press("e")
    expect(place.locator("[name=right]")).to_be_focused()
    place.locator("[name=wrong]").focus()
    page.keyboard.type("It is not so.")
    page.keyboard.press("Control+Enter")
    expect(place.locator(".corrected")).to_contain_text("It is not so.")
    assert "/correct/" not in page.url
    assert visitor.violations() == []

    visitor.press("Undo")

    expect(page.get_by_text("Correction undone")).to_be_visible()


def test_the_text_to_change_and_the_date_to_type_have_the_focus(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=f"/topics/{cast['sample']}/")
    page = visitor.page
    page.locator(".strip-days.each > span").nth(1).click()
    expect(page.locator("#strip-title")).to_have_text("Run #2")
    line = page.locator("li.line").first
    line.locator(".said").first.click()
    line.locator("[data-row-edit]").click()
    text = line.locator("textarea")
    expect(text).to_be_focused()
    assert text.evaluate("one => one.selectionStart === one.value.length && one.value.length > 0")

    visitor.goto("/memory/")
    page.locator(".as-of > summary").click()
    expect(page.locator("[name=as_of]")).to_be_focused()
    page.keyboard.type("1 Jan 2020")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("as_of="))


def test_the_edges_of_the_run_strip_answer_to_arrow_keys(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=f"/topics/{cast['sample']}/?from=3&to=3")
    page = visitor.page
    page.locator("#edge-from").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile(r"from=2\b.*to=3\b"))
    expect(page.locator("#edge-from")).to_be_focused()
    page.locator("#edge-to").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"from=2\b.*to=4\b"))


def test_the_date_line_moves_by_keyboard_and_v_switches_the_view(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=f"/topics/{cast['sample']}/facts/")
    page = visitor.page
    line, place = page.locator("#date-line"), page.locator("#lanes-title")
    before, slot = place.inner_text(), int(line.input_value())
    line.focus()
    page.keyboard.press("ArrowLeft")
    expect(place).not_to_have_text(before)  # at once
    page.wait_for_url(re.compile(r"as_of=|slot="))
    expect(line).to_be_focused()
    assert int(line.input_value()) == slot - 1
    page.locator("body").press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("v")
    page.wait_for_url(re.compile("view=list"))
    expect(line).to_have_count(0)
    page.keyboard.press("v")
    expect(line).to_be_visible()


def test_l_and_m_open_the_history_and_the_note_of_a_sentence(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=f"/topics/{cast['sample']}/?from=2&to=3")
    page = visitor.page
    line = page.locator("li.line:has([data-row-history])").first
    line.locator(".said").first.click()
    page.keyboard.press("m")
    expect(line.locator(".note-form textarea")).to_be_focused()
    page.keyboard.press("Escape")
    expect(line.locator(".note-form")).to_have_count(0)
    page.keyboard.press("l")
    page.wait_for_url(re.compile("/facts/.+"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
