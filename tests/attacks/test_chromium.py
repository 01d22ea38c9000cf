"""Hostile pages in a Chromium without Beacon's CSP: none of their scripts run.

The last test removes the defenses, to show that the canary works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.template import engines
from django.test import Client

from beacon_site.text import markdown
from memory.models import User
from memory.pages.files.editing import _kept_html
from tests.attacks.cast import everything
from tests.attacks.chromium_sweep import watched
from tests.attacks.payloads import markup, names_in
from tests.attacks.poisoning import Poison
from tests.attacks.sinks import sink_of
from tests.attacks.sweep import sweep
from tests.browser.visitor import chromium

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(900)]


def pages_of(admin: User, browser: Client, wanted: Callable[[str], bool]) -> dict[str, dict[str, str]]:  # fmt: skip
    """Return the hostile pages by sink and URL."""
    places = [place for place in everything(admin) if wanted(place.name)]
    Poison(markup()[::8]).rows()
    found: dict[str, dict[str, str]] = {}
    for place in places:
        pages = sweep(browser, [place]).pages
        found.setdefault(sink_of(place.name), {}).update(pages)
    return {sink: pages for sink, pages in found.items() if pages}


def test_no_page_brings_anything_of_theirs_alive(
    admin: User, client_of: Callable[[Any], Client], chromium_path: str, count: Callable[..., None]
) -> None:
    sinks = pages_of(admin, client_of(admin), lambda name: bool(sink_of(name)))
    pages = {address.partition("?")[0]: page for found in sinks.values() for address, page in found.items()}  # fmt: skip
    alive: list[str] = []
    with chromium(chromium_path) as browser, watched(browser, pages) as window:
        for sink, found in sinks.items():
            sung = [what for address in found for what in window.open(address)]
            tried = len(set[str]().union(*map(names_in, found.values())))
            count(f"in Chromium without CSP: {sink}", tried, run=min(tried, len(sung)))
            alive += sung

    assert alive == []
    assert len(sinks) > 30


def test_with_the_walls_down_the_canary_sings(
    admin: User,
    client_of: Callable[[Any], Client],
    chromium_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parser = markdown._parser.__wrapped__()
    parser.options["html"] = True
    parser.validateLink = lambda _address: True
    monkeypatch.setattr(markdown, "_parser", lambda: parser)
    monkeypatch.setattr(markdown, "_clean", lambda html: html)
    monkeypatch.setattr(engines["django"].engine, "autoescape", False)
    _kept_html.cache_clear()
    sinks = pages_of(admin, client_of(admin), {"research:run", "memory:note", "memory:file"}.__contains__)  # fmt: skip
    pages = {address: page for found in sinks.values() for address, page in found.items()}
    _kept_html.cache_clear()  # what was laid out without protection must not be in a later test
    with chromium(chromium_path) as browser, watched(browser, pages) as window:
        alive = {address: window.open(address) for address in pages}

    assert len(alive) == 3
    assert all(alive.values()), alive
