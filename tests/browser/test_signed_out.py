"""A session that ends while a person types: no text is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]


def sign_in_in_another_tab(visitor: Visitor, name: str) -> None:
    """Sign in as the message asks: beside the page, in the same browser."""
    tab = visitor.context.new_page()
    tab.goto("/sign-in/")
    tab.get_by_label("Username").fill(name)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Sign in").click()
    tab.wait_for_url(lambda url: "/sign-in/" not in url, timeout=60_000)
    tab.close()
    # A second press within a second counts as the same one; a person isn't back that fast.
    visitor.page.wait_for_timeout(1_100)


def test_what_was_typed_is_sent_after_signing_in_in_another_tab(
    visit: Callable[..., Visitor], newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/library/add/")
    visitor.page.locator("label[for=add-text]").click()
    visitor.page.locator("#id_text").fill("A pilot line started in Lanling.")
    visitor.context.clear_cookies(name="sessionid")

    visitor.press("Add to the library")
    expect(visitor.page.locator("#notice")).to_contain_text("You’re signed out")
    expect(visitor.page.locator("#id_text")).to_have_value("A pilot line started in Lanling.")

    sign_in_in_another_tab(visitor, newcomer)
    visitor.press("Add to the library")
    expect(visitor.page.locator("#toasts")).to_contain_text("added to Library")


def test_without_scripts_the_text_is_sent_again_after_signing_in(
    visit: Callable[..., Visitor], newcomer: str
) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in(newcomer, then="/remember/")
    text = "A pilot line started in Lanling.\nIt makes ten cells a day."
    visitor.page.locator("[name=text]").fill(text)
    visitor.context.clear_cookies(name="sessionid")

    visitor.press("Remember")
    visitor.page.get_by_label("Username").fill(newcomer)
    visitor.page.get_by_label("Password").fill(PASSWORD)
    visitor.press("Sign in")
    assert visitor.heading() == "Your text is still here"
    expect(visitor.page.get_by_label("Your text")).to_have_value(text)

    visitor.press("Send again")
    expect(visitor.page.locator("main")).to_contain_text("It makes ten cells a day.")
    expect(visitor.page.locator("#toasts")).to_contain_text("Remembered.")
