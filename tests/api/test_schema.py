"""schemathesis on the OpenAPI document: no 5xx and no undocumented response for any input.

All of its checks, in this process, with a fixed seed; some of the requests reach records that are
there.  BEACON_SCHEMA_EXAMPLES=200 makes a longer run of it.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import override_settings
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.meta import TestPhase
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import negative_data_rejection

from memory.models import Note, User
from memory.services.content.items import store
from memory.services.notes import saving as notes
from memory.services.observations.saving import Line, remember_lines
from memory.services.review import proposals as review_services
from research.api.joined import api
from research.models import Run
from tests.api.cast import Program
from tests.attacks import figures as attacks
from tests.research import factories

FEW = 4
EXAMPLES = int(os.environ.get("BEACON_SCHEMA_EXAMPLES", FEW))
# A topic has so many fields that all their combinations take a minute: of what comes after the
# first requests to an address, every twentieth is sent unless a longer run was asked for.
FIRST, EVERY = 8, 20
# What a schema cannot say, such as that a domain is one, is 422; a version is asked for by 428.
REFUSED = ["400", "401", "403", "404", "405", "409", "412", "413", "415", "422", "428"]
ALSO_REFUSED = ["2xx", "401", "403", "404", "409", "412", "413", "422", "428"]

schema = schemathesis.openapi.from_dict(
    dict(api.get_openapi_schema()),
    config=schemathesis.Config.from_dict(
        {
            "seed": 11,
            "generation": {
                "max-examples": EXAMPLES,
                "deterministic": True,
                "no-shrink": True,
                "with-security-parameters": False,  # each request bears a token of ours
            },
            "checks": {
                "positive_data_acceptance": {"expected-statuses": ALSO_REFUSED},
                "negative_data_rejection": {"expected-statuses": REFUSED},
                "missing_required_header": {
                    "expected-statuses": ["401", "403", "404", "422", "428"]
                },
            },
        }
    ),
)
schema.app = get_wsgi_application()
OPERATIONS = {found.ok().label: found.ok() for found in schema.get_all_operations()}
THERE: dict[str, Any] = {}
SENT: Counter[str] = Counter()
LINES: dict[str, list[Any]] = {}  # the line of the test that runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.attacks,
    pytest.mark.timeout(600),
]


@pytest.fixture
def _django_db_helper() -> None:
    """Don't give each test a transaction, as pytest-django would: `programs` has one for all."""


@pytest.fixture(scope="module")
def programs(django_db_setup: None, django_db_blocker: Any) -> Iterator[list[Program]]:
    """Alice's client and an agent; their rows are created once and removed afterward."""
    limits = {"BEACON_API_REQUESTS_PER_MINUTE": 10**9, "BEACON_RUNS_PER_HOUR": 10**6}
    with django_db_blocker.unblock(), override_settings(**limits), transaction.atomic():
        alice = User.objects.create_user("alice")
        desk, console = Program(alice, "read", "write"), Program(alice, "admin", name="console")
        _make_what_is_there(alice, desk, console)
        with _one_connection():
            yield [console, desk]
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _line(record_property: Any) -> None:
    """Count this test's requests as attacks."""
    line = LINES["now"] = ["API: requests made from its document", 0, 0, 0, 0]
    record_property(attacks.NAME, line)


def _count(status: int) -> None:
    line = LINES["now"]
    line[1] += 1
    line[4 if status >= 500 else 2 if status >= 400 else 3] += 1


@contextmanager
def _one_connection() -> Iterator[None]:
    """Keep requests from closing the connection, because everything is in its transaction."""
    ends = (request_started, request_finished)
    for signal in ends:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in ends:
            signal.connect(close_old_connections)


def _make_what_is_there(alice: User, desk: Program, console: Program) -> None:
    """Create a row for each kind of URL."""
    topic = factories.make_topic(alice, "One")
    saved = factories.make_second_run(topic)
    failed = factories.make_run(topic, saved=False, status=Run.Status.FAILED)
    note = notes.write_note(alice, "log", "The backup runs on Sundays.", by=alice.actor)
    gone = notes.write_note(alice, "log", "Gone.", by=alice.actor)
    gone.trash(by=alice.actor)
    line = Line("finding", "Sulphide cells crack.")
    observation = remember_lines(alice, [line], by=alice.actor).observations[0]
    item = store(alice, "A page of text.\nIts second line.", by=alice.actor)
    proposal = review_services.hold(
        alice, "note", by=desk.token.agent.actor, source="agent:desk", before={},
        after={"kind": Note.Kind.LOG, "content": "Alice likes tea."}, why="", held="to be seen",
    )  # fmt: skip
    desk.put("/scratchpad/a%20key", {"value": "1"})
    THERE.update(
        slug="one", number=saved.number, run_id=failed.pk, note_id=str(note.pk),
        observation_id=str(observation.pk), item_id=str(item.pk), proposal_id=str(proposal.pk),
        path="facts/memory.md", key="a key", record_type="note", record_id=str(gone.pk),
        session_id=desk.post("/sessions", {}).json()["id"],
        memory_id=str(note.pk),
        snapshot_id=console.post("/content/snapshots", {"scope": "owner"}).json()["id"],
    )  # fmt: skip


def _number(case: Any) -> int:
    """Return a number that is always the same for the same request."""
    said = (case.method, case.path, case.path_parameters, case.query, case.body)
    return zlib.crc32(repr(said).encode(errors="replace"))


def _lead_to_what_is_there(case: Any) -> None:
    """Let every other well-formed request reach an existing row at its current version."""
    if case.meta is None or not case.meta.generation.mode.is_positive or _number(case) % 2:
        return
    for name in case.path_parameters or {}:
        case.path_parameters[name] = THERE.get(name, case.path_parameters[name])
    if "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*"


def _is_left_out(case: Any) -> bool:
    """Return whether the quick run skips a combination of fields."""
    is_combination = case.meta is not None and case.meta.phase.name == TestPhase.COVERAGE
    SENT[case.operation.label] += is_combination
    is_further = is_combination and SENT[case.operation.label] > FIRST
    return EXAMPLES <= FEW and is_further and bool(_number(case) % EVERY)


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_one_that_the_document_names(label: str, programs: list[Program]) -> None:
    # `schema.parametrize` would generate the requests while tests are collected, in each process.
    sends = build_operation_test(
        config=schema.config,
        operation=OPERATIONS[label],
        test_func=_is_answered_as_documented,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    sends(programs=programs)


def _is_answered_as_documented(case: Any, programs: list[Program]) -> None:
    if _is_left_out(case):
        return
    program = programs[_number(case) % 3 == 0]
    _lead_to_what_is_there(case)
    bearer = {"Authorization": f"Bearer {program.text}"}
    with transaction.atomic():  # each request finds what was there at first
        response = case.call(headers=bearer)
        _count(response.status_code)
        # What cannot be stored is taken out first, and said: then a text may be short enough.
        spared = [negative_data_rejection] if "beacon-cleaned" in response.headers else []
        case.validate_response(response, headers=bearer, excluded_checks=spared)
        transaction.set_rollback(True)
