"""How much processor time the largest request of each operation and tool takes.

Requests are made from the schemas: each list at its maxItems with texts as long as the schema and the
limit of a body allow. So a new operation or tool is measured as soon as it is registered.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
from django.db import connection
from django.test import override_settings

from memory.api.bodies import MOST_BODY, MOST_CONTENT_BODY
from memory.models import ReviewLevel, User
from memory.observing import Line, remember_lines
from memory.toolkit.registry import REGISTRY, call_tool, schema_of
from research.api.joined import api
from research.mcp.web import MOST_BYTES
from tests.api.cast import Program, problem
from tests.api.test_every_route import OPERATIONS, SCOPE_OF, address
from tests.api.test_every_route import there as there  # a fixture
from tests.memory.tool_cast import caller

# Seconds of processor time, of this process and its Postgres backend together. A crowded machine
# makes the same work take longer (shared caches, two threads on one core), at most about twice.
PROMISED = 2.0
CROWDED = 2.0
MOST_QUERY = 8_000  # bytes of an address
LARGE = 1_000  # characters of a text from which an operation is measured
WORDS = [f"{first}{last}" for first in ("cell", "market", "paper", "river", "stone", "valley")
         for last in ("s", "ing", "ed", "er", "ly", "ful", "less", "ness", "ment", "able")]  # fmt: skip
Schema = Mapping[str, Any]

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]


def text_of(length: int, number: int) -> str:
    """Return a text that shares its words with others, as those of one subject do."""
    chance = random.Random(number)
    said = "We decided that " if length > LARGE // 10 else ""
    while len(said) < length:
        said += f"{chance.choice(WORDS)} "
    return said[:length]


class Largest:
    """Makes the largest value of a schema that a number of bytes leaves room for."""

    def __init__(self, parts: Mapping[str, Schema], room: int) -> None:
        self.parts = parts
        self.room = room
        self.texts = 0

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema itself, without references and null."""
        if "$ref" in schema:
            return self.resolved(self.parts[schema["$ref"].rpartition("/")[2]])
        for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            if choice.get("type") != "null":
                return self.resolved({**schema, **choice, "anyOf": (), "allOf": ()})
        return schema

    def value(self, schema: Schema, room: int) -> Any:
        schema = self.resolved(schema)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [""])[0])
        kind = schema.get("type")
        if kind == "object":
            named = {name: self.resolved(one) for name, one in schema.get("properties", {}).items()}
            return self.fields(named, room)
        if kind == "array":
            most = schema["maxItems"]
            return [self.value(schema["items"], room // most) for _ in range(most)]
        if kind in ("integer", "number"):
            return schema.get("maximum", schema.get("minimum", 1))
        if kind == "boolean":
            return True
        if schema.get("format"):
            return {"uuid": "00000000-0000-4000-8000-000000000000"}.get(
                schema["format"], "2026-11-24T00:00:00Z"
            )
        self.texts += 1
        return text_of(max(1, min(schema.get("maxLength", room), room - 8)), self.texts)

    def fields(self, named: Mapping[str, Schema], room: int) -> dict[str, Any]:
        """Give lists and texts without a limit what the others leave."""
        small = {name: one for name, one in named.items() if one.get("maxLength", 10**9) < LARGE}
        large = {name: one for name, one in named.items() if name not in small}
        made = {name: self.value(one, LARGE) for name, one in small.items()}
        room -= len(json.dumps(made)) + 20 * len(large)
        share = room // max(1, len(large))
        return made | {name: self.value(one, share) for name, one in large.items()}


def inside(schema: Any, parts: Mapping[str, Schema]) -> Iterator[Schema]:
    """Yield each schema inside a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from inside(one, parts)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield from inside(parts[schema["$ref"].rpartition("/")[2]], parts)
        yield schema
        for one in schema.values():
            yield from inside(one, parts)


def is_costly(schema: Any, parts: Mapping[str, Schema]) -> bool:
    """Whether a list or a long text can be sent."""
    return any(
        one.get("type") == "array"
        or (one.get("type") == "string" and not one.get("enum") and not one.get("format")
            and one.get("maxLength", LARGE) >= LARGE)
        for one in inside(schema, parts)
    )  # fmt: skip


def unbounded(schema: Any, parts: Mapping[str, Schema]) -> list[Schema]:
    return [
        one for one in inside(schema, parts) if one.get("type") == "array" and "maxItems" not in one
    ]


COMPONENTS: Mapping[str, Schema] = dict(api.get_openapi_schema()["components"]["schemas"])


def body_of(told: Mapping[str, Any]) -> Schema | None:
    content = told.get("requestBody", {}).get("content", {})
    return content["application/json"]["schema"] if content else None


def query_of(told: Mapping[str, Any]) -> dict[str, Schema]:
    return {
        one["name"]: one["schema"] for one in told.get("parameters", []) if one["in"] == "query"
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
    """Alice, who has long observations already, and whose agents are not held."""
    ReviewLevel.objects.create(owner=alice, kind="default", level="accept")
    lines = [Line("finding", text_of(1_900, -number)) for number in range(40)]
    remember_lines(alice, lines, by=alice.actor)
    return alice


def seconds_of(act: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `act` gives, and the processor time of this process and its Postgres backend."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])
    postgres, here = backend.cpu_times(), time.process_time()
    given = act()
    here = time.process_time() - here
    later = backend.cpu_times()
    return given, here + later.user - postgres.user + later.system - postgres.system


@pytest.mark.parametrize("name", list(SENT))
def test_each_list_that_an_operation_takes_says_how_many_it_may_hold(name: str) -> None:
    assert unbounded(SENT[name], COMPONENTS) == []


@pytest.mark.parametrize("name", list(REGISTRY))
def test_each_list_that_a_tool_takes_says_how_many_it_may_hold(name: str) -> None:
    assert unbounded(schema_of(REGISTRY[name].arguments), {}) == []


def requests_of(schema: Schema, parts: Mapping[str, Schema], room: int) -> Iterator[Any]:
    """Yield the largest value with all fields, then one for each costly field with what it needs.

    Some fields exclude each other, and only what is not refused is carried out to its end.
    """
    largest = Largest(parts, room)
    schema = largest.resolved(schema)
    yield largest.value(schema, room)
    fields = {name: largest.resolved(one) for name, one in schema.get("properties", {}).items()}
    needed = set(schema.get("required", ())) | {"category"}
    for name, one in fields.items():
        if is_costly(one, parts):
            chosen = {key: value for key, value in fields.items() if key in needed | {name}}
            if name != "content" and "content" not in schema.get("required", ()):
                chosen.pop("category", None)
            yield largest.fields(chosen, room)


def rooms(most: int) -> list[int]:
    """Return how large a value is tried to be made: a smaller one is refused less often."""
    return [int(most * 0.97), *(room for room in (190_000, 60_000, 12_000) if room < most)]


def measured(act: Callable[[Any], tuple[bool, str]], schema: Schema, parts: Any, most: int) -> None:
    """Send each request, smaller ones as long as it is refused; fail for what takes too long."""
    for number in range(len(list(requests_of(schema, parts, LARGE)))):
        for room in rooms(most):
            value = list(requests_of(schema, parts, room))[number]
            (was_done, told), seconds = seconds_of(lambda value=value: act(value))
            print(f"{seconds:5.2f} s  {len(json.dumps(value)):>10,} bytes  {told[:110]}")
            assert seconds < PROMISED * CROWDED, told
            if was_done:
                break


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", COSTLY)
def test_no_request_takes_more_than_two_seconds_of_processor(
    name: str, busy_alice: User, there: dict[str, Any]
) -> None:
    method, path, _told = OPERATIONS[name]
    program = Program(busy_alice, SCOPE_OF[name])
    query, body = SENT[name]["query"], SENT[name]["body"]
    target = address(path, there)
    if query:
        asked = {one: Largest(COMPONENTS, 0).value(schema, 2_000) for one, schema in query.items()}
        asked.pop("cursor", None)
        target += "?" + urlencode(asked, doseq=True)[:MOST_QUERY]

    def send(value: Any) -> tuple[bool, str]:
        answer = program.send(method, target, value if body else None, If_Match="*")
        assert answer.status_code < 500, answer.content[:300]
        return answer.status_code < 300, f"{answer.status_code} {answer.content[:200]!r}"

    most = MOST_CONTENT_BODY if path == "/content" else MOST_BODY
    measured(send, body or {"type": "object"}, COMPONENTS, most)


@pytest.mark.parametrize("name", TOOLS)
def test_no_tool_call_takes_more_than_two_seconds_of_processor(name: str, busy_alice: User) -> None:
    schema = schema_of(REGISTRY[name].arguments)

    def send(value: Any) -> tuple[bool, str]:
        if "wait_seconds" in value:
            value["wait_seconds"] = 0
        result = call_tool(caller(busy_alice), name, value)
        return not result.is_error, result.text[:200]

    measured(send, schema, {}, MOST_BYTES)


@pytest.mark.usefixtures("quiet")
def test_a_long_transcript_is_refused_in_words_and_one_at_the_limit_is_quick(
    busy_alice: User,
) -> None:
    program = Program(busy_alice, "write")

    def consolidate(count: int, length: int) -> Any:
        turns = [{"role": "user", "content": text_of(length, number)} for number in range(count)]
        return program.post("/sessions/x/consolidate", {"messages": turns})

    refused, seconds = seconds_of(lambda: consolidate(900, 800))
    assert "at most 100 texts" in problem(refused, 422)["detail"]
    assert seconds < PROMISED * CROWDED

    kept, seconds = seconds_of(lambda: consolidate(100, 1_990))
    assert len(kept.json()["new"]) == 100
    assert seconds < PROMISED * CROWDED
