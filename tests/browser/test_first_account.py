"""The very first visit: a Beacon without an account, opened by the one-time link."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]


@pytest.fixture(scope="module")
def fresh() -> Iterator[BrowserSite]:
    """A Beacon just started, with nothing in it; neither worker nor beat is there yet."""
    with browser_site("web") as made:
        yield made


def make_account(visitor: Visitor, name: str) -> None:
    page = visitor.page
    page.get_by_label("Username").fill(name)
    page.get_by_label(re.compile(r"^\s*Password\b")).fill(PASSWORD)
    page.get_by_label("Confirm password").fill(PASSWORD)
    visitor.press("Create account")
    page.wait_for_url("**/")


def look_round(visitor: Visitor) -> None:
    """Do what the host does first: System status, a feed tried, a token, the admin site."""
    page = visitor.page
    visitor.goto("/settings/health/")
    expect(page.locator("main")).to_contain_text("Worker")
    visitor.follow("Models and search")
    feeds = page.locator("#connection_free")
    feeds.locator("summary").click()
    feeds.locator("[name$=url]").fill("http://127.0.0.1:9/feed.xml")  # this machine's own
    feeds.get_by_role("button", name="Test").click()
    expect(page.locator("#test_feeds")).not_to_be_empty()  # what it really answered
    visitor.goto("/settings/tokens/")
    page.locator("#create-token > summary").click()
    page.locator("main form [name=name]").fill("the walk")
    visitor.press("Create token")
    expect(page.locator("#new-token")).to_be_visible()
    visitor.goto("/settings/tokens/")
    expect(page.locator("#new-token")).to_have_count(0)  # shown once
    visitor.goto("/admin/")
    expect(page.locator("body")).to_contain_text("All accounts (read-only)")


def test_the_one_time_link_makes_the_first_account_and_leads_to_an_empty_home(
    visit: Visit, fresh: BrowserSite
) -> None:
    visitor = visit(fresh.base)
    visitor.goto("/")
    assert (
        visitor.heading() == "Welcome to Beacon"
    )  # there is no account yet, and it says how to create one
    assert visitor.violations() == []
    link = fresh.first_link()
    visitor.goto(link)
    assert visitor.violations() == []
    make_account(visitor, "ada")
    expect(visitor.page.get_by_text("Available without a model or API key")).to_be_visible()
    expect(visitor.page.locator(".banner:not(.offline)")).to_contain_text(
        "No background worker is running"
    )
    assert visitor.violations() == []
    look_round(visitor)
    second = visit(fresh.base)
    second.goto(link)  # it works once
    assert second.heading() == "This link no longer works"
