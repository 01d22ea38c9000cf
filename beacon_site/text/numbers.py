"""Numbers as people of the active language write them."""

from __future__ import annotations

from django.utils.formats import number_format


def grouped(number: int) -> str:
    """Return 12345 as "12,345", or in German as "12.345"."""
    return number_format(number, force_grouping=True)
