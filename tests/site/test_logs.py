"""The contents of log lines, and what they never contain."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from django.db import IntegrityError, transaction
from django.test import Client
from honcho.printer import Message
from pydantic import BaseModel, ValidationError

from beacon_site import logs
from beacon_site.launcher.command import JsonPrinter
from beacon_site.net.errors import ProviderError
from beacon_site.text import redaction
from beacon_site.text.redaction import redact_line
from memory.models import Connection, Invitation, Note, User
from research.services.runs.context import run_context
from tests.api.cast import Program


@pytest.fixture
def log() -> Any:
    stream = io.StringIO()
    root = logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(root.handlers[0].formatter)
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)  # of a server; a command's log only holds warnings
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.requirement("R236")
def test_the_token_of_a_one_time_link_is_in_no_log(db: None, client: Client, log: io.StringIO):
    _invitation, token = Invitation.create_with_token(by=None, is_first=True)

    client.get(f"/first-account/{token}/")

    assert "GET /first-account/<token>/" in log.getvalue()
    assert token not in log.getvalue()


@pytest.mark.requirement("R236")
def test_no_line_of_django_or_of_a_failure_holds_the_token(db: None, log: io.StringIO):
    _invitation, token = Invitation.create_with_token(by=None, is_first=True)
    Client(enforce_csrf_checks=True).post(f"/first-account/{token}/")
    try:
        raise ValueError(f"no page at /invitation/{token}/?next=1")
    except ValueError:
        logging.getLogger("django.request").exception("failed at %s", f"/invitation/{token}")

    assert "CSRF cookie not set.): /first-account/<token>/" in log.getvalue()
    assert "no page at /invitation/[token]/?[left out]" in log.getvalue()
    assert token not in log.getvalue()


def test_health_probes_fill_no_log(db: None, client: Client, log: io.StringIO):
    client.get("/livez")
    client.get("/readyz")

    assert log.getvalue() == ""


def test_a_made_up_host_fills_no_log_with_tracebacks(db: None, client: Client, log: io.StringIO):
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400

    assert "Traceback" not in log.getvalue()


@pytest.fixture
def objects(log: io.StringIO) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that gives the lines as the JSON that they are."""
    made = logs.formatter(logs.JSON, "web")
    form = made.pop("()")(**made)
    logging.getLogger().handlers[-1].setFormatter(form)
    return lambda: [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_request_is_one_line_by_its_route_without_what_was_looked_for(
    alice: User, client_of: Callable[[User], Client], objects: Callable[[], list[dict[str, Any]]]
) -> None:
    client_of(alice).get("/memory/?q=the+diagnosis+of+a+friend")
    client_of(alice).get("/topics/the-diagnosis-of-a-friend/")

    first, second = objects()
    assert (first["request"], first["code"], first["process"]) == ("GET /memory/", 200, "web")
    assert (second["request"], second["code"]) == ("GET /topics/<slug>/", 404)
    assert first["ms"] >= 0 and second["level"] == "warning"
    assert "diagnosis" not in str(objects())


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("0af7651916cd43dd8448eb211c80319c", True),
        ("proxy-1.2_3", True),
        ("short", False),
        ("x" * 65, False),
        ("two words", False),
        ('"},{"event":"forged', False),
        ("", False),
    ],
)
def test_a_requests_number_is_taken_if_it_is_one_and_given_back(
    db: None, client: Client, given: str, is_taken: bool
) -> None:
    answer = client.get("/livez", headers={"X-Request-ID": given})

    assert (answer["X-Request-ID"] == given) is is_taken
    assert len(answer["X-Request-ID"]) >= 8


def test_each_line_of_a_request_bears_its_number_and_no_later_one_does(
    alice: User, objects: Callable[[], list[dict[str, Any]]]
) -> None:
    wrong = {"username": "alice", "password": "wrong-horse-battery"}
    Client().post("/sign-in/", wrong, headers={"X-Request-ID": "number-of-a-try"})
    structlog.get_logger("later").info("something else")

    *of_it, later = objects()
    assert {line["request_id"] for line in of_it} == {"number-of-a-try"}
    assert [line["event"] for line in of_it] == ["sign-in failed", "request_finished"]
    assert "request_id" not in later


def test_what_was_typed_as_a_username_is_in_no_log(alice: User, log: io.StringIO) -> None:
    for _try in range(6):
        Client().post("/sign-in/", {"username": "hunter2hunter2", "password": "wrong"})

    assert "sign-in blocked after too many failures" in log.getvalue()
    assert "hunter2" not in log.getvalue()


def test_a_program_is_named_by_the_number_of_its_token(
    alice: User, objects: Callable[[], list[dict[str, Any]]]
) -> None:
    program = Program(alice, "read")
    program.get("/recall?q=the+diagnosis")

    (line,) = objects()
    assert (line["request"], line["token"]) == ("GET /api/v1/recall", program.token.pk)
    assert (line["user_id"], "diagnosis" in str(line)) == (alice.pk, False)


