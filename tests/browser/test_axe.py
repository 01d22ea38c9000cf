"""Every page in its states against WCAG 2.2 AA, light and dark, at 1280 and 320 px.

The 300 places take over ten minutes in all four looks.  `make test-slow` looks at each page in its
first state, and in every fourth other one, at 1280 px in light or at 320 px in dark by turns.  In
`make test-long` each is checked in all.
BEACON_TEST_PLACES="conflict digest" looks only at the places whose name contains one of the words.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from django.urls import Resolver404, resolve
from playwright.sync_api import Browser, Error

from tests.browser.places import STRANGER, Place, chosen, places
from tests.browser.site import BrowserSite
from tests.browser.visitor import Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
]

FULL = os.environ.get("BEACON_TEST_LONG") == "full"
WANTED = os.environ.get("BEACON_TEST_PLACES", "").split()


class Checker:
    """Visits the places with one window per person, and records problems."""

    def __init__(self, browser: Browser, site: BrowserSite) -> None:
        self.browser, self.site = browser, site
        self.visitors: dict[str, Visitor] = {}
        self.wrong: list[str] = []

    def look(self, place: Place, *, wide: bool, narrow: bool) -> None:
        """Check a place, and continue with the others after an error."""
        try:
            self._look(place, wide=wide, narrow=narrow)
        except Error as exc:
            self.wrong.append(f"{place.name}: {exc}")
            self._visitor(place.who).close()
            del self.visitors[place.who]

    def _look(self, place: Place, *, wide: bool, narrow: bool) -> None:
        """Check a place at 1280 px in light, or at 320 px in dark, or both; its width always."""
        visitor = self._visitor(place.who)
        place.enter(visitor)
        if wide:
            self._note(place, "1280", visitor.violations())
        visitor.page.emulate_media(color_scheme="dark")
        if wide and narrow:  # colors that only the wide page shows
            self._note(place, "1280 dark", visitor.violations("color-contrast"))
        visitor.page.set_viewport_size({"width": 320, "height": 700})
        if visitor.scrolls_sideways():
            self._note(place, "320", [f"scrolls sideways: {'; '.join(visitor.too_wide())}"])
        if narrow:
            self._note(place, "320 dark", visitor.violations())
        visitor.page.emulate_media(color_scheme="light")
        visitor.page.set_viewport_size({"width": 1280, "height": 900})
        self._note(place, "", visitor.problems)
        visitor.problems.clear()

    def _note(self, place: Place, how: str, found: list[str]) -> None:
        self.wrong += [f"{place.name} {how}: {problem}" for problem in found]

    def _visitor(self, who: str) -> Visitor:
        if who not in self.visitors:
            self.visitors[who] = Visitor(self.browser, self.site.base)
            if who != STRANGER:
                self.visitors[who].sign_in(who)
        return self.visitors[who]


def _page_of(place: Place) -> str:
    """Return the page's name, the same in all its states; its path where there is no such page."""
    with suppress(Resolver404):
        return resolve(urlsplit(place.path).path).view_name
    return place.path


@pytest.fixture
def checker(browser: Browser, site: BrowserSite) -> Iterator[Checker]:
    made = Checker(browser, site)
    yield made
    for visitor in made.visitors.values():
        visitor.close()


@pytest.mark.timeout(1500)
def test_no_page_has_a_barrier_an_error_a_foreign_request_or_a_sideways_scroll(
    checker: Checker, cast: dict[str, str]
) -> None:
    # In their order: some places begin with what another one has set up.
    pages: set[str] = set()
    looks = 0
    for number, place in enumerate(chosen(places(cast), WANTED)):
        page = _page_of(place)
        is_looked_at = FULL or bool(WANTED) or page not in pages or number % 4 == 0
        pages.add(page)
        if not is_looked_at and place.act is None:
            continue  # an act can set up what later places show
        looks += is_looked_at
        is_wide = looks % 2 == 0
        checker.look(
            place,
            wide=FULL or (is_looked_at and is_wide),
            narrow=FULL or (is_looked_at and not is_wide),
        )
    print(f"{looks} looks at {len(pages)} pages")
    assert not checker.wrong, "\n".join(checker.wrong)
