"""How much CPU time the largest request of each operation and tool takes.

Requests are made from the schemas (largest.py), so a new operation or tool is measured as soon as it
is registered. `make attacks` measures them all, `make test-slow` only those known to be expensive.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import psutil
import pytest
from django.db import connection, transaction
from django.test import override_settings

from memory.agents.tools.registry import REGISTRY, call_tool, schema_of
from memory.api.frame import MAX_BODY, MAX_CONTENT_BODY
from memory.models import ReviewLevel, TopicFact, User
from memory.services.content import items as content_services
from memory.services.files.saving import save_file
from memory.services.notes.saving import write_note
from memory.services.observations.saving import Line, remember_lines
from research.api.joined import api
from research.mcp.server import MAX_BYTES
from research.models import Run
from research.services.facts.correcting import MAX_FACTS
from tests.api.cast import Program, problem
from tests.api.largest import (
    Schema,
    costly_fields,
    is_costly,
    request_for,
    text_of,
    unbounded,
)
from tests.api.test_every_route import OPERATIONS, SCOPE_OF, address
from tests.api.test_every_route import there as there  # a fixture
from tests.attacks.figures import Count
from tests.memory.tool_cast import AGENT, caller
from tests.research.factories import make_fact

# Seconds of processor time, of this process and its Postgres backend together. On a crowded machine
# (shared caches, two threads on one core) the same work takes longer, at most about twice.
PROMISED = 2.0
CROWDED = 2.0
MAX_QUERY = 7_000  # characters of a query
MAX_ARGUMENT = 1_000_000  # characters of a tool's argument
SENTENCE = "Version 18.1 repairs index corruption after a crash."  # of the report

# Sent by the owner's own program: agents are refused, or cannot set every field.
BY_A_PERSON = {
    "edit_note", "supersede_note", "edit_one_observation", "edit_topic", "make_topic", "treat_source", "say",
}  # fmt: skip
# By operation or tool, the fields for which every size is refused, so that no real work is measured.
# Each needs its reason here. Today there are none.
REFUSED: Mapping[str, set[str]] = {}
# What `make test-slow` measures too.
EXPENSIVE = {
    "remember_observations", "consolidate_session", "merge_notes", "store_content", "write_file",
}  # fmt: skip
EXPENSIVE_TOOLS = {"remember", "remember_fil", "consolidate"}

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.timeout(300)]

COMPONENTS: Mapping[str, Schema] = dict(api.get_openapi_schema()["components"]["schemas"])


def body_of(told: Mapping[str, Any]) -> Schema | None:
    content = told.get("requestBody", {}).get("content", {})
    return content["application/json"]["schema"] if content else None


def query_of(told: Mapping[str, Any]) -> Schema:
    fields = {one["name"]: one for one in told.get("parameters", []) if one["in"] == "query"}
    return {
        "type": "object",
        "properties": {name: one["schema"] for name, one in fields.items()},
        "required": [name for name, one in fields.items() if one.get("required")],
    }


SENT = {
    name: {"body": body_of(told), "query": query_of(told)}
    for name, (_method, _path, told) in OPERATIONS.items()
}
COSTLY = [name for name, sent in SENT.items() if is_costly(sent, COMPONENTS)]
TOOLS = [name for name, tool in REGISTRY.items() if is_costly(schema_of(tool.arguments), {})]


@pytest.fixture
def quiet() -> Iterator[None]:
    with override_settings(BEACON_API_REQUESTS_PER_MINUTE=10**9, BEACON_RUNS_PER_HOUR=10**6):
        yield


@pytest.fixture
def busy_alice(alice: User) -> User:
    """Alice, who already has long observations, and whose agents' writes aren't held."""
    ReviewLevel.objects.create(owner=alice, kind="default", level="accept")
    lines = [Line("finding", text_of(1_900, -number)) for number in range(40)]
    remember_lines(alice, lines, by=alice.actor)
    return alice


@pytest.fixture
def named(busy_alice: User, there: dict[str, Any]) -> dict[str, Any]:
    """The records that requests name, as many of each as fit in a list."""
    tags = [f"tag {number}" for number in range(50)]
    by = busy_alice.actor
    topic = Run.objects.get(pk=there["run_id"]).topic
    for _ in range(MAX_FACTS - 1):  # one is current already
        make_fact(topic, SENTENCE, state=TopicFact.State.RETIRED)
    there |= {
        "notes": [
            write_note(busy_alice, "log", text_of(3_200, number), tags=tags, by=AGENT).pk
            for number in range(20)
        ],
        "contents": [
            content_services.store(busy_alice, f"Item {number}", tags=tags, by=by).pk
            for number in range(100)
        ],
        "facts": [fact.pk for fact in TopicFact.objects.filter(topic=topic, text=SENTENCE)],
        "lines": [f"- Line {number:03} of the file." for number in range(100)],
        "path": "episodes/2026-11.md",
        "sentence": f"{SENTENCE} [1]",
    }
    month = "\n".join(["# November 2026", "", *there["lines"], ""])
    save_file(busy_alice, there["path"], month, by=AGENT)
    there["mine"] = there["notes"][0]
    return {name: str(one) if isinstance(one, UUID) else one for name, one in there.items()}


def allowed_seconds() -> float:
    """Return the promised seconds, or more if other processes use the CPUs."""
    crowded = os.getloadavg()[0] > (os.cpu_count() or 1)
    return PROMISED * CROWDED if crowded else PROMISED


def seconds_of(act: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `act`, and the CPU time of this process and its Postgres backend."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])
    postgres, here = backend.cpu_times(), time.process_time()
    given = act()
    here = time.process_time() - here
    later = backend.cpu_times()
    return given, here + later.user - postgres.user + later.system - postgres.system


def test_each_list_that_an_operation_or_a_tool_takes_has_a_limit() -> None:
    operations = {name: unbounded(sent, COMPONENTS) for name, sent in SENT.items()}
    tools = {name: unbounded(schema_of(tool.arguments), {}) for name, tool in REGISTRY.items()}

    assert {name: lists for name, lists in (operations | tools).items() if lists} == {}


def rooms(most: int) -> list[int]:
    """Return the sizes to try: smaller requests are rejected less often."""
    smaller = (8_000_000, 260_000, 190_000, 65_000, 12_000)
    return [int(most * 0.97), *(room for room in smaller if room < most)]


class Measured:
    """Sends the largest requests of one operation or tool, and undoes each."""

    def __init__(self, name: str, parts: Mapping[str, Schema], named: dict[str, Any]) -> None:
        self.name = name
        self.parts = parts
        self.named = named
        self.tried = self.refused = 0
        self.accepted: Any = None  # the last request that was
        self.slow: list[str] = []
        self.left: set[str] = set()  # fields that no accepted request held

    def measure(self, schema: Schema, most: int, act: Callable[[Any], tuple[bool, str]]) -> None:
        """Send all fields together, then each costly one by itself, smaller for as long as it's refused."""
        fields = costly_fields(self.name, schema, self.parts)
        for field in ["", *fields]:
            accepted = any(self._send(schema, field, room, act) for room in rooms(most))
            if field and not accepted:
                self.left.add(field)

    def _send(self, schema: Schema, field: str, room: int, act: Any) -> bool:
        value = request_for(self.name, schema, self.parts, self.named, field=field, room=room)
        if value == self.accepted:  # a request of one field is the largest one itself
            return True
        with transaction.atomic():
            (was_done, told), seconds = seconds_of(lambda: act(value))
            transaction.set_rollback(True)
        line = f"{self.name} {field or '(all)'}: {seconds:.2f} s, {len(json.dumps(value)):,} characters, {told}"
        print(line[:300])
        self.tried += 1
        self.refused += not was_done
        if was_done:
            self.accepted = value
        if seconds >= allowed_seconds():
            self.slow.append(line)
        return bool(was_done)

    def check(self, count: Count) -> None:
        """Record the counts. Fail for slow requests, and for unexpected results."""
        count("cost by size", self.tried, refused=self.refused, run=len(self.slow))
        assert self.slow == []
        assert self.left == REFUSED.get(self.name, set())


