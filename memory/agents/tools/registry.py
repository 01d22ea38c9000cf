"""The registry of tools, their schemas and their reference page.

Errors from memory become answers that a model can act on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from django.utils.translation import gettext as _
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from beacon_site.providers.llm.base import Tool
from beacon_site.text import secret_scanner
from beacon_site.text.cleaning import clean, shorten
from memory.agents.tools import content as tool_content
from memory.agents.tools import files as tool_files
from memory.agents.tools import memory_commands, recall
from memory.agents.tools import notes as tool_notes
from memory.agents.tools import scratchpad as tool_scratchpad
from memory.agents.tools.types import MemoryTool, ToolContext, ToolResult, refused, why_invalid
from memory.models import Activity, Section
from memory.models.errors import (
    InvalidValue,
    LimitReached,
    Locked,
    MemoryRefused,
    NoSuchKey,
    OnlyPeople,
    StaleWrite,
)
from memory.services.files.texts import NoSuchFile, OverBudget
from memory.services.review.proposals import SourceBlocked, check_not_blocked
from memory.services.search.kinds import KINDS


def answer_of(exc: Exception) -> ToolResult | None:
    """Return the answer for an error of memory; None for any other exception."""
    if isinstance(exc, NoSuchKey):
        advice = _("Use scratchpad_list to see the keys.")
        return refused("not_found", f"{exc} {advice}")
    if not isinstance(exc, MemoryRefused):
        return None
    if isinstance(exc, InvalidValue):
        return refused("invalid", str(exc), errors=exc.errors)
    if isinstance(exc, OnlyPeople):
        return refused("sensitive", str(exc))
    if isinstance(exc, Locked):
        advice = _("Leave it unchanged, and tell the user what you would change.")
        return refused("locked", f"{exc} {advice}")
    if isinstance(exc, StaleWrite):
        return refused("stale", str(exc), version=exc.current)
    if isinstance(exc, NoSuchFile):
        return refused("not_found", str(exc), path=exc.path)
    if isinstance(exc, OverBudget):
        return refused("over_budget", str(exc), have=exc.have, most=exc.most)
    if isinstance(exc, LimitReached):
        return refused("limit", str(exc))
    return refused("refused", str(exc))


# --- registry ---

logger = structlog.get_logger(__name__)

REGISTRY: dict[str, MemoryTool] = {}

UNPARSED = "_unparsed"  # holds a model's arguments if they weren't one JSON object
# Arguments shown in Activity: names of places and questions, never a record's text.
_TOLD = (
    "command",
    "path",
    "id",
    "kind",
    "tags",
    "limit",
    "key",
    "prefix",
    "query",
    "rating",
    "topic",
    "session_id",
    "name",
)
MAX_ARGUMENT_LENGTH = 200  # characters of one argument
# Arguments that quote stored text. Masking them would make them differ from it.
_QUOTING = frozenset({"old_text", "oldText", "old_str", "path", "old_path", "new_path", "id"})


def register(*tools: MemoryTool) -> None:
    """Add tools to the registry; a tool with the same name is replaced."""
    REGISTRY.update({tool.name: tool for tool in tools})


register(*tool_files.TOOLS, *memory_commands.TOOLS, *tool_notes.TOOLS, *recall.TOOLS)
register(*recall.CONTEXT_TOOLS, *tool_content.TOOLS, *tool_scratchpad.TOOLS)


def tools_for(tools: Iterable[str | MemoryTool] | None = None) -> list[Tool]:
    """Return the tools as a model sees them, in the order named (default: all)."""
    chosen = _offered(tools).values()
    return [Tool(one.name, one.description, schema_of(one.arguments)) for one in chosen]


def _offered(wanted: Iterable[str | MemoryTool] | None) -> dict[str, MemoryTool]:
    """Return tools by name: the named ones from the registry, and those passed as objects."""
    if wanted is None:
        return REGISTRY
    tools = [REGISTRY[one] if isinstance(one, str) else one for one in wanted]
    return {tool.name: tool for tool in tools}


def call_tool(
    context: ToolContext,
    name: str,
    arguments: Mapping[str, Any],
    *,
    among: Iterable[str | MemoryTool] | None = None,
) -> ToolResult:
    """Call a tool, record the call in Activity, and return the answer.

    `among` names the tools offered to this caller (default: all); the caller's own tool, which
    isn't in the registry, is passed as an object.  Never raises for a caller's mistake or a write
    that memory rejects: the answer says what happened, why, and what to do next.
    """
    offered = _offered(among)
    tool = offered.get(name)
    if tool is None:
        params = {"name": shorten(clean(str(name))[0], 80), "known": ", ".join(offered)}
        text = _("There is no tool “%(name)s” here. Available tools: %(known)s.") % params
        result = refused("unknown_tool", text)
    else:
        result = _perform(context, tool, arguments)
    # An answer can repeat the caller's words, and goes into prompts and rows.
    result = replace(result, text=clean(result.text)[0], data=_cleaned(result.data))
    _log(context, name, arguments, result)
    return result


def _perform(context: ToolContext, tool: MemoryTool, arguments: Mapping[str, Any]) -> ToolResult:
    if context.only_topics and not tool.for_topics:
        words = _(
            "“%(tool)s” wasn’t called because this token is limited to certain topics. Use %(known)s, or ask the user for a token without this limit."
        )
        usable = ", ".join(one.name for one in REGISTRY.values() if one.for_topics)
        return refused("forbidden", words % {"tool": tool.name, "known": usable})
    if tool.writes and (blocked := _blocked(context)):
        return blocked
    if UNPARSED in arguments:
        text = _(
            "“%(tool)s” wasn’t called because its arguments weren’t a JSON object. Call it again with a JSON object that contains %(names)s."
        )
        params = {"tool": tool.name, "names": describe_arguments(tool.arguments)}
        return refused("bad_arguments", text % params)
    given, masked = dict(arguments), list[str]()
    if tool.writes:
        given, masked = secret_scanner.mask_all(given, keep=_QUOTING)
    try:
        checked = tool.arguments.model_validate(given)
    except ValidationError as exc:
        return _bad_arguments(tool, exc)
    try:
        result = tool.run(context, checked)
    except (MemoryRefused, LookupError) as exc:
        known = answer_of(exc)
        if known is None:
            raise
        return known
    return _with_masked(result, masked) if masked else result


def _with_masked(result: ToolResult, kinds: list[str]) -> ToolResult:
    """Return the answer with a note about the secrets that weren't stored."""
    message = _(
        "Secrets aren’t stored, so this was removed from the text: %(kinds)s. Don’t write it again."
    ) % {"kinds": ", ".join(kinds)}
    return replace(result, text=f"{result.text}\n{message}", data={**result.data, "masked": kinds})


