"""Windows of every width: lists hold all that is in them, Settings leads everywhere, nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
CUT = """() => [...document.querySelectorAll("main .sheet.flush")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.scrollWidth} px in ${box.clientWidth}`)"""
SHIFTS = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => { sum += entry.value; }))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 300);
})"""


@pytest.fixture
def visitor(visit: Callable[..., Visitor], cast: dict[str, str]) -> Visitor:
    """Who has topics, reports and notes."""
    made = visit()
    made.sign_in("grace")
    return made


@pytest.mark.parametrize(
    "path", ["/topics/", "/reports/", "/settings/tokens/", "/settings/people/"]
)
def test_no_list_is_cut_off_between_a_phone_and_a_desk(visitor: Visitor, path: str) -> None:
    visitor.goto(path)
    for width in (1280, 1210, 1120, 1010, 990, 820, 390):
        visitor.page.set_viewport_size({"width": width, "height": 860})
        assert visitor.page.evaluate(CUT) == [], width
        assert not visitor.scrolls_sideways(), width


def test_many_changes_leave_room_for_the_titles_of_topics(visitor: Visitor) -> None:
    visitor.goto("/topics/")
    visitor.page.locator("tr:has(.tags) .tags").first.evaluate(
        """(tags) => { for (const kind of ["gone", "contradicted"]) {
             const tag = tags.lastElementChild.cloneNode(true);
             tag.querySelector(".narrow-word").textContent = ` ${kind}`;
             tags.append(tag);
           } }"""
    )
    for width in (1280, 1010, 820):
        visitor.page.set_viewport_size({"width": width, "height": 860})
        assert visitor.page.evaluate(CUT) == [], width
        title = visitor.page.locator(".topic-table td.title").first.bounding_box()
        assert title and title["width"] > 130, width


@pytest.mark.parametrize("scripts", [True, False])
def test_settings_lists_its_pages_next_to_the_page_or_behind_a_button(
    visit: Callable[..., Visitor], cast: dict[str, str], scripts: bool
) -> None:
    visitor = visit(java_script_enabled=scripts)
    visitor.sign_in("grace", then="/settings/profile/")
    pages = visitor.page.get_by_role("navigation", name="Settings")
    expect(pages.get_by_role("link", name="Models and search")).to_be_visible()
    tops = [link.bounding_box() for link in pages.get_by_role("link").all()]
    assert len({round(box["x"]) for box in tops if box}) == 1  # one column

    visitor.page.set_viewport_size({"width": 390, "height": 844})
    expect(pages.get_by_role("link", name="Models and search")).to_be_hidden()
    pages.get_by_role("button", name="All settings").click()
    visitor.click(pages.get_by_role("link", name="Models and search"))
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Models and search")


@pytest.mark.parametrize("path", ["/", "/reports/", "/notes/?q=version", "/topics/"])
def test_what_is_read_does_not_move(visitor: Visitor, path: str) -> None:
    for width in (1280, 390):
        visitor.page.set_viewport_size({"width": width, "height": 860})
        visitor.goto(path)
        assert visitor.page.evaluate(SHIFTS) < 0.01, width


def test_a_list_a_text_and_a_form_end_at_the_same_edge(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 1440, "height": 900})
    edges = {}
    for path in ("/topics/", "/topics/new/", "/agents/permissions/", "/settings/profile/"):
        visitor.goto(path)
        for part in ("main > .head", "main > .page"):
            box = visitor.page.locator(part).bounding_box()
            assert box
            edges[path, part] = round(box["x"] + box["width"])
    assert set(edges.values()) == {1408}, edges


def test_settings_begin_at_the_same_height(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 1440, "height": 900})
    tops = set()
    for path in ("/settings/profile/", "/settings/sources/", "/settings/people/"):
        visitor.goto(path)
        box = visitor.page.get_by_role("navigation", name="Settings").bounding_box()
        assert box
        tops.add(round(box["y"]))
    assert len(tops) == 1, tops


def test_on_a_phone_on_its_side_an_inbox_item_scrolls_with_its_buttons(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 693, "height": 320})
    visitor.goto("/inbox/?show=proposal")
    visitor.page.locator(".inbox-link").first.click()
    acts = visitor.page.locator(".inbox-item[data-asked] .review-acts")
    expect(acts).to_be_visible()
    assert acts.evaluate("one => getComputedStyle(one).position") == "static"
    assert not visitor.page.locator(".phone-bar").is_visible()
    acts.scroll_into_view_if_needed()
    expect(acts.get_by_role("button", name="Reject")).to_be_in_viewport()
    assert not visitor.scrolls_sideways()
