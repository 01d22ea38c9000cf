"""Find and use the Undo that a page offers."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.urls import reverse


def undo_in(page: Any) -> str:
    """Return the address of the Undo in the page's newest toast."""
    html = page if isinstance(page, str) else page.content.decode()
    offered = re.findall(r'action="(/undo/[0-9a-f-]{36}/)"', html)
    assert offered, "no Undo is offered"
    return str(offered[-1])


def undone(browser: Client, page: Any) -> Any:
    """Click Undo in the page's newest toast, and return the page that follows."""
    return browser.post(undo_in(page), follow=True)


def undo_of(act: str, key: object) -> str:
    """Return the address that undoes an act which is stored in a row of its own."""
    return reverse("memory:undo-of", args=[act, key])
