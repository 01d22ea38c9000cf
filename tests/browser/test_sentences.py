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


def test_a_sentence_is_reached_corrected_and_taken_back_by_keyboard(
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
    page.wait_for_url(re.compile("/correct/"))
    page.locator("[name=wrong]").focus()
    page.keyboard.type("It is not so.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile("#s-"))
    expect(page.locator(".body .remark").first).to_contain_text("corrected by you")
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
