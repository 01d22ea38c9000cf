"""If Postgres is down during a save, the typed text is still in the browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visitor import Visitor, chromium
from tests.conftest import Say
from tests.faults.broken import Broken
from tests.faults.person import PASSWORD

pytestmark = [
    pytest.mark.long,
    pytest.mark.faults,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium."""
    with chromium(chromium_path) as started:
        yield started


@pytest.fixture
def visitor(broken: Broken, browser: Browser) -> Iterator[Visitor]:
    """Alice, who corrects the one fact of a topic, over htmx."""
    title = "Harbour kept"
    broken.site.act("topics", title)
    fact = {"text": "The harbour has 14 cranes.", "url": ""}
    assert broken.person.post("/topics/harbour-kept/facts/", htmx=True, **fact).status_code == 200
    one = Visitor(browser, broken.person.base)
    one.sign_in("alice", PASSWORD)
    one.goto("/topics/harbour-kept/facts/")
    one.page.get_by_role("link", name="Edit: The harbour has").click()
    yield one
    one.close()


def test_an_edit_that_postgres_does_not_answer_is_in_the_form_and_is_saved_later(
    broken: Broken, visitor: Visitor, say: Say
):
    box, text = (
        visitor.page.locator("form.fact-form textarea"),
        "The harbour has 17 cranes, I counted.",
    )
    box.fill(text)
    broken.postgres.close()
    try:
        with visitor.page.expect_response(lambda answer: "/edit/" in answer.url) as met:
            visitor.press("Save")
        expect(box).to_have_value(text)
        kept = box.input_value()
    finally:
        broken.postgres.heal()
    visitor.press("Save")
    expect(visitor.page.locator("li.fact")).to_contain_text(text)
    say(
        "Postgres gone while a browser saves an edit over htmx",
        "the form keeps its text; the next try works",
        f"answered {met.value.status}, the form still had “{kept}”; then saved",
    )

    assert met.value.status == 503
    assert kept == text
