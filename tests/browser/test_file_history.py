"""A memory file's history in a browser: compare, restore, blame, lock and condense."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
Visit = Callable[..., Visitor]
PAGE = "/files/facts/memory.md/"
TEXT = "# Memory\n\n- Fares are stale\n- Fares are stale\n\n## Rules of thumb\n\n- Ask first\n"


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_file_is_condensed_compared_restored_and_locked(
    visit: Visit, newcomer: str, has_scripts: bool
) -> None:
    visitor = visit(java_script_enabled=has_scripts)
    visitor.sign_in(newcomer)
    page = visitor.page
    visitor.goto(f"{PAGE}edit/")
    if has_scripts:
        visitor.press("Plain text field")
    page.locator("[name=content]").fill(TEXT)
    visitor.press("Save")
    expect(page.locator("article.file-text")).to_contain_text("Ask first")

    visitor.goto(f"{PAGE}condense/")
    visitor.press("Accept and save")
    expect(page.locator("main")).to_contain_text("condensed without a model")

    visitor.follow("History")
    visitor.follow("Compare two versions")
    expect(page.locator("#compare-heading")).to_have_text("Version 2 compared with version 3")
    page.locator("#view").select_option("side")
    if not has_scripts:
        visitor.press("Compare")
    expect(page.locator("table.text-sides")).to_be_visible()
    visitor.press("Restore version 2")
    expect(page.locator("article.file-text li", has_text="Fares are stale")).to_have_count(2)

    visitor.follow("History")
    expect(page.locator("main")).to_contain_text("Restored version 2")
    visitor.goto(f"{PAGE}blame/")
    expect(page.locator("ol.blame")).to_contain_text("version 2")  # whose lines they were
    expect(page.locator("ol.blame")).not_to_contain_text("restored")
    visitor.goto(f"{PAGE}lock/")
    page.get_by_role("button", name="Lock Rules of thumb").click()
    expect(page.get_by_role("button", name="Unlock Rules of thumb")).to_be_visible()
    assert not visitor.problems
