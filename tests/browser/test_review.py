"""The Inbox in a browser: decided by keyboard, and without a script."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]


@pytest.mark.usefixtures("cast")
def test_proposals_are_rejected_undone_edited_and_accepted_by_keyboard(visit: Visit) -> None:
    visitor = visit()
    visitor.sign_in("vera", then="/inbox/?show=proposal&type=memoryfile")
    rows, press = visitor.page.locator(".inbox-row"), visitor.page.keyboard.press
    shown = visitor.page.locator(".inbox-item")
    waiting = rows.count()

    press("r")  # the first item is selected already
    expect(rows).to_have_count(waiting - 1)
    expect(visitor.page.locator(".inbox-row.here [data-row-link]")).to_be_focused()
    second = visitor.page.locator(".inbox-row.here").get_attribute("id")
    press("r")
    expect(rows).to_have_count(waiting - 2)
    undos = visitor.page.locator("#toasts .toast:not(.leaving)").get_by_role("button", name="Undo")
    expect(undos).to_have_count(2)
    press("z")  # the newest of both
    expect(rows).to_have_count(waiting - 1)
    expect(visitor.page.locator(f"#{second}")).to_be_visible()
    plain = rows.filter(has_text="it comes from pages")
    at = [row.inner_text() for row in rows.all()].index(plain.first.inner_text())
    for _row in range(at):
        press("j")
    key = plain.first.get_attribute("id")
    expect(shown).to_have_attribute("data-of", key or "")
    press("e")
    box = visitor.page.locator("#edit-content")
    expect(box).to_be_visible()
    box.fill(box.input_value() + "- Typed by hand\n")
    press("Control+Enter")
    expect(rows).to_have_count(waiting - 2)
    visitor.goto("/files/facts/memory.md/")
    expect(visitor.page.locator("main")).to_contain_text("Typed by hand")


@pytest.mark.usefixtures("cast")
def test_a_group_of_proposals_is_rejected_at_once(visit: Visit) -> None:
    visitor = visit()
    visitor.sign_in("vera", then="/inbox/")
    group = visitor.page.locator("#group-40")
    keys = [row.get_attribute("id") for row in group.locator(".inbox-row").all()]
    group.locator("h3 input").check()
    visitor.page.get_by_role("button", name="Reject selected").click()
    expect(visitor.page.locator("#toasts")).to_contain_text("rejected")
    for key in keys:
        expect(visitor.page.locator(f"#{key}")).to_have_count(0)
    visitor.page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(group.locator(".inbox-row")).to_have_count(len(keys))


@pytest.mark.usefixtures("cast")
def test_text_that_is_typed_is_not_replaced_without_asking(visit: Visit) -> None:
    visitor = visit()
    visitor.sign_in("vera", then="/inbox/?show=proposal")
    shown, asked = visitor.page.locator(".inbox-item"), []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept() if len(asked) > 1 else dialog.dismiss()

    visitor.page.on("dialog", answer)
    first = shown.get_attribute("data-of") or ""
    shown.locator(".review-acts .dropdown > summary").click()
    shown.locator("[name=why]").fill("typed")
    other = visitor.page.locator(".inbox-row:not(.here) .inbox-link").first
    other.click()
    expect(shown).to_have_attribute("data-of", first)
    expect(shown.locator("[name=why]")).to_have_value("typed")
    visitor.page.locator(".inbox-row .inbox-link").last.click()
    expect(shown).not_to_have_attribute("data-of", first)
    assert asked == ["Your text hasn’t been saved. Continue without it?"] * 2


@pytest.mark.usefixtures("cast")
def test_without_scripts_one_is_accepted_and_a_changed_one_merged(visit: Visit) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in("viktor", then="/inbox/?show=proposal&type=memoryfile")
    links = visitor.page.locator(".inbox-link")

    for number in range(links.count()):  # the one that changes the same line
        visitor.click(links.nth(number))
        if "Yokohama" in visitor.words("#inbox-detail"):
            break
    expect(visitor.page.locator(".merge-hunk")).to_contain_text("Nagoya")
    box = visitor.page.locator("#edit-content")
    box.fill(box.input_value().replace("Yokohama", "Nagoya and Yokohama"))
    visitor.press("Save this text")
    expect(visitor.page.locator("#toasts")).to_contain_text("Saved: facts/memory.md.")
    visitor.goto("/files/facts/memory.md/")
    expect(visitor.page.locator("main")).to_contain_text("Nagoya and Yokohama")


@pytest.mark.usefixtures("cast")
def test_without_scripts_the_selected_are_rejected_and_wait_again(visit: Visit) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in("viktor", then="/inbox/?show=proposal&type=note")
    rows = visitor.page.locator(".inbox-row")
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
    visitor.sign_in(newcomer, then="/inbox/?show=proposal")
    page = visitor.page
    rows, shown = page.locator(".inbox-row"), page.locator("#inbox-detail")

    expect(rows).to_have_count(8)
    expect(page.locator(".inbox-group h3").first).to_have_text("Prompt injection 1")
    expect(shown.locator("mark").first).to_have_text("ignore all earlier instructions")
    expect(shown.get_by_role("button", name="Reject")).to_be_in_viewport()
    if scripts:
        assert visitor.violations() == []
        _decide_by_keyboard(visitor)
        page.set_viewport_size({"width": 320, "height": 900})
        page.emulate_media(color_scheme="dark")
        visitor.goto("/inbox/?show=proposal")
        assert visitor.violations() == []
        assert not visitor.scrolls_sideways()
        rows.first.locator("a").click()  # an item has the page for itself
        expect(shown.get_by_role("button", name="Reject")).to_be_in_viewport()
        expect(rows.first).to_be_hidden()
        assert visitor.violations() == []
        assert not visitor.scrolls_sideways()
        visitor.follow("Inbox")
    else:
        visitor.click(shown.get_by_role("button", name="Reject"))
    expect(rows).to_have_count(7)
    expect(page.locator(".inbox-group h3").first).to_have_text("Changes to your own words 1")


def _decide_by_keyboard(visitor: Visitor) -> None:
    """Select and deselect the first row, go down and up again, and reject it."""
    page = visitor.page
    page.keyboard.press("x")
    expect(page.locator("[name=proposal]:checked")).to_have_count(1)
    expect(page.locator(".bulk")).to_be_in_viewport()
    page.keyboard.press("x")
    for key in ("j", "k"):
        page.keyboard.press(key)
        current = page.locator(".inbox-row.here").get_attribute("id")
        expect(page.locator(".inbox-item")).to_have_attribute("data-of", current or "")
    page.keyboard.press("r")
    expect(page.locator(".inbox-row")).to_have_count(7)
