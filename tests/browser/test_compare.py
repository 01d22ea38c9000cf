"""Comparing runs in a browser: with lists and arrow keys, and without scripts."""

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
Visit = Callable[..., Visitor]


def at(visitor: Visitor, cast: dict[str, str], query: str = "") -> Visitor:
    visitor.sign_in("grace", then=cast["compare"] + query)
    return visitor


def test_a_choice_from_a_list_compares_at_once_and_can_be_shared_and_taken_back(
    visit: Visit, cast: dict[str, str]
) -> None:
    page = at(visit(), cast, "?from=1&to=2").page
    page.locator("#compare-to").focus()
    page.locator("#compare-to").select_option("4")

    expect(page.locator("#compare h2")).to_have_text("Run #1 vs. Run #4")
    expect(page).to_have_url(re.compile("from=1&to=4"))
    expect(page).to_have_title(re.compile("^Run #1 vs. Run #4"))
    expect(page.locator("#compare-to")).to_be_focused()
    page.go_back()
    expect(page.locator("#compare h2")).to_have_text("Run #1 vs. Run #2")


def test_arrow_keys_step_through_the_pairs_and_keep_the_view(
    visit: Visit, cast: dict[str, str]
) -> None:
    page = at(visit(), cast, "?from=1&to=2&view=words").page
    page.keyboard.press("ArrowRight")
    expect(page.locator("#compare h2")).to_have_text("Run #2 vs. Run #3")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#compare h2")).to_have_text("Run #3 vs. Run #4")
    page.keyboard.press("ArrowLeft")

    expect(page.locator("#compare h2")).to_have_text("Run #2 vs. Run #3")
    expect(page.locator("#compare .chip[aria-current]")).to_have_text("Words")


def test_a_view_swaps_the_comparison_and_leads_the_focus_to_it(
    visit: Visit, cast: dict[str, str]
) -> None:
    page = at(visit(), cast).page
    page.get_by_role("link", name="Text", exact=True).click()
    expect(page).to_have_url(re.compile("view=lines"))
    page.get_by_role("link", name="Side by side").click()

    expect(page.locator("table.text-sides")).to_be_visible()
    expect(page.locator("h2:focus")).to_have_count(1)  # it gets the focus once all is in place
    expect(page).to_have_url(re.compile(r"view=lines&layout=side"))


def test_without_scripts_the_form_and_links_do_the_same(visit: Visit, cast: dict[str, str]) -> None:
    page = at(visit(java_script_enabled=False), cast, "?from=1&to=2").page
    page.locator("#compare-to").select_option("4")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#compare h2")).to_have_text("Run #1 vs. Run #4")
    page.get_by_role("link", name="Swap").click()

    expect(page.locator("#compare h2")).to_have_text("Run #4 vs. Run #1")
