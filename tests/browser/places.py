"""Every page in its states: where each is, who sees it, and what must be done there first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.browser.visitor import Visitor

STRANGER, FULL, EMPTY = "", "grace", "nils"


@dataclass(frozen=True, slots=True)
class Place:
    """A page in one state; `act` brings it there once it is open."""

    name: str
    path: str
    who: str = FULL
    act: Callable[[Visitor], None] | None = None

    def enter(self, visitor: Visitor) -> None:
        """Open it."""
        visitor.goto(self.path)
        if self.act:
            self.act(visitor)


def _unfold(visitor: Visitor) -> None:
    visitor.page.evaluate(
        "document.querySelectorAll('main details:not(.dropdown)').forEach((d) => { d.open = true })"
    )


def _reordered(visitor: Visitor) -> None:
    _unfold(visitor)
    visitor.page.locator("#services_brave").check()  # no key is set for it here
    visitor.page.locator("#down-arxiv").click()
    visitor.page.locator("#down-arxiv[data-focus]").wait_for()
    _unfold(visitor)


def _bad_topic(visitor: Visitor) -> None:
    _unfold(visitor)
    visitor.page.locator("[name=title]").fill("All of it, " * 50)
    visitor.page.locator("[name=block_domains]").fill("https://example.org/a/path")
    visitor.page.locator("[name=max_pages]").fill("-3")
    visitor.page.locator("button[name=make]").click()
    visitor.page.locator("[aria-invalid]").first.wait_for()
    _unfold(visitor)


def _known_topic(visitor: Visitor) -> None:
    visitor.page.locator("[name=title]").press_sequentially("postgresql release")
    visitor.page.locator("#known a").first.wait_for()


def _card(visitor: Visitor) -> None:
    visitor.page.locator("article sup a").first.click()
    visitor.page.locator(".cite-card").wait_for()


def _keys(visitor: Visitor) -> None:
    visitor.page.keyboard.press("?")
    visitor.page.locator("dialog[open]").wait_for()


def _bad_sign_in(visitor: Visitor) -> None:
    visitor.page.get_by_label("Username").fill("grace-who-is-not")
    visitor.page.get_by_label("Password").fill("wrong")
    visitor.press("Sign in")
    visitor.page.locator("main [role=alert], main .form-errors").first.wait_for()


def places(cast: dict[str, str]) -> list[Place]:
    """Return every page in every state that the cast gives it."""
    return [*_outside(), *_empty(), *_topic_pages(cast), *_runs(cast), *_rest(cast)]


def _outside() -> list[Place]:
    return [
        Place("sign-in", "/sign-in/", STRANGER),
        Place("sign-in wrong", "/sign-in/", STRANGER, _bad_sign_in),
        Place("dead link", "/invitation/no-such-token/", STRANGER),
        Place("not found", "/topics/no-such-topic/", FULL),
        Place("not found outside", "/nowhere/", STRANGER),
    ]


def _empty() -> list[Place]:
    return [
        Place("home empty", "/", EMPTY),
        Place("topics empty", "/topics/", EMPTY),
        Place("topics none found", "/topics/?q=nothing-is-like-this", FULL),
        Place("reports empty", "/reports/", EMPTY),
        Place("library empty", "/library/", EMPTY),
        Place("trash empty", "/topics/trash/", EMPTY),
        Place("profile plain", "/settings/profile/", EMPTY),
    ]


def _topic_pages(cast: dict[str, str]) -> list[Place]:
    tabs = ("", "facts/", "timeline/", "sources/", "runs/", "memory/", "settings/")
    found = [
        Place("topics", "/topics/"),
        Place("topics all", "/topics/?show=all&sort=title"),
        Place("topics trash", "/topics/trash/"),
        Place("topic purge", cast["purge"]),
        Place("topic new", "/topics/new/", FULL, _unfold),
        Place("topic new template", "/topics/new/?template=competitor-scan", FULL, _unfold),
        Place("topic new ordered", "/topics/new/?template=research-field", FULL, _reordered),
        Place("topic new wrong", "/topics/new/", FULL, _bad_topic),
        Place("topic new known", "/topics/new/", FULL, _known_topic),
        Place("fact edit", cast["fact"]),
        Place("fact history", cast["history"]),
    ]
    for name, slug in (("sample", cast["sample"]), ("aio", cast["topic"])):
        found += [
            Place(f"topic {name} {tab.strip('/') or 'report'}", f"/topics/{slug}/{tab}")
            for tab in tabs
        ]
    found += [
        Place(f"topic {name} {tab.strip('/') or 'report'}", f"/topics/{cast[name + ' slug']}/{tab}")
        for name in ("long", "rtl", "chinese", "emoji")
        for tab in ("", "facts/", "sources/")
    ]
    return [*found, Place("topic failed", f"/topics/{cast['failed slug']}/")]


def _runs(cast: dict[str, str]) -> list[Place]:
    names = (
        "delta",
        "partial",
        "long",
        "chinese",
        "rtl",
        "emoji",
        "running",
        "failed",
        "cancelled",
    )
    samples = [f"report {number}" for number in range(1, 5)]
    return [
        *(Place(f"run {name}", cast[name]) for name in (*names, *samples)),
        Place("run unfolded", cast["delta"], FULL, _unfold),
        Place("run card", cast["report 1"], FULL, _card),
        Place("run trace", cast["delta"] + "trace/"),
    ]


def _rest(cast: dict[str, str]) -> list[Place]:
    return [
        Place("home", "/"),
        Place("keys", "/topics/", FULL, _keys),
        Place("reports", "/reports/"),
        Place("reports unread", "/reports/?show=unread"),
        Place("library", "/library/"),
        Place("library found", "/library/?q=pilot"),
        Place("library add", "/library/add/"),
        Place("library document", cast["document"]),
        Place("library edit", cast["document edit"]),
        Place("profile", "/settings/profile/"),
        Place("sign-ins", "/settings/sign-ins/"),
        Place("people", "/settings/people/"),
        Place("people invited", "/settings/people/", FULL, _invite),
        Place("connections", "/settings/connections/"),
    ]


def _invite(visitor: Visitor) -> None:
    visitor.page.locator("main form [name=note]").fill("Kim")
    visitor.press("Make a one-time link")
    visitor.page.locator("#invitation-link").wait_for()
