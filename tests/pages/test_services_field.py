"""The arrows that put a topic's services in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.test import Client

from memory.models import User
from tests.pages.topic_cast import text_of


def test_arrows_that_lead_nowhere_are_off_and_focus_goes_to_the_one_beside(
    alice: User, client_of: Callable[[Any], Client]
):
    typed = {"title": "Sailing", "services": ["wikipedia", "library"], "up": "library"}

    page = text_of(client_of(alice).post("/topics/new/", typed))

    off = re.findall(r'id="((?:up|down)-\w+)"[^>]* disabled ', page)
    assert off[0] == "up-library" and off[1].startswith("down-") and len(off) == 2
    assert re.search(r'id="down-library"[^>]* data-focus ', page)
