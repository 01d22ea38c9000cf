"""Reviewing and correcting, only by keyboard: from the delta to Trash."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
NAMED = (
    "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || '')"
)


def keys(visitor: Visitor, *names: str) -> None:
    visitor.page.wait_for_load_state()  # the keys work once the scripts have run
    for name in names:
        visitor.page.keyboard.press(name)


def go(visitor: Visitor, letter: str, path: str) -> None:
    """Go to a page of the rail by its two keys."""
    keys(visitor, "g", letter)
    visitor.page.wait_for_url(f"**{path}")


def step_to(visitor: Visitor, what: str, key: str = "Tab", most: int = 90) -> None:
    """Press the key until the focused element matches the expression."""
    for _ in range(most):
        keys(visitor, key)
        if visitor.page.evaluate(what):
            return
    raise AssertionError(f"{key} never came to {what}")


def test_from_the_delta_to_the_trash_by_keyboard_alone(visit: Visit, cast: dict[str, str]) -> None:
    visitor = visit()
    visitor.sign_in("kira")
    page = visitor.page

    # The delta is read, and a citation opened.
    visitor.goto(cast["kira delta"])
    expect(page.locator("#what-changed")).to_be_visible()
    step_to(visitor, "document.activeElement.matches('article.report sup a')")
    keys(visitor, "Enter")
    expect(page.locator(".cite-card")).to_be_visible()
    keys(visitor, "Escape")
    expect(page.locator(".cite-card")).to_have_count(0)

    # One proposal is accepted, another one edited first.
    go(visitor, "v", "/inbox/?show=proposal")
    rows, shown = page.locator(".inbox-row"), page.locator(".inbox-item")
    waiting = rows.count()
    expect(page.locator(".inbox-row.here")).to_have_count(1)

    def step_down() -> None:
        keys(visitor, "j")
        current = page.locator(".inbox-row.here").get_attribute("id")
        expect(shown).to_have_attribute("data-of", current or "")

    for _row in range(2):
        step_down()
    keys(visitor, "a")
    expect(rows).to_have_count(waiting - 1)
    while not page.locator("#edit-content").count() or "facts/" not in shown.inner_text():
        step_down()
    keys(visitor, "e")
    expect(page.locator("#edit-content")).to_be_visible()
    page.locator("#edit-content").focus()
    keys(visitor, "Control+End")
    page.keyboard.type("- Typed by kira\n")
    keys(visitor, "Control+Enter")
    expect(rows).to_have_count(waiting - 2)

    # A contradiction is resolved; the next pair has the focus; Undo brings the first back.
    go(visitor, "w", "/inbox/?show=conflict")
    pairs = rows.count()
    keys(visitor, "r")
    expect(rows).to_have_count(pairs - 1)
    expect(page.locator(".inbox-row.here [data-row-link]")).to_be_focused()
    step_to(visitor, f"{NAMED}.trim() === 'Undo'", "Shift+Tab")
    keys(visitor, "Enter")
    expect(rows).to_have_count(pairs)

    # What is in Trash comes back.
    go(visitor, "d", "/trash/")
    thrown = page.locator(".trash-rows > li")
    lying = thrown.count()
    step_to(visitor, f"{NAMED}.startsWith('Restore The depot opens')")
    keys(visitor, "Enter")
    expect(thrown).to_have_count(lying - 1)
    assert visitor.problems == []
