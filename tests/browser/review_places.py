"""The checked states of Review: name, path, act, who."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states of a person for whom something waits."""
    return [
        ("inbox", "/inbox/", None),
        ("review notes", "/inbox/?show=proposal&type=note", None),
        ("review rejected", "/inbox/?state=rejected", None),
        ("review accepted", "/inbox/?state=accepted", None),
        ("review proposal", cast["proposal"], None),
        ("review proposal edited", cast["proposal"] + "?edit=1", None),
        ("review proposal rejected", cast["proposal_rejected"], None),
        ("review conflict", cast["proposal_conflict"], _conflict),
        ("permissions", "/agents/permissions/", None),
        ("agent folders", "/agents/folders/", None),
        ("agent file", "/files/folders/claude/CLAUDE.md/", None),
        ("quarantine", "/inbox/?show=quarantine", None),
        ("refused sources", "/review/refused/", None),
        ("ratings", "/review/ratings/", None),
        ("never again", cast["never_again"], None),
        ("conflicts", "/inbox/?show=conflict", None),
        ("conflicts resolved", "/inbox/?state=resolved", None),
        ("conflict", cast["conflict"], None),
        ("conflict merge", cast["conflict"] + "?merge=1", None),
        ("conflict resolved", cast["conflict_resolved"], None),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person for whom nothing waits."""
    return [
        ("inbox empty", "/inbox/"),
        ("ratings empty", "/review/ratings/"),
        ("agent folders empty", "/agents/folders/"),
        ("review none expired", "/inbox/?state=expired"),
        ("conflicts empty", "/inbox/?show=conflict"),
    ]


def _conflict(visitor: Visitor) -> None:
    visitor.page.locator(".merge-hunk").first.wait_for()
