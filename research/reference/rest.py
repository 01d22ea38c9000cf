"""The reference of the REST API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from research.api.joined import api
from research.reference import markdown

Schema = Mapping[str, Any]
PREFIX = "/api/v1"
# The page describes these once before the calls, because they are the same everywhere.
USUAL = frozenset({"limit", "cursor", "If-Match", "Idempotency-Key"})


def written() -> str:
    """Return the page."""
    document: Schema = api.get_openapi_schema()
    shapes = document["components"]["schemas"]
    by_tag: dict[str, list[str]] = {}
    bodies: set[str] = set()
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            text = "\n\n".join(_call(method, path, call, shapes))
            bodies.add(_body(call))
            by_tag.setdefault(call["tags"][0], []).append(text)
    return markdown.page(
        "REST",
        f"Every path begins with `{PREFIX}`. [How to call it](../api.md): tokens, pages of a list "
        "(`limit`, `cursor`), versions (`If-Match`), `Idempotency-Key`, errors. The OpenAPI "
        f"document is at `{PREFIX}/openapi.json`.",
        "\n".join(f"- [{tag}](#{tag}): {_count(calls)}" for tag, calls in by_tag.items())
        + "\n- [response bodies](#response-bodies)",
        *(f"## {tag}\n\n" + "\n\n".join(calls) for tag, calls in by_tag.items()),
        "## Response bodies",
        *_answers(shapes, bodies),
    )


def _count(calls: list[str]) -> str:
    return "1 call" if len(calls) == 1 else f"{len(calls)} calls"


def _call(method: str, path: str, call: Schema, shapes: Schema) -> Iterator[str]:
    """Yield the Markdown of one call."""
    yield f"### `{method.upper()} {path.removeprefix(PREFIX)}`"
    yield " ".join(str(call.get("description", "")).split())
    given = call.get("parameters", [])
    rows = [
        _row(one["name"], one["schema"] | _said(one), is_needed=bool(one.get("required")))
        for one in given
        if one["name"] not in USUAL and one["in"] != "path"
    ]
    body = _body(call)
    rows += _fields(shapes[body]) if body else []
    if rows:
        yield markdown.table(("field" if body else "parameter", "type", "default", ""), rows)
    usual = [f"`{one['name']}`" for one in given if one["name"] in USUAL]
    answers = [
        f"{status} {markdown.type_of(_json(answer))}".removesuffix(" any")
        for status, answer in call["responses"].items()
        if str(status) < "300"
    ]
    takes = f"Takes {', '.join(usual)}. " if usual else ""
    yield f"{takes}Returns {', '.join(answers)}."


def _body(call: Schema) -> str:
    """Return the name of the call's request schema, or ""."""
    return markdown.name_of(_json(call.get("requestBody", {})))


def _said(parameter: Schema) -> dict[str, str]:
    return {"description": str(parameter.get("description", ""))}


def _json(holder: Schema) -> Schema:
    content = holder.get("content", {})
    return dict(content.get("application/json", {}).get("schema", {}))


def _fields(shape: Schema) -> list[tuple[str, ...]]:
    needed = set(shape.get("required", []))
    return [
        _row(name, schema, is_needed=name in needed)
        for name, schema in shape.get("properties", {}).items()
    ]


def _row(name: str, schema: Schema, *, is_needed: bool) -> tuple[str, ...]:
    default = markdown.default_of(schema, is_needed=is_needed)
    return (f"`{name}`", markdown.type_of(schema), default, markdown.said_of(schema))


def _answers(shapes: Schema, told: set[str]) -> Iterator[str]:
    """Yield a paragraph for every schema whose fields aren't in a call's table."""
    for name, shape in sorted(shapes.items()):
        # `…Wanted` schemas are the parameters of a list
        if name.endswith("Wanted") or name in told:
            continue
        if "enum" in shape:
            yield f"`{name}`: {markdown.type_of(shape)}"
            continue
        fields = [
            f"`{field}` {markdown.type_of(schema)}"
            for field, schema in shape.get("properties", {}).items()
        ]
        yield f"`{name}`: {'; '.join(fields)}"
