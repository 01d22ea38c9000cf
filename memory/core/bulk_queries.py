"""Addresses of many records at once, which are alike but for their ids."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from django.urls import get_script_prefix, reverse

_NOBODY = UUID(int=0)


def address(name: str, key: Any, *before: str) -> str:
    """Return the address of `name` for a record, as `reverse` does.

    Made each by Django's own means, two hundred of them took a fifth of the time of a page, and ten
    a tenth of a recall's.
    """
    return _address_of_nobody(get_script_prefix(), name, before).replace(str(_NOBODY), str(key))


@cache
def _address_of_nobody(_prefix: str, name: str, before: tuple[str, ...]) -> str:
    return reverse(name, args=[*before, _NOBODY])
