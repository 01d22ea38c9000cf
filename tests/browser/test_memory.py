"""Memory and Remember in a browser: a minute apart, by keyboard, without scripts, and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
Visit = Callable[..., Visitor]
OLD, NEW = "Billing runs PostgreSQL 13.", "Billing still runs PostgreSQL 12.22."


def remembered(visitor: Visitor, text: str) -> None:
    visitor.goto("/remember/?next=/memory/")
    visitor.page.locator("#remember-text").fill(text)
    visitor.press("Remember")
    expect(visitor.page.locator("#toasts .toast").first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_two_notes_a_minute_apart_are_decided(visit: Visit, newcomer: str, scripts: bool) -> None:
    visitor = signed_in(visit, newcomer, java_script_enabled=scripts)
    remembered(visitor, OLD)
    expect(visitor.page.locator(".memory-text", has_text=OLD)).to_be_visible()
    remembered(visitor, NEW)
    expect(visitor.page.locator(".contradiction")).to_contain_text(OLD)
    visitor.goto("/memory/")
    expect(visitor.page.locator(".disputed .memory-row")).to_have_count(2)
    visitor.page.locator(".disputed .memory-text", has_text=NEW).click()
    visitor.press("Keep this text")
    expect(visitor.page.locator("#toasts .toast").first).to_contain_text("Kept")
    visitor.goto("/memory/")
    expect(visitor.page.locator(".disputed")).to_have_count(0)
    expect(visitor.page.locator(".memory-text", has_text=NEW)).to_be_visible()
    expect(visitor.page.locator(".memory-text", has_text=OLD)).to_have_count(0)


def test_by_keyboard_from_anywhere_and_in_the_list(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    page = visitor.page
    visitor.goto("/memory/")
    page.keyboard.press("n")
    page.wait_for_url("**/remember/**")
    page.keyboard.type("Never deploy on Friday")
    expect(page.locator("#also-known")).to_contain_text("Rule (detected)")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/memory/")
    expect(page.locator(".memory-text", has_text="Never deploy")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-ticked]")).to_have_text("1 selected")
    page.keyboard.press("o")
    expect(page.locator("#record-panel h2").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#record-panel h2")).to_have_count(0)


def test_while_typing_it_says_what_is_known_and_replaces_it(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    remembered(visitor, OLD)
    visitor.goto("/remember/?next=/memory/")
    visitor.page.locator("#remember-text").press_sequentially(NEW)
    known = visitor.page.locator(".known")
    expect(known).to_contain_text(OLD)
    known.get_by_label("Replace the old text").check()
    visitor.press("Remember")
    expect(visitor.page.locator(".memory-text", has_text=NEW)).to_be_visible()
    expect(visitor.page.locator(".memory-text", has_text=OLD)).to_have_count(0)


def test_on_a_phone_the_panel_is_a_page_of_its_own(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer, viewport={"width": 390, "height": 844})
    remembered(visitor, OLD)
    visitor.goto("/memory/")
    row = visitor.page.locator(".memory-text", has_text=OLD)
    row.click()
    expect(visitor.page.locator("#record-panel h2").first).to_be_visible()
    expect(row).to_be_hidden()
    visitor.press("Back")
    expect(row).to_be_visible()
