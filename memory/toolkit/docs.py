"""The tools as docs/reference/mcp-tools.md tells of them, from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory.toolkit.registry import REGISTRY, schema_of


def as_markdown(names: Iterable[str] | None = None) -> str:
    """Return the tools, each with what it does and a table of its arguments."""
    wanted = REGISTRY if names is None else names
    return "\n\n".join(_tool(name) for name in wanted)


def _tool(name: str) -> str:
    tool = REGISTRY[name]
    schema = schema_of(tool.arguments)
    writes = " *Writes.*" if tool.writes else ""
    parts = [f"## `{name}`", f"{tool.description}{writes}"]
    if schema["properties"]:
        needed = set(schema.get("required", []))
        rows = [
            f"| `{key}` | {_type(one)} | {_default(one, is_needed=key in needed)} | {_said(one)} |"
            for key, one in schema["properties"].items()
        ]
        parts.append("\n".join(["| argument | type | default | |", "|---|---|---|---|", *rows]))
    else:
        parts.append("No arguments.")
    return "\n\n".join(parts)


def _type(one: Mapping[str, Any]) -> str:
    if "enum" in one:
        return " or ".join(f"`{value}`" for value in one["enum"])
    if one.get("type") == "array":
        return f"list of {_type(one['items'])}"
    if one.get("type") == "object":
        inside = ", ".join(f"`{key}`" for key in one.get("properties", {}))
        return f"{{{inside}}}"
    return str(one.get("type", "any"))


def _default(one: Mapping[str, Any], *, is_needed: bool) -> str:
    if is_needed:
        return "needed"
    return f"`{one['default']}`".lower() if "default" in one else ""


def _said(one: Mapping[str, Any]) -> str:
    limits = [
        f"{word} {one[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in one
    ]
    said = str(one.get("description", "")).replace("|", "\\|")
    return f"{said} ({', '.join(limits)})" if limits else said
