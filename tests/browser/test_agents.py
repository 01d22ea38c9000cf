"""Agents → Context in a browser: typing, the end of the bar, checkboxes, and the row's menu."""

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


def test_the_list_follows_the_message_and_the_end_of_the_bar(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then="/agents/")
    page = visitor.page
    prompt = page.locator("[data-part=whole]")
    prompt.locator("summary").click()
    page.locator("[name=message]").press_sequentially("search fares")

    expect(page.locator("#context")).to_contain_text("similar in wording to the message")
    expect(prompt).to_have_attribute("open", "")
    expect(page.locator("[name=message]")).to_be_focused()
    expect(page).to_have_url(re.compile("message=search"))

    page.locator("#context-range").focus()
    page.keyboard.press("Home")
    expect(page.locator("#context .callout.bad")).to_contain_text("over the budget")
    expect(page).to_have_url(re.compile("budget=100"))
    expect(page.locator("#context-range")).to_be_focused()


def test_on_a_slow_connection_newer_input_replaces_the_request_that_is_under_way(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then="/agents/")
    page = visitor.page
    visitor.slow_down(milliseconds=1_500)
    with page.expect_event("requestfailed"):
        page.locator("[name=message]").press_sequentially("search fares")
        page.locator("#context-working").wait_for()
        page.locator("#context-range").focus()
        page.keyboard.press("Home")

    expect(page.locator("#context .callout.bad")).to_contain_text("over the budget")
    expect(page).to_have_url(re.compile("message=search.*budget=100"))


def test_a_memory_is_left_out_and_pinned_by_keyboard(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then="/agents/?message=prices")
    page = visitor.page
    row = page.locator("#context .give", has_text="Quote prices in euros")
    box = row.locator("input")
    box.focus()
    page.keyboard.press("Space")

    expect(page.locator("#without-heading + p")).to_contain_text("This prompt leaves out 1 memory.")
    expect(page).to_have_url(re.compile("without="))
    assert "Quote prices in euros" not in page.locator("#context-text").input_value()
    box.focus()
    page.keyboard.press("Space")
    expect(page).not_to_have_url(re.compile("without="))

    row.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Pinned. It’s now included in every context.")
    expect(row.locator(".why")).to_contain_text("pinned")
    page.locator("#toasts button", has_text="Undo").click()
    expect(page.locator("#toasts")).not_to_contain_text("Pinned.")
