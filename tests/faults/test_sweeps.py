"""Every address at once, with the figure: each is tested by itself in tests/pages/test_urls.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.conftest import Say
from tests.pages.test_urls import ALL, GUARDED, NO_TOKEN_NEEDED

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.django_db]


def test_no_address_is_open_to_a_stranger(say: Say):
    stranger = Client()
    let_in = [
        name
        for name, address in GUARDED
        for answer in (stranger.get(address), stranger.post(address))
        if answer.status_code not in (302, 404, 405)
        or (answer.status_code == 302 and not answer.headers["Location"].startswith("/sign-in/"))
    ]
    say(
        "every page as a stranger, by GET and by POST",
        "sent to sign in",
        f"{len(GUARDED)} URLs, {len(let_in)} accepted",
    )

    assert let_in == []


def test_no_form_is_taken_without_its_token(
    alice: Any, client_of: Callable[[Any], Client], say: Say
):
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = client_of(alice).cookies
    asked = [(name, address) for name, address in ALL if name not in NO_TOKEN_NEEDED]
    taken = [name for name, address in asked if browser.post(address).status_code not in (403, 405)]
    say(
        "every page by POST without the token of its form",
        "403, or no POST at all",
        f"{len(asked)} URLs, {len(taken)} accepted",
    )

    assert taken == []
