"""URLs for many records at once."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from django.urls import get_script_prefix, reverse

_NOBODY = UUID(int=0)


def address(name: str, key: Any, *before: str) -> str:
    """Return the URL of `name` for a record, as `reverse` does, but from a cached pattern.

    Calling `reverse` for each of 200 records took a fifth of the time of a page.
    """
    return _address_of_nobody(get_script_prefix(), name, before).replace(str(_NOBODY), str(key))


@cache
def _address_of_nobody(_prefix: str, name: str, before: tuple[str, ...]) -> str:
    return reverse(name, args=[*before, _NOBODY])
