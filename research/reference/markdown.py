"""Markdown tables and types for the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WRITTEN = "<!-- Generated from the code by `make docs`. Edit the code instead. -->"
OF_SCHEMAS = "#/components/schemas/"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", WRITTEN, *parts]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, escaping characters that would end a cell."""
    lines = [heads, ["---"] * len(heads), *(list(map(cell, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a short description of the values that a JSON schema allows."""
    if "$ref" in schema:
        return f"`{name_of(schema)}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value != "" else "empty" for value in schema["enum"])
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(type_of, several)))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    kind = {"string": "text", "object": "object"}.get(schema.get("type", ""), schema.get("type"))
    return str({"uuid": "UUID", "date-time": "moment"}.get(schema.get("format", ""), kind or "any"))


def name_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the referenced schema, or ""."""
    return str(schema.get("$ref", "")).removeprefix(OF_SCHEMAS)


def default_of(schema: Mapping[str, Any], *, is_needed: bool) -> str:
    """Return the default of a value as Markdown."""
    if is_needed:
        return "needed"
    default = schema.get("default")
    if default in (None, "", []):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def said_of(schema: Mapping[str, Any]) -> str:
    """Return a value's description with its limits."""
    bounds = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "maxLength": "at most {:,} characters",
        "maxItems": "at most {} of them",
    }
    limits = [words.format(schema[key]) for key, words in bounds.items() if key in schema]
    said = str(schema.get("description", ""))
    return f"{said} ({', '.join(limits)})".strip() if limits else said
