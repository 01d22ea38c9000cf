"""Every URL has a rule that says who has access, and how.  A new one needs a sign-in unless listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from memory.models import User

PUBLIC = {
    "livez",
    "readyz",
    "memory:manifest",
    "memory:sign-in",
    "memory:sign-in-code",
    "memory:sign-in-passkey",
    "memory:single-sign-on",
    "memory:single-sign-on-done",
    "memory:sign-out",  # signing out twice does no harm
    "memory:welcome",
    "memory:first-account",
    "memory:invitation",
    "memory:oauth-server",  # metadata: the same for everyone
    "memory:oauth-resource",
    "memory:oauth-resource-mcp",
    "memory:oauth-token",  # apps, which have no cookies: tests/pages/test_oauth.py
    "memory:oauth-register",
    "memory:oauth-revoke",
    "research:chat-completions",  # a token with the scope: tests/api/test_chat_completions.py
    "research:chat-models",
    "research:shared-report",  # anyone with the link
    "research:feed",  # anyone with the address
    "research:unsubscribe",  # anyone with the email
    "research:metrics",  # this machine, or a token of staff: tests/pages/test_metrics.py
}
STAFF = {
    "memory:people",
    "memory:person-disable",
    "memory:person-code-off",
    "memory:person-delete",
    "memory:person-enable",
    "memory:invitation-revoke",
    "memory:backups",
    "memory:backup-now",
    "memory:backup-delete",
    "memory:health",
    "memory:connections",
    "memory:connection",
    "memory:connection-test",
    "memory:connection-models",
    "memory:feed-test",
    "research:stored-emails",
}
# Routes that may be POSTed without a CSRF token.
NO_TOKEN_NEEDED = {
    "research:unsubscribe",  # mail programs do (RFC 8058)
    "memory:oauth-token",  # apps do, and cookies aren't read there
    "memory:oauth-register",
    "memory:oauth-revoke",
    "research:chat-completions",  # programs do, and cookies aren't read there
    "research:chat-models",
}
EXAMPLES: dict[str, Any] = {
    "int": 1,
    "str": "x",
    "slug": "x",
    "path": "x",
    "filepath": "facts/user.md",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def routes(resolver: Any = None, space: str = "") -> Iterator[tuple[str, str, URLPattern]]:
    """Yield name, example address and pattern of every route outside the admin and the API."""
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLResolver):
            if entry.namespace not in ("admin", "api-1.0.0"):
                yield from routes(entry, entry.namespace or space)
        else:
            name = f"{space}:{entry.name}" if space else str(entry.name)
            yield name, _address(name, entry), entry


def _address(name: str, entry: URLPattern) -> str:
    converters = entry.pattern.converters
    example = {
        key: EXAMPLES.get(type(converter).__name__.removesuffix("Converter").lower(), "x")
        for key, converter in converters.items()
    }
    if not entry.name:
        pytest.fail(f"the route {entry.pattern} has no name, so no page can link to it")
    return reverse(name, kwargs=example)


# Several tests go through everything: on a crowded machine one takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ALL = [(name, address) for name, address, _entry in routes()]
GUARDED = [(name, address) for name, address in ALL if name not in PUBLIC]


def test_the_lists_name_routes_that_exist() -> None:
    assert {*PUBLIC, *STAFF} <= {name for name, _address in ALL}


def test_every_address_has_its_own_name() -> None:
    names = [name for name, _address in ALL]
    assert sorted(names) == sorted(set(names))


# Each of these goes through all addresses: five hundred tests of one took half a minute.


def test_a_stranger_is_sent_to_sign_in_by_every_method(db: None) -> None:
    let_in = {name: said for name, address in GUARDED if (said := _lets_in(address))}

    assert let_in == {}


def _lets_in(address: str) -> list[str]:
    """Return a stranger's response, unless it's a sign-in, a 404 or a 405."""
    answers: list[Any] = [Client().get(address), Client().post(address)]
    said = [f"{a.status_code} {a.headers.get('Location', '')}".strip() for a in answers]
    if said == ["405", "405"]:
        return said
    return [one for one in said if not one.startswith(("302 /sign-in/?next=", "404", "405"))]


def test_a_post_without_its_token_is_refused(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")

    answers = {name: browser.post(address).status_code for name, address in ALL}

    assert browser.get("/settings/profile/").status_code == 200, "she was signed in until the end"
    # Where only GET is answered, that may be said before the token is checked.
    taken = {name for name, status in answers.items() if status not in (403, 405)}
    assert taken <= NO_TOKEN_NEEDED


def test_for_who_isnt_an_admin_a_staff_page_does_not_exist(
    alice: User, client_of: Callable[[User], Client]
) -> None:
    browser, addresses = client_of(alice), dict(ALL)

    answers = {
        name: {browser.get(addresses[name]).status_code, browser.post(addresses[name]).status_code}
        for name in STAFF
    }
    assert {name: found for name, found in answers.items() if not found <= {404, 405}} == {}