def _blocked(context: ToolContext) -> ToolResult | None:
    """Return the answer for an agent that its owner blocked from writing; None for others."""
    try:
        check_not_blocked(context.owner, context.by)
    except SourceBlocked as exc:
        return answer_of(exc)
    return None


def _cleaned(value: Any) -> Any:
    """Return data without characters that rows and messages can't hold."""
    if isinstance(value, str):
        return clean(value)[0]
    if isinstance(value, Mapping):
        return {str(key): _cleaned(one) for key, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list | tuple) else value


def _bad_arguments(tool: MemoryTool, exc: ValidationError) -> ToolResult:
    found = exc.errors(include_input=False, include_url=False)
    problems = [_problem(one) for one in found]
    text = _("“%(tool)s” wasn’t called. %(problems)s. Arguments: %(names)s.") % {
        "tool": tool.name,
        "problems": shorten(clean("; ".join(problems))[0], 600),
        "names": describe_arguments(tool.arguments),
    }
    return refused("bad_arguments", text)


def _problem(error: ErrorDetails) -> str:
    name, why = ".".join(map(str, error["loc"])), why_invalid(error)
    if error["type"] == "extra_forbidden":
        return _("“%(name)s” isn’t an argument of this tool") % {"name": name}
    if why in error["msg"]:  # a sentence by itself
        return f"{name}: {why}" if name else why
    return _("“%(name)s” %(why)s") % {"name": name, "why": why}


