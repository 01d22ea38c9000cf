"""The Context page in a browser: the layers update while typing, and open ones stay open."""

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


def test_layers_move_while_one_types_and_what_is_unfolded_stays(
    visit: Callable[..., Visitor], cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace")
    visitor.goto("/context/")
    page = visitor.page
    soul = page.locator("[data-part=soul]")
    soul.locator("summary").first.click()
    page.locator("[name=message]").press_sequentially("search fares")

    rules = page.locator("[data-part=rules]")
    expect(rules).to_contain_text("similar to the message in wording")
    expect(soul).to_have_attribute("open", "")
    expect(page.locator("[name=message]")).to_be_focused()
    expect(page).to_have_url(re.compile("message=search%20fares"))

    page.locator("[name=budget]").fill("10")
    expect(page.locator("#context .callout.bad")).to_contain_text("over the budget")
