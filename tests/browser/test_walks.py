"""Two user journeys: a researcher with many topics, and an owner who reviews an agent's writes.

Others are in test_journey.py (first use), test_first_account.py (hosting), test_trust_by_keyboard.py,
test_review.py and test_files.py.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
TITLES = ("Tidal power", "Wave power", "Heat pumps")


def make_topics(visitor: Visitor) -> None:
    """Make the researcher's topics, each by the form and its keys."""
    for title in TITLES:
        visitor.goto("/topics/new/")
        visitor.page.locator("[name=title]").fill(title)
        visitor.page.locator("[name=title]").press("Control+Enter")
        visitor.page.wait_for_url(re.compile(r"/topics/(?!new)"))


def test_a_researcher_pauses_some_of_many_topics_and_finds_one_by_the_palette(
    visit: Visit, newcomer: str
) -> None:
    visitor = visit()
    visitor.sign_in(newcomer)
    make_topics(visitor)
    page = visitor.page
    visitor.goto("/topics/?q=power")
    expect(page.locator(".topic-table tbody tr")).to_have_count(2)
    page.locator("[data-select-page]").check()
    page.locator(".bulk").get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_be_visible()
    expect(page.locator(".topic-table tbody tr", has_text="Paused")).to_have_count(2)
    assert page.url.endswith("?q=power")  # a bulk act keeps what was asked for
    page.keyboard.press("Control+k")
    page.keyboard.type("pumps heat")
    page.locator("#palette-rows a", has_text="Heat pumps").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Heat pumps")


def test_a_researcher_does_so_without_scripts(visit: Visit, newcomer: str) -> None:
    visitor = visit(java_script_enabled=False)
    visitor.sign_in(newcomer)
    page = visitor.page
    visitor.goto("/topics/new/")
    page.locator("[name=title]").fill("Tidal power")
    visitor.click(page.locator("button[name=make]"))
    visitor.follow("Search or jump to…")
    page.locator("main [name=words]").fill("tidal")
    visitor.click(page.locator("main form button"))
    visitor.click(page.locator("main .palette-rows a", has_text="Tidal power"))
    assert visitor.heading().startswith("Tidal power")


# --- the keeper of an agent's memory --------------------------------------------------------------

RULE = {
    "kind": "rule", "content": "Run the smoke test before a release.", "confidence": 0.9,
    "evidence": ["The last release was pulled."],
}  # fmt: skip
FOUND = {
    "content": "Heron has 64 GB of memory.", "category": "finding", "source": "GOAL:inventory",
}  # fmt: skip


def token_made(visitor: Visitor) -> str:
    """Create a token for a program, as Settings shows it once."""
    visitor.goto("/settings/tokens/")
    visitor.page.locator("#create-token > summary").click()
    visitor.page.locator("main form [name=name]").fill("heron-bot")
    visitor.press("Create token")
    return visitor.page.locator("#new-token").input_value()


def writes(site: BrowserSite, token: str, what: str, body: dict[str, Any]) -> int:
    """Let the program write; return the status of the answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{site.base}/api/v1/{what}", data=json.dumps(body).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(answer.status)


@pytest.mark.parametrize("scripts", [True, False], ids=["htmx", "no-javascript"])
def test_a_keeper_decides_finds_corrects_and_brings_back_what_an_agent_wrote(
    visit: Visit, newcomer: str, site: BrowserSite, scripts: bool
) -> None:
    visitor = visit(java_script_enabled=scripts)
    visitor.sign_in(newcomer)
    page, token = visitor.page, token_made(visitor)
    assert writes(site, token, "notes", RULE) == 202  # a rule waits
    assert writes(site, token, "observations", FOUND) == 201
    visitor.goto("/inbox/")
    writer = page.locator("#inbox-detail").get_by_role("link", name="heron-bot")
    visitor.click(writer.first)  # its writer's name narrows the list
    page.wait_for_url("**/inbox/?by=*")
    accept = page.locator("#inbox-detail").get_by_role("button", name="Accept")
    visitor.click(accept.filter(visible=True).first)
    expect(page.locator("#toasts .toast").first).to_contain_text("Saved: A rule.")
    visitor.goto("/observations/")
    expect(page.locator("main")).to_contain_text("heron-bot")
    visitor.goto("/memory/?q=heron")
    # With scripts, the row opens beside the list. Its page has the same address.
    row = page.get_by_role("link", name="Heron has 64 GB of memory.").first
    visitor.goto(row.get_attribute("href") or "")
    visitor.follow("Edit")
    page.locator("main [name=content]").fill("Heron has 128 GB of memory.")
    visitor.press("Save")
    expect(page.locator("main")).to_contain_text("Text changed")
    visitor.press("Trash")
    expect(page.locator("#toasts .toast").first).to_contain_text("Moved to Trash")
    visitor.press("Undo")
    expect(page.locator("#toasts .toast").last).to_contain_text("Change undone")
    visitor.goto("/memory/?q=heron")
    expect(page.locator(".memory-list")).to_contain_text("128 GB")