def measure_operation(name: str, owner: User, named: dict[str, Any], count: Count) -> None:
    method, path, _told = OPERATIONS[name]
    scope = "admin" if name in BY_A_PERSON else SCOPE_OF[name]
    program = Program(owner, scope)
    sessions = {"session_id": "x"} if name == "consolidate_session" else {}
    target = address(path, named | sessions)
    measured = Measured(name, COMPONENTS, named)

    def send(body: Any, query: str = "") -> tuple[bool, str]:
        answer = program.send(method, target + query, body, If_Match="*")
        assert answer.status_code < 500, answer.content[:300]
        return answer.status_code < 300, f"{answer.status_code} {answer.content[:200]!r}"

    query, body = SENT[name]["query"], SENT[name]["body"]
    if body:
        most = MAX_CONTENT_BODY if path == "/content" else MAX_BODY
        measured.measure(body, most, send)
    else:
        measured.measure(
            query, MAX_QUERY, lambda value: send(None, f"?{urlencode(value, doseq=True)}")
        )
    measured.check(count)


def measure_tool(name: str, owner: User, named: dict[str, Any], count: Count) -> None:
    measured = Measured(name, {}, named)

    def send(value: Any) -> tuple[bool, str]:
        result = call_tool(caller(owner), name, value)
        return not result.is_error, result.text[:200]

    most = MAX_BYTES if name == "store_in_memory" else MAX_ARGUMENT
    measured.measure(schema_of(REGISTRY[name].arguments), most, send)
    measured.check(count)


