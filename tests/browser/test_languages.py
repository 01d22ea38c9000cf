"""No page is too wide for a small phone in any language."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.utils.translation import to_language
from playwright.sync_api import expect

from scripts import languages
from tests.browser.places import FULL, places
from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


# German has the longest words. Each language takes half a minute.
LONGEST_WORDS = ("de",)
CHECKS_ALL = os.environ.get("BEACON_TEST_LONG") == "full"


@pytest.mark.parametrize("language", languages.LANGUAGES if CHECKS_ALL else LONGEST_WORDS)
def test_no_page_scrolls_sideways_on_a_small_phone(
    visit: Callable[..., Visitor], cast: dict[str, str], language: str
) -> None:
    visitor = visit(viewport={"width": 320, "height": 700})
    visitor.sign_in("grace")
    code = to_language(language)
    visitor.context.set_extra_http_headers({"Accept-Language": code})
    seen: set[str] = set()
    wrong: list[str] = []
    # A quarter of the places in each language, since a place takes half a second: half of them in
    # German, whose words are the longest.
    share = 2 if language == "de" else 4
    begin = languages.LANGUAGES.index(language) % share
    for place in places(cast)[begin::share]:
        path = place.path.partition("?")[0]
        if place.who != FULL or path in seen:
            continue
        seen.add(path)
        visitor.goto(place.path)
        expect(visitor.page.locator("html")).to_have_attribute("lang", code)
        if visitor.scrolls_sideways():
            wrong.append(f"{place.name}: {'; '.join(visitor.too_wide())}")
    assert len(seen) > 60 // share
    assert wrong == []
