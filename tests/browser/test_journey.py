"""A new user's main path: sample, run, watch, read, new topic, facts, Trash, sign out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
SOON = 60_000  # ms for a run of the sample, on a machine that does other things too


@pytest.fixture
def visitor(visit: Visit, newcomer: str) -> Visitor:
    """A person with a new account, signed in, on Home."""
    made = visit()
    made.sign_in(newcomer)
    return made


def wait_for_report(visitor: Visitor, number: int) -> None:
    """Wait until the page shows the report of the watched run."""
    masthead = visitor.page.locator("article.report .masthead b")
    expect(masthead).to_have_text(f"Run #{number}", timeout=SOON)


def run_sample(visitor: Visitor, times: int) -> None:
    visitor.press("Try the sample topic")
    wait_for_report(visitor, 1)
    for number in range(2, times + 1):
        visitor.press("Run now")
        wait_for_report(visitor, number)


def knock(visitor: Visitor, name: str, password: str) -> None:
    """Try to sign in, and wait for the answer: leaving earlier could take the try back."""
    visitor.goto("/sign-in/")
    visitor.page.get_by_label("Username").fill(name)
    visitor.page.get_by_label("Password").fill(password)
    with visitor.page.expect_navigation():
        visitor.press("Sign in")


def make_topic(visitor: Visitor, title: str) -> None:
    visitor.goto("/topics/new/")
    visitor.page.locator("[name=title]").fill(title)
    visitor.page.locator("button[name=make]").click()
    visitor.page.wait_for_url(re.compile(r"/topics/(?!new)"))


def test_a_run_is_watched_live_until_its_report_is_there(
    visitor: Visitor, site: BrowserSite
) -> None:
    with site.paused("worker"):
        visitor.press("Try the sample topic")
        expect(visitor.page.locator("h1")).to_contain_text("Waiting to start")
        expect(visitor.page.get_by_role("button", name="Cancel")).to_be_visible()
    wait_for_report(visitor, 1)  # nothing was pressed: the page polled
    expect(visitor.page.locator("article.report .masthead")).to_contain_text("baseline")
    visitor.page.locator("article.report sup a").first.click()
    expect(visitor.page.locator(".cite-card")).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.locator(".cite-card")).to_have_count(0)
    expect(visitor.page.locator("#sources li").first).to_be_visible()


@pytest.mark.requirement("R42")
def test_the_second_and_third_reports_are_deltas_and_the_fourth_says_nothing_new(
    visitor: Visitor,
) -> None:
    run_sample(visitor, 2)
    second = visitor.page.locator("#what-changed .delta li")
    assert second.count() > 0
    seen = set(second.locator(".sentence").all_inner_texts())
    visitor.press("Run now")
    wait_for_report(visitor, 3)
    third = set(visitor.page.locator("#what-changed .delta .sentence").all_inner_texts())
    assert third
    assert not third & seen
    visitor.press("Run now")
    wait_for_report(visitor, 4)
    expect(visitor.page.locator("#what-changed .nothing-new")).to_be_visible()
    assert visitor.page.locator("#what-changed .delta").count() == 0


def test_every_mark_of_the_page_for_reading_opens_its_source(visitor: Visitor) -> None:
    run_sample(visitor, 2)
    visitor.goto(visitor.page.url.partition("runs/")[0] + "?from=2&to=2")
    marks = visitor.page.locator("article .read-lines sup a")
    assert marks.count() > 3
    for mark in marks.all():
        name = mark.inner_text().strip("[]")
        mark.click()
        card = visitor.page.locator(".cite-card:popover-open")
        expect(card).to_have_attribute("aria-label", f"Source {name}")
        visitor.page.keyboard.press("Escape")
        expect(card).to_have_count(0)


def test_a_report_is_read_by_looking_at_it_and_can_be_marked_unread(visitor: Visitor) -> None:
    run_sample(visitor, 1)
    # Watching a run isn't reading its report: it is read once the reader does something there.
    with visitor.page.expect_response(re.compile("/read/$"), timeout=SOON):
        visitor.page.locator("#report").click(position={"x": 2, "y": 2})
    visitor.goto("/reports/")
    expect(visitor.page.locator("tr.unread")).to_have_count(0)
    visitor.page.locator("[data-row-link]").first.click()
    visitor.unfold("More")
    visitor.press("Mark as unread")
    expect(visitor.page.locator(".toast")).to_be_visible()
    visitor.goto("/reports/?show=unread")
    expect(visitor.page.locator("tr.unread")).to_have_count(1)


def test_a_topic_is_created_with_a_hint_of_what_is_known_and_its_next_runs(
    visitor: Visitor,
) -> None:
    make_topic(visitor, "Solid-state batteries")
    visitor.goto("/topics/new/")
    visitor.page.locator("[name=title]").press_sequentially("solid state battery", delay=20)
    expect(visitor.page.locator("#known")).to_contain_text("Solid-state batteries")
    visitor.goto("/topics/")
    visitor.follow("Settings for Solid-state batteries")
    visitor.unfold("Schedule")
    visitor.page.get_by_label("Every weekday").check()
    expect(visitor.page.locator("#next-runs time")).to_have_count(5)
    visitor.page.keyboard.press("Control+s")
    expect(visitor.page.locator(".toast")).to_be_visible()


def test_a_bad_topic_keeps_what_was_typed_and_says_what_is_wrong(visitor: Visitor) -> None:
    visitor.goto("/topics/new/")
    typed = "All of it, " * 50  # 550 characters
    visitor.page.locator("[name=title]").fill(typed)
    visitor.page.locator("button[name=make]").click()
    field = visitor.page.locator("[name=title]")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(field).to_have_value(typed)


def test_facts_are_added_edited_struck_and_undone(visitor: Visitor) -> None:
    make_topic(visitor, "Tidal power")
    visitor.follow("Facts")
    page = visitor.page
    page.locator("#add-fact textarea, #add-fact [name=text]").first.fill(
        "The barrage makes 240 MW."
    )
    visitor.press("Add")
    expect(page.locator("ol.facts .fact-text")).to_have_text(["The barrage makes 240 MW."])
    visitor.follow("Correct: The barrage")
    page.locator(".fact-form [name=text]").fill("The barrage makes 254 MW.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("ol.facts .fact-text")).to_have_text(["The barrage makes 254 MW."])
    page.locator("summary", has_text="Mark as wrong").click()
    page.get_by_label("Reason").fill("an old figure")
    visitor.press("Mark as wrong")
    expect(page.locator("#facts .struck")).to_have_text(["The barrage makes 254 MW."])
    expect(page.locator("#facts h2").first).to_be_focused()
    expect(page.locator("#facts-bar label", has_text="Marked as wrong")).to_have_count(1)
    # The two acts before this one still offer their own.
    page.locator(".toast", has_text="Marked as wrong").get_by_role("button", name="Undo").click()
    expect(page.locator("ol.facts .fact-text")).to_have_text(["The barrage makes 254 MW."])


def test_a_topic_goes_to_the_trash_and_is_restored_by_undo(visitor: Visitor) -> None:
    make_topic(visitor, "Wave power")
    visitor.goto("/topics/")
    visitor.press("Move Wave power to Trash")
    expect(visitor.page.get_by_role("heading", name="No topics yet")).to_be_visible()
    visitor.page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(visitor.page.get_by_role("link", name="Wave power").first).to_be_visible()


def test_signing_out_ends_it_and_five_wrong_passwords_lock_the_account(
    visitor: Visitor, newcomer: str
) -> None:
    visitor.page.locator("details.account summary").click()
    visitor.press("Sign out")
    expect(visitor.page.locator("h1")).to_have_text("Sign in")
    for _ in range(5):
        knock(visitor, newcomer, "not the password")
    expect(visitor.page.locator("h1")).not_to_have_text("Sign in")
    assert visitor.violations() == []
    knock(visitor, newcomer, PASSWORD)
    expect(visitor.page.locator(".rail")).to_have_count(0)  # the right one comes too late
