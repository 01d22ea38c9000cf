"""The list of reference pages, and a check that they match the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from research.reference import metrics, programs, rest, variables

PAGES: dict[str, Callable[[], str]] = {
    "settings.md": variables.written,
    "rest.md": rest.written,
    "mcp-tools.md": programs.tools,
    "commands.md": programs.commands,
    "metrics.md": metrics.written,
}


def stale(folder: Path) -> dict[str, str]:
    """Return the pages in `folder` that don't match the code, with their new text."""
    texts = {name: written() for name, written in PAGES.items()}
    return {name: text for name, text in texts.items() if _read(folder / name) != text}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
