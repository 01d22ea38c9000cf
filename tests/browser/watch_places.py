"""The checked states of what trust shows of one topic, and of toasts: name, path, act."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None] | None
TOASTS = """(texts) => texts.forEach((text) => document.dispatchEvent(
  new CustomEvent("toast", {detail: {text, level: "success"}})))"""
SAID = (
    "Archived: Tariffs for heat pumps.",
    "Moved to Trash: The long-term behaviour of lithium-iron-phosphate cells in storage.",
    "Paused: Insulation of old roofs. Its next run would have been tomorrow at seven.",
)


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states of a person who has something."""
    topic, told = f"/topics/{cast['watch']}/", cast["watch told"]
    return [
        ("watch topic", topic, None),
        ("watch facts", f"{topic}facts/", None),
        ("watch timeline", f"{topic}timeline/", unfold),
        ("watch sources", f"{topic}sources/", unfold),
        ("watch rules", f"{topic}rules/", None),
        ("watch settings", f"{topic}settings/", None),
        ("watch settings unfolded", f"{topic}settings/", unfold),
        ("watch forecast", f"{topic}forecast/", None),
        ("watch corrections", f"{topic}corrections/", None),
        ("watch told", told, unfold),
        ("watch sentences", f"{told}sentences/", None),
        ("watch braked", cast["watch braked"], None),
        ("watch recheck", cast["watch recheck"], None),
        ("watch removed", cast["watch removed"], None),
        ("toasts", "/topics/", _toasts),
        ("channel new email", "/settings/channels/new/email/", _no_address),
        ("channel new apprise", "/settings/channels/new/apprise/", None),
        ("kept mails", "/settings/mails/", None),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has nothing."""
    return [
        ("quarantine empty", "/review/quarantine/"),
        ("refused sources empty", "/review/refused/"),
        ("source rules empty", "/settings/sources/"),
        ("conflicts none resolved", "/inbox/?state=resolved"),
    ]


def outside(cast: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pages that an email links to."""
    return [
        ("unsubscribe", cast["unsubscribe"]),
        ("unsubscribe unknown", "/unsubscribe/no-such-token/"),
    ]


def _toasts(visitor: Visitor) -> None:
    visitor.page.evaluate(TOASTS, SAID)
    visitor.page.locator(".toast").nth(2).wait_for()


def _no_address(visitor: Visitor) -> None:
    visitor.page.locator("[name=address]").fill("nobody")
    visitor.press("Add channel")
    visitor.page.locator("[aria-invalid]").first.wait_for()
