"""Review in a browser: decided by keyboard, and without a script."""

from __future__ import annotations

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


@pytest.mark.usefixtures("cast")
def test_proposals_are_rejected_taken_back_edited_and_accepted_by_keyboard(visit: Visit) -> None:
    visitor = visit()
    visitor.sign_in("vera")
    visitor.goto("/review/")
    rows, press = visitor.page.locator(".proposals > li"), visitor.page.keyboard.press
    waiting = rows.count()

    press("j")
    press("r")
    expect(rows).to_have_count(waiting - 1)
    visitor.page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(waiting)
    press("j")
    press("e")
    box = visitor.page.locator("#edit-content")
    expect(box).to_be_visible()
    box.fill(box.input_value() + "- Typed by hand\n")
    press("Control+Enter")
    expect(rows).to_have_count(waiting - 1)
    visitor.goto("/files/facts/memory.md/")
    expect(visitor.page.locator("main")).to_contain_text("Typed by hand")


@pytest.mark.usefixtures("cast")
def test_without_scripts_one_is_accepted_and_a_changed_one_put_together(visit: Visit) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in("viktor")
    visitor.goto("/review/?type=memoryfile")
    rows = visitor.page.locator(".proposals > li")

    rows.filter(has_text="Yokohama").get_by_role("button", name="Accept").click()
    expect(visitor.page.locator(".merge-hunk")).to_contain_text("Nagoya")
    box = visitor.page.locator("#edit-content")
    box.fill(box.input_value().replace("Yokohama", "Nagoya and Yokohama"))
    visitor.press("Save what holds")
    expect(visitor.page.locator("#toasts")).to_contain_text("Stored: facts/memory.md.")
    visitor.goto("/files/facts/memory.md/")
    expect(visitor.page.locator("main")).to_contain_text("Nagoya and Yokohama")


@pytest.mark.usefixtures("cast")
def test_without_scripts_the_ticked_are_rejected_and_wait_again(visit: Visit) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in("viktor")
    visitor.goto("/review/?type=note")
    rows = visitor.page.locator(".proposals > li")
    waiting = rows.count()

    for box in visitor.page.locator("[name=proposal]").all():
        box.check()
    visitor.press("Reject the ticked")
    expect(rows).to_have_count(0)
    visitor.press("Undo")
    expect(rows).to_have_count(waiting)


def test_a_heading_for_listeners_stays_unseen_when_it_takes_the_focus(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    visitor.goto("/conflicts/")
    visitor.page.locator(".chips").get_by_role("link", name="Settled").click()

    heading = visitor.page.locator("#conflicts-heading")
    expect(heading).to_be_focused()
    box = heading.bounding_box()
    assert box is not None and box["height"] <= 1
