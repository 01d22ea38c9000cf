"""The researcher's walk of docs/journeys.md: many topics, a bulk act, and the palette.

The newcomer's is test_journey.py (test_keyboard.py, test_no_javascript.py), the keeper's
test_trust_by_keyboard.py, test_review.py and test_files.py, the host's test_first_account.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
TITLES = ("Tidal power", "Wave power", "Heat pumps")


def make_topics(visitor: Visitor) -> None:
    """Make the researcher's topics, each by the form and its keys."""
    for title in TITLES:
        visitor.goto("/topics/new/")
        visitor.page.locator("[name=title]").fill(title)
        visitor.page.locator("[name=title]").press("Control+Enter")
        visitor.page.wait_for_url(re.compile(r"/topics/(?!new)"))


def test_a_researcher_pauses_some_of_many_topics_and_finds_one_by_the_palette(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    make_topics(visitor)
    page = visitor.page
    visitor.goto("/topics/?q=power")
    expect(page.locator(".topic-table tbody tr")).to_have_count(2)
    page.locator("[data-select-page]").check()
    page.locator(".bulk").get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_be_visible()
    expect(page.locator(".topic-table tbody tr", has_text="Paused")).to_have_count(2)
    assert page.url.endswith("?q=power")  # a bulk act keeps what was asked for
    page.keyboard.press("Control+k")
    page.keyboard.type("pumps heat")
    page.locator("#palette-rows a", has_text="Heat pumps").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Heat pumps")


def test_a_researcher_does_so_without_scripts(visit: Visit, newcomer: str) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in(newcomer)
    page = visitor.page
    visitor.goto("/topics/new/")
    page.locator("[name=title]").fill("Tidal power")
    visitor.click(page.locator("button[name=make]"))
    visitor.follow("Search or go to")
    page.locator("main [name=words]").fill("tidal")
    visitor.click(page.locator("main form button"))
    visitor.click(page.locator("main .palette-rows a", has_text="Tidal power"))
    assert visitor.heading().startswith("Tidal power")
