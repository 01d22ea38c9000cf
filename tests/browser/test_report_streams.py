"""A report streams into its run's page from a model on loopback, and where its reader is stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD, Visitor
from tests.providers.servers import ScriptedChatServer, says

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
FILLER = "Much was said of the releases in that year, and most of it was about time. " * 12
LAST = "This is the last paragraph of the report."


def _answer(asked: dict[str, Any]) -> Any:
    prompt = str(asked["messages"])
    if '"findings"' not in prompt:
        return {"queries": ["PostgreSQL releases", "PostgreSQL end of life"]}
    paragraphs = "\n\n".join(f"## Part {n}\n\n{FILLER} [{n}]" for n in range(1, 7))
    body = f"{paragraphs}\n\n{LAST} [1]"
    return says(json.dumps({"summary": "Releases go on [1].", "body": body}), pace=1.2)


@pytest.fixture(scope="module")
def chat() -> Iterator[ScriptedChatServer]:
    with ScriptedChatServer(_answer) as server:
        yield server


@pytest.fixture(scope="module")
def writing_site(chat: ScriptedChatServer) -> Iterator[BrowserSite]:
    """A Beacon whose model is the slow one."""
    with browser_site(
        "web", "worker", "beat", BEACON_LLM_BASE_URL=chat.base_url, BEACON_LLM_MODEL="slow"
    ) as made:
        yield made


@pytest.fixture
def reader(browser: Browser, writing_site: BrowserSite) -> Iterator[Visitor]:
    made = Visitor(browser, writing_site.base)
    made.sign_in(writing_site.play("tests.browser.cast", "newcomers", "1")[0], PASSWORD)
    yield made
    problems = made.problems
    made.close()
    assert not problems


def where_it_rests(page: Page) -> int:
    """Return how far the page is scrolled, once the wheel's turn has come to its end."""
    stood = -1
    while (now := int(page.evaluate("scrollY"))) != stood:
        stood = now
        page.wait_for_timeout(200)
    return stood


def test_the_report_grows_before_ones_eyes_and_the_page_does_not_jump(reader: Visitor) -> None:
    page = reader.page
    reader.press("Try the sample topic")
    draft = page.locator("#run-draft .draft-text")
    expect(draft).to_contain_text("Part 1", timeout=60_000)
    page.locator("#run-draft").scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)
    stood, length = where_it_rests(page), len(draft.inner_text())

    expect(draft).to_contain_text("Part 4", timeout=30_000)

    assert len(draft.inner_text()) > length
    assert page.evaluate("scrollY") == stood
    assert reader.violations() == []
    expect(page.locator("article.report .body")).to_contain_text(LAST, timeout=60_000)
    expect(page.locator("#run-draft")).to_have_count(0)

    # Watching the run isn't reading its report; opening the report is.
    report = page.url.partition("?")[0].removeprefix(reader.base)
    page.wait_for_timeout(3_000)
    reader.goto("/reports/")
    expect(page.locator("[data-row-mark]").first).to_have_text("Mark as read")
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        reader.goto(report)
    reader.goto("/reports/")
    expect(page.locator("[data-row-mark]").first).to_have_text("Mark as unread")
