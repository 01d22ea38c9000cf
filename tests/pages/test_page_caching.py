"""Nothing of a signed-in person's pages is kept by browsers and proxies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import User
from research.models import Run
from research.pages import shares
from tests.pages.test_urls import PUBLIC, routes

HTMX = {"HX-Request": "true"}


@pytest.mark.slow
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "htmx"])
def test_every_page_of_a_signed_in_person_is_kept_nowhere(
    admin: User, client_of: Callable[[User], Client], headers: dict[str, str]
) -> None:
    browser = client_of(admin)
    opened = {
        name: browser.get(address, headers=headers)
        for name, address, _pattern in routes()
        if name not in PUBLIC
    } | {"admin": browser.get("/admin/memory/note/"), "nowhere": browser.get("/no-such-page/")}
    pages = {name: one for name, one in opened.items() if "text/html" in one["Content-Type"]}

    kept = {name: one.get("Cache-Control", "") for name, one in pages.items()}
    assert len(pages) > 50
    assert {
        name: how for name, how in kept.items() if not {"private", "no-store"} <= words(how)
    } == {}


def words(header: str) -> set[str]:
    return {word.strip() for word in header.split(",")}


def test_what_anyone_can_read_is_as_before(run: Run, alice: User) -> None:
    link = shares.make_link(run.report, days=30, note="Ines", by=alice.actor)
    shared: Any = Client().get(f"/shared/{link.token}/")

    assert "Cache-Control" not in Client().get("/welcome/").headers
    assert "no-store" in shared["Cache-Control"]  # its own rule: it ends when its owner says so
