"""A person reviews a plan before anything is searched: with scripts, in two windows, and without."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor, signed_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
SOON = 60_000  # ms for a run of the sample, on a machine that does other things too
BOX = "#plan-form textarea"
MASTHEAD = "article.report .masthead b"


def awaited(visitor: Visitor, selector: str) -> None:
    """Wait for a part of the run's page; without scripts by its own Refresh."""
    until, found = time.monotonic() + 60, visitor.page.locator(selector)
    refresh = visitor.page.get_by_role("link", name="Refresh").filter(visible=True)
    while refresh.count() and not found.count() and time.monotonic() < until:
        visitor.click(refresh.first)
    expect(found).to_be_visible(timeout=SOON)


def plan_that_waits(visitor: Visitor) -> None:
    """Run the sample once, ask that its plans wait, and start the run whose plan does."""
    visitor.press("Try the sample topic")
    awaited(visitor, MASTHEAD)
    topic = visitor.page.url.split("/runs/")[0]
    visitor.goto(f"{topic}/settings/")
    choice = visitor.page.locator("[name=plan_review][value=wait]")
    if not choice.is_visible():
        visitor.page.locator("main details", has=choice).locator("summary").first.click()
    choice.check()
    visitor.press("Save")
    expect(visitor.page.locator("#toasts .toast").first).to_be_visible()
    visitor.goto(f"{topic}/")
    visitor.press("Run now")
    awaited(visitor, BOX)


@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_queries_are_changed_and_the_run_continues_with_them(
    visit: Visit, newcomer: str, scripts: bool
) -> None:
    visitor = signed_in(visit, newcomer, java_script_enabled=scripts)
    plan_that_waits(visitor)

    visitor.page.locator(BOX).fill("same\nsame")
    visitor.press("Run these queries")
    expect(visitor.page.locator("#plan-form .errorlist")).to_contain_text(
        "“same” is listed more than once"
    )
    visitor.page.locator(BOX).fill("what changed in PostgreSQL\nPostgreSQL faults")
    visitor.press("Run these queries")

    awaited(visitor, MASTHEAD)
    expect(visitor.page.locator(MASTHEAD)).to_have_text("Run #2")
    manifest = visitor.page.locator("#how details").last
    manifest.locator("summary").click()
    expect(manifest).to_contain_text("what changed in PostgreSQL")


def test_of_two_windows_the_later_one_keeps_its_words(visit: Visit, newcomer: str) -> None:
    first = signed_in(visit, newcomer)
    plan_that_waits(first)
    second = signed_in(visit, newcomer)
    second.goto(first.page.url)
    second.page.locator(BOX).fill("what I typed in the second window")

    first.press("Run these queries")
    expect(first.page.locator(MASTHEAD)).to_have_text("Run #2", timeout=SOON)
    expect(second.page.locator("#plan-gone")).to_contain_text("already continued", timeout=SOON)
    expect(second.page.locator(BOX)).to_have_value("what I typed in the second window")
    second.press("Run these queries")

    expect(second.page.locator("#typed")).to_have_value("what I typed in the second window")


def test_a_saved_run_is_run_again_as_it_was(visit: Visit, newcomer: str) -> None:
    visitor = signed_in(visit, newcomer)
    visitor.press("Try the sample topic")
    awaited(visitor, MASTHEAD)

    visitor.unfold("More")
    visitor.press("Repeat this run exactly")

    expect(visitor.page.locator(MASTHEAD)).to_have_text("Run #2", timeout=SOON)
    expect(visitor.page.locator("main")).to_contain_text("repeating Run #1")
