"""Cells of a CSV file that a spreadsheet opens without carrying anything out."""

from __future__ import annotations

from typing import Any

# A cell that begins with one of these is a formula to a spreadsheet (OWASP, "CSV Injection").
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: Any) -> str:
    """Return a value as text; what a spreadsheet would take for a formula gets a quote before."""
    text = "" if value is None else str(value)
    return "'" + text if text.lstrip(" ").startswith(FORMULA) else text
