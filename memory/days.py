"""A day as an address names it."""

from __future__ import annotations

from datetime import date

from django.utils.dateparse import parse_date


def day_of(text: str) -> date | None:
    """Return the day that `text` (`2026-11-22`) names; None for what is none, such as the 31st of June."""
    try:
        return parse_date(text)
    except ValueError:
        return None
