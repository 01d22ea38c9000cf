"""Admins connect a model on loopback, test it, watch a report stream in, and compare two runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from werkzeug import Request, Response

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import Visitor
from tests.providers.servers import ScriptedChatServer, says

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
SOON = 60_000  # ms
PASSWORD = "alice-horse-battery"
PACE = 0.6  # seconds between two of the eight pieces of the report: slow enough to be watched
_PAGE = re.compile(r"\n\[(\d+)\] [^\n]*\n<<<\n(.*?)\n>>>", re.S)


def _written(prompt: str) -> str:
    """Return a report that cites each page of the prompt for its own first long sentence."""
    findings = []
    for number, text in _PAGE.findall(prompt):
        said = next(s for s in re.split(r"(?<=\.)\s+", text) if len(s) > 60)
        findings.append({"sentence": said, "citations": [int(number)], "quote": said})
    body = "\n\n".join(f"{one['sentence']} [{one['citations'][0]}]" for one in findings[:6])
    return json.dumps({"summary": "Pieces came [1].", "body": body, "findings": findings[:6]})


def _standing(body: dict[str, Any]) -> Callable[[Request], Response] | str:
    """Answer as a capable model: the plan at once, the report in pieces."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    if '{"queries"' in prompt:
        return says(json.dumps({"queries": ["PostgreSQL release", "PostgreSQL news", "VACUUM"]}))
    if '{"relations"' in prompt:
        pairs = [int(n) for n in re.findall(r"(?m)^Pair (\d+)$", prompt)]
        return says(json.dumps({"relations": [{"pair": n, "relation": "other"} for n in pairs]}))
    if "<<<" in prompt:
        return says(_written(prompt), pace=PACE)
    if "capital" in prompt:
        return says(json.dumps({"city": "Paris", "country": "France"}))
    return says("ready")


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedChatServer]:
    """A model that answers as asked, on loopback."""
    with ScriptedChatServer(_standing) as server:
        yield server


@pytest.fixture(scope="module")
def model_site() -> Iterator[BrowserSite]:
    """A separate Beacon whose model is configured on the page, for the whole site."""
    with browser_site("web", "worker", "beat") as made:
        made.manage(
            "createsuperuser", "--noinput", "--username=alice", "--email=alice@example.org",
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )  # fmt: skip
        yield made


@pytest.fixture
def alice(visit: Visit, model_site: BrowserSite) -> Visitor:
    """The admin, signed in."""
    made = visit(model_site.base)
    made.sign_in("alice", PASSWORD)
    return made


def test_a_model_is_connected_tested_and_watched_and_two_runs_compared(
    alice: Visitor, model: ScriptedChatServer
) -> None:
    page = alice.page
    alice.goto("/settings/connections/")
    form = page.locator("#connection_model")
    form.get_by_label("Other (OpenAI-compatible)").check()
    form.locator("[name=model-base_url]").fill(model.base_url)
    form.locator("[name=model-model]").fill("loopback-1")
    form.get_by_role("button", name="Save language model", exact=True).click()
    expect(page.locator("#connection_model .tag").first).to_have_text("loopback-1")
    alice.press("Test saved settings")
    expect(page.locator("#test_model")).to_contain_text("Test succeeded", timeout=SOON)
    expect(page.locator("#test_model")).to_contain_text("ready")

    alice.goto("/")
    alice.press("Try the sample topic")
    draft = page.locator("#run-draft .draft-text")
    expect(draft).to_have_text(re.compile(r"\S"), timeout=SOON)
    expect(page.locator("article.report .masthead b")).to_have_text("Run #1", timeout=SOON)
    expect(page.locator("article.report")).to_contain_text("loopback-1")

    alice.press("Run now")
    expect(page.locator("article.report .masthead b")).to_have_text("Run #2", timeout=SOON)
    alice.unfold("More")
    page.locator("main").get_by_role("link", name=re.compile("Compare")).first.click()
    expect(page.locator("#compare")).to_be_visible()
    assert alice.violations() == []
    assert not alice.scrolls_sideways()
    alice.follow("Words")
    expect(page.locator("#compare ins").first).to_be_visible()


def test_a_model_that_is_not_there_is_reported_and_nothing_typed_is_lost(alice: Visitor) -> None:
    page = alice.page
    alice.goto("/settings/connections/")
    form = page.locator("#connection_model")
    form.get_by_label("Other (OpenAI-compatible)").check()
    form.locator("[name=model-base_url]").fill("http://alice:hunter22@127.0.0.1:9/v1")
    form.locator("[name=model-model]").fill("loopback-9")
    form.get_by_role("button", name="Save language model", exact=True).click()
    expect(form).to_contain_text("Remove the username and password from the URL")
    expect(form.locator("[name=model-model]")).to_have_value("loopback-9")
    form.locator("[name=model-base_url]").fill("http://127.0.0.1:9/v1")
    form.get_by_role("button", name="Save language model", exact=True).click()
    expect(page.locator("#connection_model .tag").first).to_have_text("loopback-9")
    alice.press("Test saved settings")
    expect(page.locator("#test_model")).to_contain_text("can’t be reached", timeout=SOON)
