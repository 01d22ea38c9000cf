"""One site, one cast and one browser for all browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import Visitor, chromium


# What runs ends with the tests of this folder, not with the process, which continues with others.
@pytest.fixture(scope="package")
def site() -> Iterator[BrowserSite]:
    """A whole Beacon with web, worker and beat, and the accounts and topics of the cast."""
    with browser_site("web", "worker", "beat") as made:
        yield made


@pytest.fixture(scope="package")
def cast(site: BrowserSite) -> dict[str, str]:
    """The addresses of what tests/browser/cast.py made."""
    found: dict[str, str] = site.play("tests.browser.cast")
    return found


# Playwright keeps an event loop running in this thread, which Django's database calls of other
# tests refuse to work beside: the browser ends with the tests of this folder.
@pytest.fixture(scope="package")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium."""
    with chromium(chromium_path) as started:
        yield started


@pytest.fixture
def visit(browser: Browser, site: BrowserSite) -> Iterator[Callable[..., Visitor]]:
    """Return a function that opens a browser window; at the end it checks all pages."""
    opened: list[Visitor] = []

    def visitor(base: str = "", **options: Any) -> Visitor:
        opened.append(Visitor(browser, base or site.base, **options))
        return opened[-1]

    yield visitor
    problems = [problem for one in opened for problem in one.problems]
    for one in opened:
        one.close()
    assert not problems


@pytest.fixture(scope="package")
def newcomers(site: BrowserSite, request: pytest.FixtureRequest) -> list[str]:
    """The names of empty accounts that aren't in use, one for each test that takes one."""
    takers = sum("newcomer" in getattr(one, "fixturenames", ()) for one in request.session.items)
    names: list[str] = site.play("tests.browser.cast", "newcomers", str(takers))
    return names


@pytest.fixture
def newcomer(newcomers: list[str]) -> str:
    """The name of an empty account, only for this test."""
    return newcomers.pop()
