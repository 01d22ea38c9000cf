"""The main path in a browser without JavaScript: every step only by links and forms."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]


@pytest.fixture
def visitor(visit: Visit, newcomer: str) -> Visitor:
    """A signed-in person whose browser carries out no script."""
    made = visit(java_script_enabled=False)
    made.sign_in_by_form(newcomer)
    return made


def watch(visitor: Visitor, number: int) -> None:
    """Reload the run's page, as its own Refresh does, until the report is there."""
    report = visitor.page.locator("article.report .masthead b")
    until = time.monotonic() + 60
    while report.count() == 0 and time.monotonic() < until:
        visitor.follow("Refresh")
    expect(report).to_have_text(f"Run #{number}")


def test_an_invited_person_joins_without_scripts(
    visit: Visit, cast: dict[str, str], newcomer: str
) -> None:
    staff = visit(java_script_enabled=False)
    staff.sign_in("grace", then="/settings/people/")
    staff.page.locator(".head a[href='#invite']").click()
    staff.page.locator("#invite > summary").click()
    staff.page.locator("main form [name=note]").fill("Ines")
    staff.press("Create invite link")
    guest = visit(java_script_enabled=False)
    guest.goto(staff.page.locator("#invitation-link").input_value())
    guest.page.get_by_label("Username").fill(f"friend-of-{newcomer}")
    guest.page.get_by_label(re.compile(r"^\s*Password\b")).fill(PASSWORD)
    guest.page.get_by_label("Confirm password").fill(PASSWORD)
    guest.click(guest.page.locator("main button[type=submit]"))
    expect(guest.page.get_by_role("button", name="Try the sample topic").first).to_be_visible()


def test_the_sample_is_run_twice_and_its_delta_read(visitor: Visitor) -> None:
    visitor.press("Try the sample topic")
    watch(visitor, 1)
    visitor.press("Run now")
    watch(visitor, 2)
    expect(visitor.page.locator("#what-changed .delta li").first).to_be_visible()
    visitor.click(visitor.page.locator("article.report sup a").first)
    expect(visitor.page).to_have_url(re.compile("#source-"))  # a mark leads to its source
    visitor.press("Mark as read")
    visitor.goto("/reports/")
    expect(visitor.page.locator("tr.unread")).to_have_count(1)  # Run #1


def test_a_topic_is_created_scheduled_given_a_fact_and_trashed_again(visitor: Visitor) -> None:
    page = visitor.page
    visitor.goto("/topics/new/")
    page.locator("[name=title]").fill("Geothermal wells")
    visitor.unfold("Schedule")
    page.get_by_label("every week", exact=True).check()
    visitor.press("Show next runs")
    expect(page.locator("#next-runs time")).to_have_count(5)
    visitor.click(page.locator("button[name=make]"))
    visitor.follow("Facts")
    page.locator("#add-fact [name=text]").fill("A well in Utrecht is 3,000 metres deep.")
    visitor.press("Add")
    visitor.follow("Correct: A well")
    page.locator(".fact-form [name=text]").fill("A well in Utrecht is 3,100 metres deep.")
    visitor.press("Save")
    expect(page.locator("ol.facts .fact-text")).to_have_text(
        "A well in Utrecht is 3,100 metres deep."
    )
    visitor.goto("/topics/")
    visitor.press("Move Geothermal wells to Trash")
    visitor.press("Undo")
    expect(page.get_by_role("link", name="Geothermal wells").first).to_be_visible()


def test_a_bad_form_is_explained_without_scripts(visitor: Visitor) -> None:
    visitor.goto("/topics/new/")
    visitor.click(visitor.page.locator("button[name=make]"))
    expect(visitor.page.locator("[name=title]")).to_have_attribute("aria-invalid", "true")
