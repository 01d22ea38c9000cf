"""The checked states of a file's history: history, compare, blame, locks, timeline, condense."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.browser.visitor import Visitor

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return name, path and act of each."""
    past = cast["file past"]
    return [
        ("file history", f"{past}history/", None),
        ("file compare", f"{past}compare/?from=3&to=6", None),
        ("file compare sides", f"{past}compare/?from=3&to=6&view=side", None),
        ("file compare alike", f"{past}compare/?from=6&to=6", None),
        ("file restored", f"{past}compare/?from=1&to=6", _restored),
        ("file blame", f"{past}blame/", None),
        ("file blame older", f"{past}blame/?version=4", None),
        ("file locks", f"{past}lock/", _locked),
        ("file timeline", f"{past}timeline/", None),
        ("file condense", f"{past}condense/", None),
        ("file condense waiting", f"{past}condense/", _waiting),
        ("file condense nothing", "/files/facts/memory.md/condense/", None),
    ]


def _restored(visitor: Visitor) -> None:
    """Restore the first version and undo that, so the next visit finds the same state."""
    visitor.press("Restore version 1")
    visitor.page.get_by_role("button", name="Undo").wait_for()
    visitor.press("Undo")
    visitor.page.get_by_text("Change undone.").wait_for()


def _locked(visitor: Visitor) -> None:
    """Lock a section and unlock it again."""
    visitor.page.get_by_role("button", name="Lock Battery cells").click()
    visitor.page.get_by_role("button", name="Unlock Battery cells").click()
    visitor.page.get_by_role("button", name="Lock Battery cells").wait_for()


def _waiting(visitor: Visitor) -> None:
    """Look as a person does who has just asked a model."""
    version = visitor.page.locator(".tabs .count").inner_text()
    visitor.goto(f"{visitor.page.url}?asked={version}.0.{int(time.time())}")