@pytest.mark.attacks
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", sorted(EXPENSIVE))
def test_no_request_known_to_be_expensive_takes_more_than_two_seconds_of_processor(
    name: str, busy_alice: User, named: dict[str, Any], count: Count
) -> None:
    measure_operation(name, busy_alice, named, count)


@pytest.mark.attacks
@pytest.mark.parametrize("name", sorted(EXPENSIVE_TOOLS))
def test_no_tool_call_known_to_be_expensive_takes_more_than_two_seconds_of_processor(
    name: str, busy_alice: User, named: dict[str, Any], count: Count
) -> None:
    measure_tool(name, busy_alice, named, count)


@pytest.mark.long
@pytest.mark.attacks
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", sorted(set(COSTLY) - EXPENSIVE))
def test_no_request_takes_more_than_two_seconds_of_processor(
    name: str, busy_alice: User, named: dict[str, Any], count: Count
) -> None:
    measure_operation(name, busy_alice, named, count)


@pytest.mark.long
@pytest.mark.attacks
@pytest.mark.parametrize("name", sorted(set(TOOLS) - EXPENSIVE_TOOLS))
def test_no_tool_call_takes_more_than_two_seconds_of_processor(
    name: str, busy_alice: User, named: dict[str, Any], count: Count
) -> None:
    measure_tool(name, busy_alice, named, count)


@pytest.mark.usefixtures("quiet")
def test_a_long_transcript_is_refused_with_a_reason_and_one_at_the_limit_is_quick(
    busy_alice: User,
) -> None:
    program = Program(busy_alice, "write")

    def consolidate(count: int, length: int) -> Any:
        turns = [{"role": "user", "content": text_of(length, number)} for number in range(count)]
        return program.post("/sessions/x/consolidate", {"messages": turns})

    refused, seconds = seconds_of(lambda: consolidate(900, 800))
    assert "at most 100 texts" in problem(refused, 422)["detail"]
    assert seconds < allowed_seconds()

    kept, seconds = seconds_of(lambda: consolidate(100, 1_990))
    assert len(kept.json()["new"]) == 100
    assert seconds < allowed_seconds()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "alphabet", ["abcdefghijklmnoprstuvwz", "漢字検索記憶観察東西南北春夏秋冬山川空海"]
)
def test_a_transcript_of_messages_that_have_nothing_in_common_is_quick(
    alphabet: str, busy_alice: User
) -> None:
    """Each message is compared with 100 older ones, because no two of the batch are alike."""
    chance = random.Random(1)

    def text() -> str:
        words = ["We decided that"]
        while sum(map(len, words)) + len(words) < 1_960:
            if chance.random() < 0.3:
                words.append(f"topic{chance.randrange(40)}")
            else:
                words.append("".join(chance.choices(alphabet, k=chance.randint(4, 8))))
        return " ".join(words)

    older = [Line("finding", text()) for _ in range(100)]
    remember_lines(busy_alice, older, by=busy_alice.actor)
    program = Program(busy_alice, "write")
    turns = [{"role": "user", "content": text()} for _ in range(100)]

    kept, seconds = seconds_of(lambda: program.post("/sessions/x/consolidate", {"messages": turns}))

    assert len(kept.json()["new"]) == 100
    assert seconds < allowed_seconds()
