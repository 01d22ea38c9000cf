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
    # The services that can be used are one list, and those that lack a key or URL another.
    assert off[0] == "up-library"
    assert [one.partition("-")[0] for one in off] == ["up", "down", "up", "down"]
    assert re.search(r'id="down-library"[^>]* data-focus ', page)