def test_threads_of_a_run_log_with_its_ids(objects: Callable[[], list[dict[str, Any]]]) -> None:
    say = structlog.get_logger("thread").info
    with structlog.contextvars.bound_contextvars(run=7, task_id="t"):
        list(run_context.outcomes([lambda: say("asked")] * 2, 2, lambda: True))

    assert [(line["run"], line["task_id"]) for line in objects()] == [(7, "t"), (7, "t")]


# --- secrets --------------------------------------------------------------------------------------

PLANTED = "planted-secret-0123456789"


@pytest.mark.requirement("R236")
@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {PLANTED}",
        f"{{'authorization': 'basic {PLANTED}'}}",
        f"connecting to postgres://beacon:{PLANTED}@db.example:5432/beacon",
        f"Error handling request GET /memory/?q={PLANTED}",
        f"failed at https://api.example/search?engine=google&api_key={PLANTED} (401)",
        f"cookie sessionid={PLANTED}; csrftoken={PLANTED}",
        f"__Host-sessionid: '{PLANTED}'",
        f"sk-{PLANTED} was refused",
        f"bcn_{PLANTED}",
        f"/shared/{PLANTED}/ and %2Funsubscribe%2F{PLANTED}",
    ],
)
def test_no_line_shows_what_looks_like_a_secret(line: str) -> None:
    assert PLANTED not in redact_line(line)
    assert PLANTED not in redact_line(json.dumps({"event": line}))


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("secret", [PLANTED, 'with "quotes" and \\', "mit-Ümlaut-ß", "a/b+c=d&e f"])
def test_a_key_that_was_opened_here_is_in_no_line_in_any_way_of_writing(
    db: None, log: io.StringIO, objects: Callable[[], list[dict[str, Any]]], secret: str
) -> None:
    row = Connection(kind="search", name="tavily")
    row.set_secret(secret)
    assert row.reveal_secret() == secret

    logging.getLogger("library").warning("asked with %s", secret)
    structlog.get_logger("ours").warning("asked", key=secret, error=ProviderError(f"no: {secret}"))

    assert [line["event"] for line in objects()] == ["asked with [secret]", "asked"]
    assert json.dumps(secret)[1:-1] not in log.getvalue()


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("name", ["SECRET_KEY", "OPENAI_API_KEY", "EMAIL_HOST_PASSWORD"])
def test_what_the_settings_hold_is_in_no_line(settings: Any, name: str) -> None:
    setattr(settings, name, PLANTED)

    assert redact_line(f"it is {PLANTED}!") == "it is [secret]!"


def test_only_so_many_opened_keys_are_kept_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "MAX", 3)
    monkeypatch.setattr(redaction, "_unsealed", {})
    redaction.remember(*(f"secret-number-{n}" for n in range(9)), "short")

    assert redact_line("secret-number-8 short") == "[secret] short"
    assert redact_line("secret-number-1") == "secret-number-1"


def test_an_error_of_the_database_shows_no_row(alice: User, log: io.StringIO) -> None:
    words = "the diagnosis\n\nof a friend"  # not in the line of code that a traceback shows
    try:
        with transaction.atomic():
            Note.objects.create(owner=alice, content=words, kind=None)
    except IntegrityError as exc:
        logging.getLogger("library").exception("not stored")
        structlog.get_logger("ours").exception("not stored", error=str(exc))

    assert log.getvalue().count("null value in column") >= 2
    assert "Traceback" in log.getvalue()
    assert "diagnosis" not in log.getvalue() and "of a friend" not in log.getvalue()


def test_a_value_that_did_not_fit_is_not_shown(log: io.StringIO) -> None:
    class Shape(BaseModel):
        number: int

    with pytest.raises(ValidationError) as refused:
        Shape.model_validate({"number": "the diagnosis"})
    structlog.get_logger("ours").warning("no shape", why=str(refused.value))

    assert "input_value=[left out], input_type=str" in log.getvalue()


# --- make up, in JSON -----------------------------------------------------------------------------


def _printed(data: bytes | str, name: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    JsonPrinter(out).write(Message("line", data, moment, name, None))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_make_up_prints_an_object_a_line_anyone_who_wrote_it() -> None:
    line = b'{"event": "asked", "process": "worker"}\nSegmentation fault \xff\n\n'

    asked, fault = _printed(line, "worker")
    assert asked == {"event": "asked", "process": "worker"}
    assert (fault["event"], fault["process"]) == ("Segmentation fault \ufffd", "worker")


def test_make_up_prints_the_first_link_and_masks_it_where_a_process_prints_it() -> None:
    said = "Create your admin account (one-time link): http://127.0.0.1:8000/first-account/abc-def/"

    assert _printed(said, "beacon")[0]["event"] == said
    assert _printed(said, "web")[0]["event"].endswith("/first-account/[token]/")
