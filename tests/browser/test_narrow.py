"""Pages in narrow and medium-width windows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from playwright.sync_api import Browser, expect

from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser]

STYLES = ("tokens.css", "base.css", "components.css")
PHONE = {"width": 390, "height": 844}
Visit = Callable[..., Visitor]
LONG = "$1,234.56 + 12 calls with an unknown price (limit $5,000.00)"


def test_an_amount_with_words_next_to_it_breaks_on_a_phone(browser: Browser) -> None:
    styles = "".join((settings.BASE_DIR / "static/css" / name).read_text() for name in STYLES)
    page = browser.new_page(viewport={"width": 320, "height": 700})
    page.set_content(
        f'<style>{styles}</style><dl class="kv"><dt>Cost</dt><dd class="num">{LONG}</dd></dl>'
    )

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


# All that a run's masthead may hold beside its number and date.
MAX_TAGS = """(tags) => { tags.innerHTML =
  '<span class="tag">⚠ Partial</span> <span class="tag">baseline</span> ' +
  '<span class="tag">● unread</span>'; }"""


def test_a_reports_masthead_is_one_line_in_the_middle_widths(
    visit: Visit, cast: dict[str, str]
) -> None:
    visitor = visit()
    visitor.sign_in("grace", then=cast["delta"])
    masthead = visitor.page.locator(".masthead")
    visitor.page.locator(".masthead .tags").evaluate(MAX_TAGS)

    for width in (1024, 1101, 1120, 1240, 1241, 1280, 1440):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        assert masthead.evaluate("(e) => e.offsetHeight") < 60, width


def test_what_needs_the_person_comes_first_on_home(visit: Visit, cast: dict[str, str]) -> None:
    visitor = visit(viewport=PHONE)
    visitor.sign_in("grace", then="/")

    expect(visitor.page.locator("main .page p").first).to_contain_text("need your decision")
    top = "(e) => e.getBoundingClientRect().top"
    asks, news = visitor.page.locator(".decide"), visitor.page.locator(".home-news")
    assert asks.evaluate(top) < news.evaluate(top)
    visitor.page.set_viewport_size({"width": 1280, "height": 800})
    assert asks.evaluate(top) < news.evaluate(top)


@pytest.mark.parametrize("tab", ["", "runs/", "settings/"])
def test_tabs_are_one_line_on_a_phone_with_the_chosen_one_in_sight(
    visit: Visit, cast: dict[str, str], tab: str
) -> None:
    visitor = visit(viewport=PHONE, java_script_enabled=False)
    visitor.sign_in("grace", then=f"/topics/{cast['topic']}/{tab}")
    line = visitor.page.locator("#topic-tabs").bounding_box()
    chosen = visitor.page.locator("#topic-tabs [aria-current]").bounding_box()

    assert line is not None
    assert chosen is not None
    assert line["height"] < 50
    assert line["x"] <= chosen["x"]
    assert chosen["x"] + chosen["width"] <= line["x"] + line["width"] + 1  # widths have fractions
    assert not visitor.scrolls_sideways()


@pytest.mark.parametrize("scripts", [True, False])
def test_filters_stand_behind_one_button_on_a_phone(
    visit: Visit, cast: dict[str, str], scripts: bool
) -> None:
    visitor = visit(viewport=PHONE, java_script_enabled=scripts)
    visitor.sign_in("grace", then="/notes/?q=kind:rule+trust:external")
    menu = visitor.page.locator("#records-filter .menu")
    expect(menu).to_be_hidden()
    expect(visitor.page.locator(".filter-chip")).to_have_count(2)

    visitor.page.locator("#records-filter summary").click()

    expect(menu).to_be_visible()
    if scripts:
        visitor.page.set_viewport_size({"width": 320, "height": 700})
        assert not visitor.violations()
        assert not visitor.scrolls_sideways()
        visitor.page.keyboard.press("Escape")
    visitor.click(visitor.page.get_by_role("link", name="Remove filter").first)
    expect(visitor.page.locator(".filter-chip")).to_have_count(1)


LISTS = [
    "/notes/",
    "/observations/",
    "/files/",
    "/topics/",
    "/reports/",
    "/inbox/",
    "/activity/",
    "/recall/",
]


@pytest.mark.parametrize("path", LISTS)
def test_the_filter_bar_is_one_row_of_icons_on_a_phone(
    visit: Visit, cast: dict[str, str], path: str
) -> None:
    visitor = visit(viewport=PHONE)
    visitor.sign_in("grace", then=path)
    bar = visitor.page.locator(".filter-bar").first
    buttons = bar.locator(":is(.dropdown > summary, .select-rows):visible")

    assert bar.evaluate("(bar) => bar.offsetHeight") <= 40
    widths = buttons.evaluate_all("(all) => all.map((one) => one.offsetWidth)")
    assert widths
    assert max(widths) == 36


@pytest.mark.parametrize("path", ["/notes/", "/observations/"])
def test_a_records_text_has_its_row_on_a_phone(
    visit: Visit, cast: dict[str, str], path: str
) -> None:
    visitor = visit(viewport=PHONE)
    visitor.sign_in("grace", then=path)

    widths = visitor.page.locator(".record-text").evaluate_all(
        "(texts) => texts.filter((one) => one.checkVisibility()).map((one) => one.clientWidth)"
    )

    assert widths
    assert min(widths) > 220


BESIDE_THE_BAR = """(bar) => {
  const { top, right, bottom, left } = bar.getBoundingClientRect();
  const outside = [...bar.children].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.top < top || box.right > right || box.bottom > bottom || box.left < left;
  });
  return outside.map((one) => one.textContent);
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_bar_of_a_pressed_sentence_holds_its_buttons(
    visit: Visit, cast: dict[str, str], width: int
) -> None:
    visitor = visit(viewport={"width": width, "height": 800})
    visitor.sign_in("grace", then=f"/topics/{cast['sample']}/?from=2&to=3")
    visitor.page.locator("li.line .said").first.click()
    bar = visitor.page.locator("li.line.here .line-acts")

    assert bar.locator("> *").count() > 2
    assert bar.evaluate(BESIDE_THE_BAR) == []
