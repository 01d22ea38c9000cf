"""What the log must not hold."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from django.test import Client

from memory.models import Invitation


@pytest.fixture
def log() -> Any:
    stream = io.StringIO()
    root = logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(root.handlers[0].formatter)
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)  # of a server; a command's log holds warnings alone
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.requirement("R236")
def test_the_token_of_a_one_time_link_stands_in_no_log(db: None, client: Client, log: io.StringIO):
    _invitation, token = Invitation.give_out(by=None, is_first=True)

    client.get(f"/first-account/{token}/")

    assert "/first-account/[token]/" in log.getvalue()
    assert token not in log.getvalue()


@pytest.mark.requirement("R236")
def test_no_line_of_django_or_of_a_failure_holds_the_token(db: None, log: io.StringIO):
    _invitation, token = Invitation.give_out(by=None, is_first=True)
    Client(enforce_csrf_checks=True).post(f"/first-account/{token}/")
    try:
        raise ValueError(f"no page at /invitation/{token}/?next=1")
    except ValueError:
        logging.getLogger("django.request").exception("failed at %s", f"/invitation/{token}")

    assert "CSRF cookie not set.): /first-account/[token]/" in log.getvalue()
    assert "no page at /invitation/[token]/?next=1" in log.getvalue()
    assert token not in log.getvalue()


def test_health_probes_fill_no_log(db: None, client: Client, log: io.StringIO):
    client.get("/livez")
    client.get("/readyz")

    assert log.getvalue() == ""


def test_a_made_up_host_fills_no_log_with_tracebacks(db: None, client: Client, log: io.StringIO):
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400

    assert "Traceback" not in log.getvalue()
