"""Text that is hard to lay out: right-to-left scripts, and endless words that must break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
LEFT, RIGHT = "ltr", "rtl"
DIRECTIONS = """(found) => [...new Set(found.map((one) => getComputedStyle(one).direction))]"""
OUTSIDE = """() => [...document.querySelectorAll(".record-table .line-acts :is(a, button)")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
  .map((one) => one.ariaLabel)"""


@pytest.fixture
def visitor(visit: Callable[..., Visitor], cast: dict[str, str]) -> Visitor:
    """Whose topics, files and proposals are written in many scripts."""
    made = visit()
    made.sign_in("hedy")
    return made


@pytest.mark.parametrize(
    ("page", "what"),
    [
        ("words arabic run", ".delta .beside .text"),
        ("words arabic run", ".report .body > blockquote"),
        ("words arabic compare", ".compared .fact-text"),
        ("words arabic sides", ".text-sides td:is(.removed, .added, .same > *):not(:empty)"),
        ("words hebrew run", ".report .body :is(p, li, blockquote)"),
    ],
)
def test_what_is_written_from_the_right_is_set_so(
    visitor: Visitor, cast: dict[str, str], page: str, what: str
) -> None:
    topic = cast["words arabic"]
    pages = cast | {
        "words arabic compare": f"{topic}compare/?from=1&to=2",
        "words arabic sides": f"{topic}compare/?from=1&to=2&view=lines&layout=side",
    }
    visitor.goto(pages[page])
    shown = visitor.page.locator(what).filter(has_text="0")  # each sentence has a figure

    assert shown.evaluate_all(DIRECTIONS) == [RIGHT]


def test_a_file_of_many_scripts_sets_each_part_in_its_own_direction(visitor: Visitor) -> None:
    visitor.goto("/files/episodes/2026-11.md/")
    heads = visitor.page.locator(".file-text h3")
    assert heads.evaluate_all(DIRECTIONS) == [RIGHT, LEFT]

    visitor.goto("/files/episodes/2026-11.md/blame/")
    lines = visitor.page.locator(".blame .code-lines")
    assert lines.evaluate_all(DIRECTIONS) == [LEFT]  # the numbers are in one column
    assert lines.locator("li > span").evaluate_all(DIRECTIONS) == [LEFT, RIGHT]


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_an_endless_word_pushes_nothing_out_of_the_window(
    visitor: Visitor, cast: dict[str, str], width: int
) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    for page in (cast["words word"], "/notes/", "/palette/?words=2026", "/topics/", "/memory/"):
        visitor.goto(page)
        assert not visitor.scrolls_sideways(), page
        assert visitor.page.evaluate(OUTSIDE) == [], page


def test_a_file_that_the_palette_finds_keeps_its_name_next_to_what_it_says(
    visitor: Visitor,
) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    visitor.goto("/palette/?words=2026")
    name = visitor.page.locator(".palette-rows a bdi.clip", has_text="episodes/2026-11.md")
    assert name.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_on_a_phone_a_topics_title_has_most_of_its_row(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    visitor.goto("/topics/")
    title = visitor.page.locator(".topic-table td.title > a:not(.tag)").first.bounding_box()
    assert title and title["width"] > 175
