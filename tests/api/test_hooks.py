"""`/hooks` for programs such as n8n and Zapier: subscribe, list, unsubscribe."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from memory.models import User
from research.models import Channel
from research.services.notifications import sending
from tests.api.cast import Program, items, problem
from tests.research.factories import make_topic
from tests.research.notice_cast import body_in_style, saved_run

URL = "https://n8n.example.org/webhook/very-secret"


@pytest.mark.requirement("R341")
def test_a_program_subscribes_gets_signed_reports_and_unsubscribes(
    alice: User, httpserver: HTTPServer, settings: Any
) -> None:
    alice.is_staff = True  # only admins' webhooks can reach this machine
    alice.save()
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    httpserver.expect_request("/in", method="POST").respond_with_data("")
    program = Program(alice, "admin")
    made = program.post("/hooks", {"url": httpserver.url_for("/in"), "name": "n8n"}).json()

    [row] = body_in_style(saved_run(make_topic(alice), "A fact."))
    sending.deliver(row.pk)

    sent = httpserver.log[0][0]
    signed = f"{sent.headers['webhook-id']}.{sent.headers['webhook-timestamp']}.".encode()
    key = base64.b64decode(made["key"].removeprefix("whsec_"))
    digest = hmac.new(key, signed + sent.get_data(), hashlib.sha256).digest()
    assert sent.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert sent.json["type"] == "report.finished"

    assert program.delete(f"/hooks/{made['id']}").status_code == 204
    assert body_in_style(saved_run(make_topic(alice, "Another"), "A fact.")) == []
    problem(program.delete(f"/hooks/{made['id']}"), 404)


@pytest.mark.parametrize(
    ("events", "reports", "failures", "digest", "comments"),
    [
        (["report.finished"], "each", False, False, False),
        (["report.changed", "run.failed"], "changed", True, False, False),
        (["report.changed", "report.finished"], "each", False, False, False),
        (["digest.created"], "none", False, True, False),
        (["report.commented"], "none", False, False, True),
    ],
)
def test_the_events_decide_what_is_sent(
    person: Program, events: list[str], reports: str, failures: bool, digest: bool, comments: bool
) -> None:
    person.post("/hooks", {"url": URL, "events": events})

    made = Channel.objects.get()
    assert (made.reports, made.failures, made.digest) == (reports, failures, digest)
    assert made.comments == comments


def test_neither_the_path_nor_the_key_is_shown_again(person: Program) -> None:
    key = person.post("/hooks", {"url": URL}).json()["key"]

    [listed] = items(person.get("/hooks"))
    assert listed["url"] == "https://n8n.example.org/…"
    assert key.startswith("whsec_") and key not in str(listed)


def test_only_a_token_that_can_decide_subscribes(alice: User, person: Program, bob: User) -> None:
    problem(Program(alice, "read", "write", name="agent").post("/hooks", {"url": URL}), 403)
    made = person.post("/hooks", {"url": URL}).json()
    other = Program(bob, "admin", name="bobs")

    assert items(other.get("/hooks")) == []
    problem(other.delete(f"/hooks/{made['id']}"), 404)
    assert Channel.objects.kept().count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {"url": "http://127.0.0.1:8000/in"},
        {"url": "https://10.0.0.1/in"},
        {"url": "https://metadata/in"},
        {"url": "ftp://example.org/in"},
        {"url": URL, "events": []},
        {"url": URL, "events": ["everything"]},
        {},
    ],
)
def test_bad_subscriptions_are_explained(person: Program, body: dict[str, Any]) -> None:
    assert problem(person.post("/hooks", body), 422)["errors"]
    assert not Channel.objects.exists()
