"""The checked states of the lists of notes and observations: name, path, act."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None] | None


def found() -> list[tuple[str, str, Act]]:
    """Return the states of a person who has some."""
    return [
        ("notes", "/notes/", None),
        ("notes unfolded", "/notes/?q=hosts", unfold),
        ("notes ticked", "/notes/", _ticked),
        ("notes edited", "/notes/?q=kind:rule&sort=oldest", _edited_in_row),
        ("notes filter open", "/notes/?q=trust:external", _facet),
        ("notes panel", "/notes/", _panel),
        ("notes trash", "/notes/?q=is:trashed", None),
        ("notes none found", "/notes/?q=kind:poem+nothing-is-like-this", None),
        ("observations", "/observations/", None),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has none."""
    return [("observations empty", "/observations/")]


def _ticked(visitor: Visitor) -> None:
    visitor.page.locator("[name=record]").nth(0).check()
    visitor.page.locator("[name=record]").nth(2).check()
    visitor.page.locator("#bulk .more > summary").click()
    # What is half under the bar, or the head, is scrolled out from under it before it is pressed.
    visitor.page.evaluate("document.querySelector('#bulk .bulk').style.position = 'static'")
    visitor.page.evaluate("scrollTo(0, 0)")


def _edited_in_row(visitor: Visitor) -> None:
    visitor.page.locator(".record-table .row-actions a").first.click()
    # The form takes the focus once it is there: what was typed before would go into its text.
    visitor.page.locator("#record-inline-form [name=content]:focus").wait_for()
    visitor.page.locator("#record-inline-form [name=tags]").fill("x" * 81)
    visitor.page.locator("#record-inline-form button[type=submit]").click()
    visitor.page.locator("#record-inline-form [aria-invalid]").first.wait_for()


def _facet(visitor: Visitor) -> None:
    visitor.page.locator("#records-filter > summary").click()


def _panel(visitor: Visitor) -> None:
    visitor.page.locator(".record-text").first.click()
    visitor.page.locator("#record-panel h2").first.wait_for()
