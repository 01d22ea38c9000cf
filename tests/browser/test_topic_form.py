"""The form of a topic: templates and the order of services, by keyboard and without scripts."""

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


@pytest.fixture(params=[True, False], ids=["with-scripts", "without-scripts"])
def visitor(visit: Visit, newcomer: str, request: pytest.FixtureRequest) -> Visitor:
    """A signed-in person, with scripts and without."""
    made = visit(java_script_enabled=request.param)
    made.sign_in(newcomer)
    return made


def ticked(visitor: Visitor) -> list[str]:
    boxes = visitor.page.locator("[name=services]:checked").all()
    return [str(box.get_attribute("value")) for box in boxes]


def open_part(visitor: Visitor, name: str) -> None:
    """Press a part of the sentence about the new topic."""
    visitor.page.locator(f'.topic-sentence a[href="#part-{name}"]').click()
    expect(visitor.page.locator(f"#part-{name}")).to_be_visible()


def test_the_sentence_opens_the_fields_of_a_part_and_follows_them(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/topics/new/")
    page = visitor.page
    expect(page.locator("details.fold-row:visible")).to_have_count(0)
    expect(page.locator(".topic-sentence")).to_contain_text("Beacon researches it every Monday")
    page.locator("[name=title]").fill("Cargo bikes")
    page.locator('.topic-sentence a[href="#part-schedule"]').press("Enter")
    expect(page.locator("summary", has_text="Schedule")).to_be_focused()
    page.get_by_label("every day", exact=True).check()
    expect(page.locator(".topic-sentence")).to_contain_text("every day at")
    expect(page.locator("details.fold-row:visible")).to_have_count(1)
    expect(page.locator("[name=title]")).to_have_value("Cargo bikes")
    assert visitor.violations() == []


def test_a_template_fills_in_the_form_and_keeps_what_was_typed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.goto("/topics/new/")
    page.locator("[name=title]").fill("Cargo bikes")
    open_part(visitor, "goal")
    page.locator("[name=focus]").fill("Only those with three wheels")
    page.get_by_role("button", name="Competitor scan").click()
    expect(page.locator("[name=take][aria-pressed=true]")).to_contain_text("Competitor scan")
    page.get_by_role("button", name="Release watch").click()
    expect(page.locator("[name=take][aria-pressed=true]")).to_contain_text("Release watch")
    expect(page.locator("[name=title]")).to_have_value("Cargo bikes")
    expect(page.locator("[name=focus]")).to_have_value("Only those with three wheels")
    expect(page.locator("[name=objective]")).to_have_value(
        "For each release, find out its version and date, what it breaks and fixes, and when its support ends."
    )
    page.locator("button[name=make]").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cargo bikes")


def test_services_are_put_in_order_and_stay_in_it(visitor: Visitor) -> None:
    page = visitor.page
    visitor.goto("/topics/new/?template=research-field&title=Cells")
    before = ticked(visitor)
    open_part(visitor, "where")
    page.get_by_role("button", name="Move arXiv down").press("Enter")
    expect(page.locator(".services li").first).to_contain_text("Wikipedia")
    page.locator("button[name=make]").click()
    page.locator(".tabs a", has_text="Settings").click()
    page.locator("#topic-form").wait_for()
    expect(page.locator("[name=services]:checked")).to_have_count(len(before))  # all is there
    assert ticked(visitor) == [before[1], before[0], *before[2:]]


def test_focus_stays_on_the_arrow_that_was_pressed(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/topics/new/?template=research-field")
    open_part(visitor, "where")
    for place in (1, 2):
        visitor.page.locator("#down-arxiv").press("Enter")
        expect(visitor.page.locator(".services li").nth(place)).to_contain_text("arXiv")
        expect(visitor.page.locator("#down-arxiv")).to_be_focused()
    assert visitor.violations() == []


def test_enter_in_the_name_makes_the_topic(visitor: Visitor) -> None:
    visitor.goto("/topics/new/")
    visitor.page.locator("[name=title]").fill("By the enter key")
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("By the enter key")
