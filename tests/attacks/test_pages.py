"""Hostile texts in every row, and every page that shows them: none of the markup is active."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memory.models import User
from tests.attacks.cast import everything
from tests.attacks.payloads import markup
from tests.attacks.poisoning import Poison
from tests.attacks.sinks import MADE_SAFE, SINKS, sink_of
from tests.attacks.sweep import sweep

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 8
MAKES_SAFE = re.compile(
    r"\bmark_safe\(|\bSafeString\((?!['\"]{2}\))|\bformat_html(?:_join)?\(|html_safe"
)
UNESCAPED = re.compile(r"\|\s*safe|safeseq|autoescape\s+off")


def test_there_are_hundreds_of_payloads_each_under_a_name_of_its_own() -> None:
    assert len({one.text.replace(one.name, "") for one in markup()}) >= 250
    assert [one.text for one in markup() if one.name not in one.text] == []


def test_what_is_called_safe_in_code_is_checked_in_a_sink() -> None:
    modules = [path for app in ("beacon_site", "memory", "research") for path in (ROOT / app).rglob("*.py")]  # fmt: skip
    found = {str(p.relative_to(ROOT)) for p in modules if MAKES_SAFE.search(p.read_text("utf-8"))}

    assert found <= set(MADE_SAFE), "a module calls text safe: name its sink in sinks.py"
    assert set(MADE_SAFE.values()) <= set(SINKS)


def test_no_template_of_a_page_says_that_something_is_safe() -> None:
    templates = ROOT / "templates"
    # Its settings are Beacon's own, as JSON, as in the template of django-ninja that it replaces.
    pages = set(templates.rglob("*.html")) - {templates / "ninja" / "swagger.html"}

    assert [str(page) for page in pages if UNESCAPED.search(page.read_text("utf-8"))] == []


def test_one_page_of_each_sink_shows_hostile_rows_as_words(
    admin: User, client_of: Callable[[Any], Client], count: Callable[..., None]
) -> None:
    first = {}
    for place in everything(admin):
        first.setdefault(sink_of(place.name), place)
    Poison(markup()[:: ROUNDS * 2]).rows()
    chosen = [place for sink, place in first.items() if sink]
    seen = sweep(client_of(admin), chosen)

    assert seen.problems() == {}
    assert sum(bool(names) for names in seen.shown.values()) > len(SINKS) // 2


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_every_page_shows_hostile_rows_as_words(
    turn: int, admin: User, client_of: Callable[[Any], Client], count: Callable[..., None]
) -> None:
    places = everything(admin)
    Poison(markup()[turn::ROUNDS]).rows()
    seen = sweep(client_of(admin), places, htmx=True)
    seen.count(count)

    assert seen.problems() == {}