def _as_words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _log(context: ToolContext, name: str, arguments: Mapping[str, Any], result: ToolResult) -> None:
    """Record the call in Activity: who called which tool, about which record, and the outcome."""
    subject_type, subject_id = _subject(result)
    fields = {
        key: shorten(
            secret_scanner.mask(clean(_as_words(arguments[key]))[0])[0], MAX_ARGUMENT_LENGTH
        )
        for key in _TOLD
        if arguments.get(key) not in (None, "", [])
    }
    outcome = str(result.data.get("error", "")) or ("held" if "proposal" in result.data else "")
    Activity.objects.create(
        owner=context.owner,
        actor=str(context.by)[:200],
        kind="tool-called",
        label=shorten(clean(str(name))[0], 80),
        topic=context.topic,
        subject_type=subject_type,
        subject_id=subject_id,
        detail={**fields, "outcome": outcome, "source": context.source},
    )
    logger.info("tool called", tool=str(name)[:80], outcome=outcome or "done")


def _subject(result: ToolResult) -> tuple[str, str]:
    """Return the type and ID of the one record that the call was about; empty for none or many."""
    records = result.data.get("records", [])
    if len(records) != 1 or records[0]["type"] == Section.SEARCH_TYPE:
        return "", ""  # a section isn't a record of its own, and is rebuilt with its file
    recalled = KINDS.get(records[0]["type"])
    record_type = recalled.model.record_type() if recalled else records[0]["type"]
    return record_type, records[0]["id"]


# --- schemas ---


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, plain enough for every endpoint.

    It has no references or titles. The type of an optional argument leaves out null, which small
    models would write as a value.
    """
    schema = arguments.model_json_schema(by_alias=False)
    parts = schema.pop("$defs", {})
    plain = _plain(schema, parts)
    plain.setdefault("properties", {})
    return dict(plain)


def _plain(part: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_plain(one, parts) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        named = parts[str(part["$ref"]).rpartition("/")[2]]
        return _plain({**named, **{k: v for k, v in part.items() if k != "$ref"}}, parts)
    kinds = [one for one in part.get("anyOf", []) if one != {"type": "null"}]
    if len(kinds) == 1:
        rest = {k: v for k, v in part.items() if k != "anyOf" and v is not None}
        return _plain({**kinds[0], **rest}, parts)
    kept = {}
    for key, value in part.items():
        if key == "properties":  # an argument can be called “title”
            kept[key] = {name: _plain(one, parts) for name, one in value.items()}
        elif key != "title" and not (key == "default" and value in (None, [], "")):
            kept[key] = _plain(value, parts)
    return kept


def describe_arguments(arguments: type[BaseModel]) -> str:
    """Return the names of a tool's arguments, with the required ones marked."""
    schema = schema_of(arguments)
    needed = set(schema.get("required", []))
    told = [
        _("%(name)s (required)") % {"name": name} if name in needed else name
        for name in schema["properties"]
    ]
    return ", ".join(told) or _("no arguments")


# --- docs/reference/mcp-tools.md ---

TECHNICAL_LIMIT = 2**31 - 1  # the database's, which the reference doesn't mention


def as_markdown() -> str:
    """Return a reference of all tools, each with its description and a table of its arguments."""
    return "\n\n".join(map(_tool, REGISTRY))


def _tool(name: str) -> str:
    tool = REGISTRY[name]
    schema = schema_of(tool.arguments)
    writes = " *Writes.*" if tool.writes else ""
    parts = [f"## `{name}`", f"{tool.description}{writes}"]
    if schema["properties"]:
        needed = set(schema.get("required", []))
        rows = [
            f"| `{key}` | {_type(one)} | {_default(one, is_needed=key in needed)} | {_describe_argument(one)} |"
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
        return "required"
    return f"`{one['default']}`".lower() if "default" in one else ""


def _describe_argument(one: Mapping[str, Any]) -> str:
    limits = [
        f"{word} {one[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in one and not (key == "maximum" and one[key] >= TECHNICAL_LIMIT)
    ]
    text = str(one.get("description", "")).replace("|", "\\|")
    return with_limits(text, limits)


def with_limits(text: str, limits: list[str]) -> str:
    """Return a description followed by a sentence about its limits."""
    if not limits:
        return text
    end = "" if text.endswith(".") or not text else "."
    return f"{text}{end} {', '.join(limits).capitalize()}.".strip()
