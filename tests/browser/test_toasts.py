"""Toasts: duration, number, buttons; and a form while its response is pending."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
SAY = "told => document.dispatchEvent(new CustomEvent('toast', {detail: told}))"


@pytest.fixture
def visitor(visit: Callable[..., Visitor], cast: dict[str, str]) -> Visitor:
    """Who has files and topics, at a page without a toast, with a clock that can be put forward."""
    made = visit()
    made.sign_in("grace")
    made.page.clock.install()
    made.goto("/settings/profile/")
    return made


def say(visitor: Visitor, *texts: str, level: str = "info") -> Locator:
    """Let a script show these; return the visible toasts."""
    for text in texts:
        visitor.page.evaluate(SAY, {"text": text, "level": level})
    return visitor.page.locator("#toasts .toast:not(.leaving)")


@pytest.mark.requirement("R226")
def test_a_toast_leaves_after_ten_seconds_unless_someone_is_at_it(visitor: Visitor) -> None:
    toasts = say(visitor, "Saved.")
    toasts.hover()
    visitor.page.clock.fast_forward(10_500)
    expect(toasts).to_have_text(["Saved."])

    visitor.page.mouse.move(1, 1)
    visitor.page.clock.fast_forward(2_500)

    expect(toasts).to_have_count(0)


def test_three_are_at_most_and_one_text_stands_once(visitor: Visitor) -> None:
    toasts = say(visitor, "One", "Two", "Two", "Three", "Four", level="error")
    expect(toasts).to_have_text(["Two", "Three", "Four"])


def test_a_newer_toast_replaces_one_that_only_confirms(visitor: Visitor) -> None:
    say(visitor, "Not saved.", level="error")
    toasts = say(visitor, "Saved.", "Copied.")
    expect(toasts).to_have_text(["Not saved.", "Copied."])


def test_toasts_do_not_cover_the_button_that_was_pressed(visitor: Visitor) -> None:
    visitor.page.evaluate("""() => {
      const made = document.createElement("button");
      made.id = "low";
      made.style.cssText = "position:fixed;right:60px;bottom:40px";
      document.querySelector("main").append(made);
    }""")
    visitor.page.locator("#low").focus()
    toasts = say(visitor, "Saved.")
    expect(toasts).to_have_count(1)
    visitor.page.wait_for_function(
        "() => document.querySelector('#toasts .toast').getBoundingClientRect().bottom < innerHeight / 2"
    )


def test_a_toast_is_closed_by_its_button(visitor: Visitor) -> None:
    toasts = say(visitor, "Saved.")
    visitor.press("Close message")
    expect(toasts).to_have_count(0)


def test_an_answer_that_failed_is_reported_in_words(visitor: Visitor) -> None:
    visitor.page.route("**/broken/", lambda route: route.fulfill(status=500, body="no"))
    visitor.page.evaluate("htmx.ajax('GET', '/broken/', {target: 'main', swap: 'none'})")
    expect(visitor.page.locator("#toasts")).to_contain_text("error 500")
    visitor.problems.clear()  # htmx's own word on it, in the console


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read_while_an_answer_is_waited_for(visitor: Visitor, theme: str) -> None:
    def held(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()

    visitor.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    visitor.page.route("**/settings/profile/", held)
    visitor.press("Save")
    expect(visitor.page.locator("form.htmx-request")).to_have_count(1)

    assert visitor.violations("color-contrast") == []
    marked = (
        "b => ((s) => s.borderStyle === 'dashed' && s.borderColor === s.color)(getComputedStyle(b))"
    )
    assert visitor.page.locator("form.htmx-request .primary").evaluate(marked)
