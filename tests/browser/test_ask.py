"""Ask in a browser: the answer appears automatically with its sources, also without scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
]
WAIT = 60_000


@pytest.fixture(scope="module")
def asking_site() -> Iterator[BrowserSite]:
    """A Beacon without a model, with the worker that works on answers."""
    with browser_site("web", "upkeep", "beat") as made:
        made.play("tests.browser.cast", "newcomers", "2")
        yield made


@pytest.fixture
def asker(
    browser: Browser, asking_site: BrowserSite, request: pytest.FixtureRequest
) -> Iterator[Visitor]:
    """A person with or without scripts."""
    scripts: bool = request.param
    made = Visitor(browser, asking_site.base, java_script_enabled=scripts)
    made.sign_in("person0" if scripts else "person1", PASSWORD, then="/ask/")
    yield made
    problems = made.problems
    made.close()
    assert not problems


@pytest.mark.parametrize("asker", [True], indirect=True)
def test_an_answer_comes_by_itself_with_its_sources_and_a_session_is_ended(asker: Visitor) -> None:
    page = asker.page
    page.locator(".ask-form textarea").fill("Remember that my boat is called Petrel.")
    asker.press("Ask")
    expect(page.locator(".say.me .tool")).to_contain_text("Saved as a log for 30 days.")
    expect(page.locator(".answer .say")).to_be_visible(timeout=WAIT)

    page.locator(".ask-form textarea").fill("What is my boat called?")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".ask-form textarea")).to_have_value("What is my boat called?\n")
    page.keyboard.press("Enter")
    expect(page.locator(".ask-found").last).to_contain_text("Petrel", timeout=WAIT)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert asker.violations() == []

    asker.press("Save and close")
    expect(page.locator("#session-left")).to_contain_text("Asked in the conversation", timeout=WAIT)
    expect(page.locator("#reflection")).to_be_visible(timeout=WAIT)


@pytest.mark.parametrize("asker", [False], indirect=True)
def test_without_scripts_the_answer_is_there_after_looking_again(asker: Visitor) -> None:
    page = asker.page
    page.locator(".ask-form textarea").fill("Who am I?")
    asker.press("Ask")
    for _try in range(60):
        if "No model is set up" in page.locator(".answer").inner_text():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(page.locator(".answer")).to_contain_text("No model is set up")
