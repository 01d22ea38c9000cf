"""The list of notes in a browser: by keyboard, by htmx, and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]


def write(visitor: Visitor, words: str) -> None:
    """Write a note by hand."""
    visitor.goto("/notes/new/")
    visitor.page.locator("[name=content]").fill(words)
    visitor.page.locator("main form:has([name=content]) button.primary").click()
    visitor.page.wait_for_url(lambda url: "/new/" not in url)


def test_a_row_is_chosen_edited_and_trashed_by_keyboard(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    write(visitor, "Fares are stale.")
    visitor.goto("/notes/?q=kind:log")
    press = visitor.page.keyboard.press

    press("j")
    press("x")
    expect(visitor.page.locator("[data-ticked]")).to_have_text("1 selected")
    press("e")
    box = visitor.page.locator("#record-inline-form textarea")
    expect(box).to_be_focused()
    box.fill("Fares are fresh.")
    press("Control+Enter")
    expect(visitor.page.locator(".record-text")).to_contain_text("Fares are fresh.")
    visitor.page.locator("main").click(position={"x": 4, "y": 4})
    press("j")
    press("#")
    expect(visitor.page.locator("#toasts")).to_contain_text("Trash")
    visitor.page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(visitor.page.locator(".record-text")).to_contain_text("Fares are fresh.")


def test_a_chip_changes_the_list_and_its_address(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/notes/")

    visitor.page.keyboard.press("f")
    visitor.page.locator("#records-filter").get_by_label("soul").check()

    expect(visitor.page.locator(".filter-chip")).to_contain_text("soul")
    expect(visitor.page.locator("#records-q")).to_have_value("")
    expect(visitor.page.locator(".record-table tbody tr:not(.day)")).to_have_count(1)
    expect(visitor.page).to_have_url(re.compile(r"/notes/\?kind=soul$"))
    expect(visitor.page.locator("#records-filter")).to_have_attribute(
        "open", ""
    )  # for the next one


def test_without_scripts_the_selected_are_tagged_and_undone(visit: Visit, newcomer: str) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in(newcomer)
    write(visitor, "Fares are stale.")
    visitor.goto("/notes/?q=kind:log")

    visitor.page.locator("[name=record]").check()
    visitor.page.locator("#bulk .more > summary").click()
    visitor.page.locator("#bulk [name=tag]").fill("travel")
    visitor.press("Add")
    expect(visitor.page.locator(".record-table .tags")).to_contain_text("travel")
    expect(visitor.page).to_have_url(re.compile("q=kind"))
    visitor.press("Undo")

    expect(visitor.page.locator(".record-table .tags")).not_to_contain_text("travel")


def test_what_is_done_to_the_selected_comes_with_the_first_tick(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    write(visitor, "Fares are stale.")
    visitor.goto("/notes/?q=kind:log")
    expect(visitor.page.locator(".bulk")).to_be_hidden()

    visitor.page.locator("[name=record]").check()

    expect(visitor.page.locator(".bulk").get_by_role("button", name="Trash")).to_be_visible()


def test_next_to_a_panel_the_buttons_of_a_row_stay_in_sight(visit: Visit, newcomer: str) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    write(visitor, "Fares are stale; " * 12)
    visitor.goto("/notes/?q=kind:log")

    visitor.page.locator(".record-text").click()
    expect(visitor.page.locator("#record-panel h2").first).to_be_focused()

    sheet = visitor.page.locator(".records > .sheet").bounding_box()
    trash = visitor.page.locator("[data-row-trash]").bounding_box()
    assert sheet is not None
    assert trash is not None
    assert trash["x"] + trash["width"] <= sheet["x"] + sheet["width"]
    visitor.press("Close")
    expect(visitor.page.locator(".record-text")).to_be_focused()


def test_no_menu_of_a_filter_runs_out_of_a_narrow_window(visit: Visit, newcomer: str) -> None:
    visitor = visit(viewport={"width": 320, "height": 700})
    visitor.sign_in(newcomer, then="/notes/")
    menus = visitor.page.locator(".filter-menu > summary").all()
    assert menus
    for summary in menus:
        summary.click()
        assert not visitor.scrolls_sideways(), summary.inner_text()
        summary.click()


DROP = """(names) => {
  const dataTransfer = new DataTransfer();
  for (const name of names) dataTransfer.items.add(new File([`# ${name}`], name, { type: "text/markdown" }));
  const fire = (type) => document.querySelector("main").dispatchEvent(
    new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
  fire("dragover");
  return () => fire("drop");
}"""


def test_files_dropped_on_the_library_are_added(
    visit: Callable[..., Visitor], newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer, then="/library/")
    page = visitor.page
    here = page.locator("form[data-drop]")
    expect(here).to_be_hidden()
    drop = page.evaluate_handle(DROP, ["tides.md", "moons.md"])
    expect(here).to_be_visible()
    assert visitor.violations() == []
    page.evaluate(
        "document.dispatchEvent(new DragEvent('dragleave', {dataTransfer: (() => { const d = new DataTransfer(); d.items.add(new File([''], 'a.md')); return d; })()}))"
    )
    expect(here).to_be_hidden()
    drop.evaluate("drop => { drop(); }")
    expect(page.locator("#toasts")).to_contain_text("2 documents")
    expect(page.locator("#documents")).to_contain_text("moons")
    expect(page.locator("#documents")).to_contain_text("tides")
