"""Numbers in texts: as people of the active language read them, and as URLs and forms name them."""

from __future__ import annotations

from django.utils.formats import number_format


def grouped(number: int) -> str:
    """Return 12345 as "12,345", or in German as "12.345"."""
    return number_format(number, force_grouping=True)


def number_of(text: str) -> int | None:
    """Return the whole number that a text is, of at most nine digits, or None."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number else None
