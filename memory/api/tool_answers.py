"""What a tool answered, as the API says it: agents' writes pass the same tools."""

from __future__ import annotations

from memory.api.problems import Problem
from memory.toolkit.types import ToolResult

# By the word that tools have for programs (`ToolResult`); any other refusal is a conflict.
_STATUS = {
    "not_found": 404,
    "invalid": 422,
    "bad_arguments": 422,
    "locked": 403,
    "sensitive": 403,
    "conflict": 412,
    "stale": 412,
    "over_budget": 413,
}
_TOLD = ("current", "version", "have", "most")


def problem_of(result: ToolResult) -> Problem:
    """Return the problem for a tool's refusal, with what helps the caller on."""
    data = result.data
    status = _STATUS.get(str(data.get("error", "")), 409)
    errors = {name: _lines(value) for name, value in dict(data.get("errors") or {}).items()}
    more = {name: data[name] for name in _TOLD if data.get(name) is not None}
    return Problem(status, str(data.get("message") or result.text), errors=errors, **more)


def _lines(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
