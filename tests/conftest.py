"""The fixed cast.  The servers are started by tests/servers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client


def _user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(
        username=name, email=f"{name}@example.org", password=f"{name}-horse-battery", **more
    )


@pytest.fixture
def alice(db: None) -> Any:
    """The owner of what a test makes."""
    return _user("alice")


@pytest.fixture
def bob(db: None) -> Any:
    """Another signed-in person, who may not."""
    return _user("bob")


@pytest.fixture
def admin(db: None) -> Any:
    """A staff member with all rights."""
    return _user("admin", is_staff=True, is_superuser=True)


@pytest.fixture
def client_of() -> Callable[[Any], Client]:
    """Return a function: a user in, a client signed in as that user out."""

    def signed_in(user: Any) -> Client:
        client = Client()
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return signed_in
