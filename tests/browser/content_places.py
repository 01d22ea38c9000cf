"""The checked states of Content and Context: name, path, act."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states of a person who has something."""
    return [
        ("content", "/content/", None),
        ("content scope", cast["content scope"], None),
        ("content none", "/content/?q=nothing-is-like-this", None),
        ("content item", cast["content"], None),
        ("content filtered", f"{cast['content']}?transform=filtered&q=cell&unit=lines&n=12", None),
        ("content wrong", f"{cast['content']}?transform=first_n&n=-1", None),
        ("content private", cast["content private"], None),
        ("snapshots", "/content/snapshots/", _no_scope),
        ("snapshot", cast["snapshot"], None),
        ("agents", "/agents/", None),
        ("agents topic", cast["agents topic"], unfold),
        ("agents tight", "/agents/?budget=300&topic=gone", None),
        ("agents without", "/agents/?message=fares", _without_one),
        ("agents activity", "/agents/activity/", None),
        ("agents activity none", "/agents/activity/?q=nothing-is-like-this", None),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has nothing."""
    return [
        ("content empty", "/content/"),
        ("snapshots empty", "/content/snapshots/"),
        ("agents empty", "/agents/"),
        ("agents activity empty", "/agents/activity/"),
    ]


def _without_one(visitor: Visitor) -> None:
    visitor.page.locator("[name=keep]").first.uncheck()
    visitor.page.locator("#context .give.out input").wait_for()
    visitor.page.locator("#context .acts summary").first.click()


def _no_scope(visitor: Visitor) -> None:
    visitor.page.locator("#take-snapshot > summary").click()
    add = (
        "document.querySelector('[name=scope]').add(new Option('', 'no scope at all', true, true))"
    )
    visitor.page.evaluate(add)
    visitor.page.locator("form:has([name=scope]) button[type=submit]").click()
    visitor.page.locator("[aria-invalid]").wait_for()
