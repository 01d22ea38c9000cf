"""The checked states of Ask: name, path, act, who."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states of a person who has asked."""
    return [
        ("ask", "/ask/", None),
        ("ask nothing", "/ask/", _nothing),
        ("ask session", cast["ask_session"], None),
        ("ask session unfolded", cast["ask_session"], _unfold),
        ("ask answering", cast["ask_answering"], None),
        ("ask still answering", cast["ask_answering"], _more),
        ("ask stopped", cast["ask_failed"], None),
        ("ask ended", cast["ask_ended"], None),
        ("ask rename", cast["ask_rename"], None),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has asked nothing."""
    return [("ask empty", "/ask/")]


def _nothing(visitor: Visitor) -> None:
    visitor.page.locator(".ask-form textarea").fill("  ")
    visitor.page.locator(".ask-form button").click()
    visitor.page.locator(".ask-form .errorlist").wait_for()


def _unfold(visitor: Visitor) -> None:
    visitor.page.evaluate(
        "document.querySelectorAll('main .talk details').forEach((d) => { d.open = true })"
    )


def _more(visitor: Visitor) -> None:
    visitor.page.locator(".ask-form textarea").fill("And what is next?")
    visitor.page.locator(".ask-form button").click()
    visitor.page.locator(".form-errors, .errorlist").first.wait_for()
