"""Review in a browser: decided by keyboard, and without a script."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
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

    rows.filter(has_text="Yokohama").get_by_role("link", name="Resolve conflict").click()
    expect(visitor.page.locator(".merge-hunk")).to_contain_text("Nagoya")
    box = visitor.page.locator("#edit-content")
    box.fill(box.input_value().replace("Yokohama", "Nagoya and Yokohama"))
    visitor.press("Save this text")
    expect(visitor.page.locator("#toasts")).to_contain_text("Saved: facts/memory.md.")
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
    visitor.press("Reject selected")
    expect(rows).to_have_count(0)
    visitor.press("Undo")
    expect(rows).to_have_count(waiting)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_of_eight_the_dangerous_one_is_on_top_and_marked(
    visit: Visit, site: BrowserSite, newcomer: str, scripts: bool
) -> None:
    site.play("tests.browser.cast_dangers", newcomer)
    visitor = visit(java_script_enabled=scripts, viewport={"width": 1440, "height": 900})
    visitor.sign_in(newcomer)
    visitor.goto("/review/")
    page = visitor.page
    rows = page.locator(".proposals > li")

    expect(rows).to_have_count(8)
    expect(page.locator(".review-group h2").first).to_have_text("Prompt injection (1)")
    expect(rows.first.locator("mark").first).to_have_text("ignore all earlier instructions")
    box = rows.first.bounding_box()
    assert box is not None and box["y"] + box["height"] <= 900
    expect(rows.filter(has_text="Run #7 replaced this")).to_contain_text("71 dollars")
    expect(rows.filter(has_text="Fridays").filter(has_text="Conflict")).to_have_count(1)
    expect(rows.filter(has_text="creates a new file")).to_have_count(0)
    if scripts:
        assert visitor.violations() == []
        page.set_viewport_size({"width": 320, "height": 900})
        page.emulate_media(color_scheme="dark")
        assert visitor.violations() == []
        assert not visitor.scrolls_sideways()
        _decide_by_keyboard(visitor)
    else:
        rows.first.get_by_role("button", name="Reject").click()
    expect(rows).to_have_count(7)
    expect(page.locator(".review-group h2").first).to_have_text("Changes to your own words (1)")


def _decide_by_keyboard(visitor: Visitor) -> None:
    """Select and deselect the first row, go down and up again, and reject it."""
    page = visitor.page
    for key in ("j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[name=proposal]:checked")).to_have_count(1)
    expect(page.locator(".bulk")).to_be_in_viewport()
    for key in ("x", "j", "k", "r"):
        page.keyboard.press(key)


def test_a_heading_for_listeners_stays_unseen_when_it_takes_the_focus(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    visitor.goto("/conflicts/")
    visitor.page.locator(".chips").get_by_role("link", name="Resolved").click()

    heading = visitor.page.locator("#conflicts-heading")
    expect(heading).to_be_focused()
    box = heading.bounding_box()
    assert box is not None and box["height"] <= 1
