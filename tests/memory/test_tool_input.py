"""Whatever a model writes as arguments, a tool answers: it never fails, and nothing escapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beacon_site.text.cleaning import clean
from memory.agents.tools.registry import REGISTRY, call_tool, schema_of
from memory.agents.tools.types import ToolResult
from memory.models import MemoryFile, Note
from tests.memory.tool_cast import caller

ODD = st.sampled_from(
    ["\x00", "\ud800", "facts/user.md", "episodes/2026-13.md", "../facts/user.md", "kind:", "()|&!:*",
     "' OR 1=1 --", "%_\\", "\u202e", "🙂" * 300, "-", '"', "topic:\x00", "a" * 3_000, ""]
)  # fmt: skip
TEXTS = ODD | st.text(max_size=40)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Arguments of the right type and any value, so that they reach what carries the tool out."""
    kind = schema.get("type")
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | TEXTS
    if kind == "string":
        return TEXTS
    if kind == "integer":
        return st.integers(min_value=-1, max_value=10**12)
    if kind == "number":
        return st.floats()
    if kind == "boolean":
        return st.booleans()
    if kind == "array":
        return st.lists(fitting(schema["items"]), max_size=3)
    needed = set(schema.get("required", []))
    parts = {key: fitting(one) for key, one in schema.get("properties", {}).items()}
    return st.fixed_dictionaries(
        {key: parts[key] for key in parts if key in needed},
        optional={key: parts[key] for key in parts if key not in needed},
    )


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_no_arguments_make_a_tool_fail(alice: Any, name: str):
    owner, told = alice, schema_of(REGISTRY[name].arguments)

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.dictionaries(TEXTS, ANY, max_size=4) | fitting({**told, "type": "object"}))
    @example({"_unparsed": "{"})
    def calls(arguments: dict[str, Any]) -> None:
        answer = call_tool(caller(owner), name, arguments)
        assert isinstance(answer, ToolResult)
        assert answer.text or name == "memory_read" or name.startswith("scratchpad")
        assert not answer.is_error or answer.data["error"]
        told = answer.text + json.dumps(answer.data, ensure_ascii=False)
        assert clean(told) == (told, False)

    calls()
    allowed = {"facts/user.md", "facts/memory.md"}
    paths = set(MemoryFile.objects.for_user(owner).values_list("path", flat=True)) - allowed
    assert all(path.startswith("episodes/") for path in paths)
    assert Note.objects.for_user(owner).filter(kind="soul").count() == 1


def test_an_argument_that_is_far_too_long_is_refused_with_the_limit(alice: Any):
    answer = call_tool(caller(alice), "retrieve", {"id": "x" * 1_000_001})

    assert answer.is_error
    assert "at most 1,000,000 characters, but this one has 1,000,001" in answer.text
