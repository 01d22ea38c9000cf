"""The main path only by keyboard: Tab, Enter, and the shortcuts that `?` lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
FOCUS = "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || document.activeElement.name || '').trim()"


def keys(visitor: Visitor, *names: str) -> None:
    visitor.page.wait_for_load_state()  # the keys work once the scripts have run
    for name in names:
        visitor.page.keyboard.press(name)


def tab_to(visitor: Visitor, words: str, most: int = 60) -> None:
    """Press Tab until an element with this name has focus."""
    passed = []
    for _ in range(most):
        keys(visitor, "Tab")
        passed.append(str(visitor.page.evaluate(FOCUS)).split("\n")[0])
        if words in passed[-1]:
            return
    raise AssertionError(f"Tab never came to {words!r}, but to {passed}")


@pytest.fixture
def visitor(visit: Visit, newcomer: str) -> Visitor:
    """A person who signed in by keyboard."""
    made = visit()
    made.goto("/sign-in/")
    made.page.locator("[name=username]:focus").wait_for()  # given with the first paint
    made.page.keyboard.type(newcomer)
    keys(made, "Tab")
    made.page.keyboard.type(PASSWORD)
    keys(made, "Enter")
    made.page.wait_for_url(lambda url: "/sign-in/" not in url)
    return made


def test_the_first_tab_skips_to_the_content(visitor: Visitor) -> None:
    keys(visitor, "Tab")
    assert visitor.page.evaluate(FOCUS) == "Skip to content"
    keys(visitor, "Enter")
    expect(visitor.page.locator("#main")).to_be_focused()


def test_every_stop_of_tab_shows_where_the_focus_is(visitor: Visitor) -> None:
    visitor.goto("/topics/")
    for _ in range(20):
        keys(visitor, "Tab")
        shown = visitor.page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e); const b = e.getBoundingClientRect(); return e === document.body || ((s.outlineStyle !== 'none' || s.boxShadow !== 'none') && b.width > 0) })()"
        )
        assert shown, visitor.page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


def test_a_topic_is_created_and_run_and_its_report_read_by_keys(visitor: Visitor) -> None:
    page = visitor.page
    keys(visitor, "g", "t")
    page.wait_for_url("**/topics/")
    tab_to(visitor, "Try the sample topic")
    keys(visitor, "Enter")
    report = page.locator("article.report .masthead b")
    expect(report).to_have_text("Run #1", timeout=60_000)
    keys(visitor, "r")
    expect(report).to_have_text("Run #2", timeout=60_000)
    keys(visitor, "ArrowLeft")
    expect(report).to_have_text("Run #1")
    keys(visitor, "ArrowRight")
    expect(report).to_have_text("Run #2")
    keys(visitor, "g", "r")
    page.wait_for_url("**/reports/")
    keys(visitor, "j", "j", "k", "o")
    expect(report).to_have_text("Run #2")


def test_a_topic_of_ones_own_is_created_and_trashed_by_keys(visitor: Visitor) -> None:
    page = visitor.page
    keys(visitor, "n")
    page.wait_for_url("**/topics/new/")
    expect(page.locator("[name=title]")).to_be_focused()
    page.keyboard.type("Heat pumps")
    keys(visitor, "Control+Enter")
    page.wait_for_url(lambda url: "/topics/new/" not in url)
    keys(visitor, "g", "t")
    page.wait_for_url("**/topics/")
    keys(visitor, "j", "x")
    expect(page.get_by_label("Select Heat pumps")).to_be_checked()
    keys(visitor, "#")
    expect(page.get_by_role("heading", name="No topics yet")).to_be_visible()


def test_the_help_lists_the_pages_keys_and_gives_the_focus_back(visitor: Visitor) -> None:
    visitor.goto("/topics/")
    keys(visitor, "?")
    dialog = visitor.page.locator("dialog[open]")
    expect(dialog.locator("[data-keys=go]")).to_contain_text("Topics")
    expect(dialog).to_contain_text("New topic")
    keys(visitor, "Escape")
    expect(visitor.page.locator("dialog[open]")).to_have_count(0)
    visitor.goto("/activity/")  # a list without rows has no search
    keys(visitor, "/")
    visitor.page.keyboard.type("n?")  # no shortcut inside a field
    expect(visitor.page.locator("[name=q]")).to_have_value("n?")
    expect(visitor.page.locator("dialog[open]")).to_have_count(0)


def test_an_opened_change_is_closed_again(visitor: Visitor) -> None:
    page = visitor.page
    visitor.goto("/activity/?kind=changes")
    page.locator(".stream summary").first.press("Enter")
    opener = page.locator(".stream .acts a").first
    opener.press("Enter")
    expect(page.locator("#_activity_change")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).press("Enter")
    expect(page.locator("#_activity_change")).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_palette_leads_to_a_page_by_keys_alone(visitor: Visitor) -> None:
    page = visitor.page
    visitor.goto("/topics/new/")
    page.locator("[name=title]").press("Control+k")  # out of a field too
    expect(page.locator("#palette [name=words]")).to_be_focused()
    page.keyboard.type("conflicts")
    keys(visitor, "Enter")  # before the rows are there: it goes when they are
    page.wait_for_url("**/inbox/?show=conflict")
    keys(visitor, "Control+k")
    expect(page.locator("#palette-rows a").first).to_be_visible()
    assert visitor.violations() == []
    keys(visitor, "ArrowDown", "ArrowUp", "Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_shortcuts_can_be_turned_off(visitor: Visitor) -> None:
    visitor.goto("/settings/profile/")
    visitor.page.locator("[name=shortcuts]").uncheck()
    visitor.page.locator("[name=shortcuts]").press("Control+Enter")
    expect(visitor.page.locator(".toast")).to_be_visible()
    visitor.goto("/topics/")
    keys(visitor, "n")
    visitor.page.wait_for_timeout(300)
    assert visitor.page.url.endswith("/topics/")
