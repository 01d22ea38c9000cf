"""Every endpoint has a rule that says who has access.  A new one takes `admin` unless it names a scope."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from memory.api.auth import ADMIN, READ, WRITE
from research.api.joined import api
from tests.api.cast import PROBLEM, Program, problem

# What may be asked by POST without the right to write: it changes nothing.
READ_BY_POST = {"read_context"}
KINDS = {"uuid": "00000000-0000-4000-8000-000000000000", "integer": "1"}


def endpoints() -> list[tuple[str, str, str]]:
    """Return name, method and example URL of every endpoint of the document."""
    found = []
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, told in methods.items():
            address = path
            for one in told.get("parameters", []):
                if one["in"] == "path":
                    kind = one["schema"].get("format") or one["schema"].get("type", "")
                    address = address.replace(f"{{{one['name']}}}", KINDS.get(kind, "x"))
            found.append((told["operationId"], method.upper(), address))
    return found


ALL = endpoints()


def scopes_of() -> dict[str, Any]:
    """Return the scope that each endpoint requires."""
    operations = [
        operation
        for bound in api._get_bound_routers()
        for view in bound.path_operations.values()
        for operation in view.operations
    ]
    return {one.view_func.__name__: one.auth_callbacks for one in operations}


def test_the_addresses_are_examples_without_gaps() -> None:
    assert not [address for _name, _method, address in ALL if re.search(r"[{}]", address)]
    assert len(ALL) == len({name for name, _method, _address in ALL}) > 50


def test_without_a_token_every_endpoint_says_so(db: None) -> None:
    for name, method, address in ALL:
        answer = Client().generic(method, address)
        assert (answer.status_code, answer["Content-Type"]) == (401, PROBLEM), name


def test_each_endpoint_asks_for_one_scope_and_what_writes_never_for_read() -> None:
    for name, method, _address in ALL:
        (asked,) = scopes_of()[name]
        assert asked in (READ, WRITE, ADMIN), name
        is_reading = method == "GET" or name in READ_BY_POST
        assert asked is not (WRITE if is_reading else READ), name


def test_a_token_that_only_reads_writes_nowhere(alice: Any) -> None:
    reader = Program(alice, "read")
    for name, method, address in ALL:
        if method != "GET" and name not in READ_BY_POST:
            answer = reader.send(method, address.removeprefix("/api/v1"), {})
            assert "This token has: read" in problem(answer, 403)["detail"], name


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_the_documents_are_open_and_lie_on_this_server(db: None, path: str) -> None:
    answer = Client().get(f"/api/v1{path}")

    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    if path == "/docs":
        assert not re.search(rb"(?:src|href)=\"(?!/static/)", answer.content)


def test_every_endpoint_names_all_that_it_can_answer() -> None:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, told in methods.items():
            named = {int(status) for status in told["responses"]}
            assert {401, 403, 429, 503} <= named, (path, method)
            if method == "post":
                assert 409 in named, path
            for status, answer in told["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == [PROBLEM], (path, method, status)
