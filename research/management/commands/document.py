"""`manage.py document`: generate docs/reference/ from the code.

It has pages for settings, REST, MCP tools, commands and metrics.
"""

from __future__ import annotations

import re
from argparse import Action
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from beacon_site.env import READ
from beacon_site.web.request_log import REQUESTS, SECONDS
from memory.agents.tools.registry import TECHNICAL_LIMIT, as_markdown, with_limits
from research.api.joined import api
from research.management.variables import VARIABLES, Variable
from research.pages.metrics import FIGURES

# --- Markdown ---

WRITTEN = "<!-- Generated from the code by `make docs`. Edit the code instead. -->"
OF_SCHEMAS = "#/components/schemas/"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", WRITTEN, *parts]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, escaping characters that would end a cell."""
    lines = [heads, ["---"] * len(heads), *(list(map(cell, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a short description of the values that a JSON schema allows."""
    if "$ref" in schema:
        return f"`{name_of(schema)}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value != "" else "empty" for value in schema["enum"])
    if several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(map(type_of, several)))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    return {"uuid": "UUID", "date-time": "date-time"}.get(schema.get("format", ""), kind)


def name_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the referenced schema, or ""."""
    return str(schema.get("$ref", "")).removeprefix(OF_SCHEMAS)


def default_of(schema: Mapping[str, Any], *, is_needed: bool) -> str:
    """Return the default of a value as Markdown."""
    if is_needed:
        return "required"
    default = schema.get("default")
    if default in (None, "", []):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Return a value's description with its limits."""
    bounds = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "maxLength": "at most {:,} characters",
        "maxItems": "at most {} items",
    }
    text = str(schema.get("description", ""))
    limits = [
        words.format(schema[key])
        for key, words in bounds.items()
        if key in schema and not (key == "maximum" and schema[key] >= TECHNICAL_LIMIT)
    ]
    return text if "at most" in text.lower() else with_limits(text, limits)


# --- Prometheus metrics ---


def metrics_page() -> str:
    rows = [
        (
            "`beacon_http_requests` (`_total`)",
            _labels(REQUESTS._labelnames),
            REQUESTS._documentation,
        ),
        ("`beacon_http_request_seconds`", _labels(SECONDS._labelnames), SECONDS._documentation),
    ]
    rows += [
        (f"`beacon_{name}`", _labels(labels), told) for name, (told, *labels) in FIGURES.items()
    ]
    return page(
        "Metrics",
        "The web server returns these metrics at `/metrics`, in Prometheus' text format. See [who can "
        "read them, how to scrape them, and useful alerts](../hosting.md#metrics).",
        table(("metric", "labels", "meaning"), rows),
    )


def _labels(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- MCP tools and commands ---

TARGET = re.compile(r"^([a-z-]+):.*?## (.+)$", re.MULTILINE)
BEGUN = (
    "Run each command as `.venv/bin/python manage.py …`, whether or not Beacon is running (but stop "
    "it before `restore`). If the servers aren't running, they're started for the duration of the "
    "command. Errors go to standard error, with exit code 1."
)
# Django's own options, which every command has.
EVERYWHERE = frozenset(
    {
        "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
        "force_color", "skip_checks",
    }
)  # fmt: skip


def tools() -> str:
    text = (
        "Apps call these tools [over MCP](../how-to/connect-an-agent.md). Ask, and the reflection "
        "after a run, use them too. See also [how a call is "
        "answered](../agents.md#how-a-call-is-answered)."
    )
    return page("MCP tools", text, as_markdown())


def commands() -> str:
    """Return the page of the commands: Beacon's own in `manage.py`, and the targets of `make`."""
    makefile = (Path(settings.BASE_DIR) / "Makefile").read_text()
    targets = [(f"`make {name}`", told) for name, told in TARGET.findall(makefile)]
    parts = [
        "## make",
        table(("command", "does"), targets),
        "## manage.py",
        BEGUN,
    ]
    for name in own_commands():
        parts += list(_command(name))
    return page("Commands", *parts)


def own_commands() -> list[str]:
    """Return the names of Beacon's own commands."""
    return sorted(name for name, app in get_commands().items() if app in ("memory", "research"))


def _command(name: str) -> Iterator[str]:
    app = str(get_commands()[name])
    parser = load_command_class(app, name).create_parser("manage.py", name)
    taken = [one for one in parser._actions if one.dest not in EVERYWHERE]
    usage = " ".join(["manage.py", name, *map(_usage, taken)])
    yield f"### `{name}`"
    yield f"`{usage}`"
    yield str(parser.description or "")
    rows = [(f"`{_argument_name(one)}`", str(one.help)) for one in taken if one.help]
    if rows:
        yield table(("argument", ""), rows)


def _argument_name(one: Action) -> str:
    return one.option_strings[-1] if one.option_strings else one.dest.upper()


def _usage(one: Action) -> str:
    value = str(one.metavar or one.dest.upper())
    if not one.option_strings:
        return f"[{value}]" if one.nargs in ("?", "*") else value
    takes = "" if one.nargs == 0 else f" {value}"
    return f"{_argument_name(one)}{takes}" if one.required else f"[{_argument_name(one)}{takes}]"


# --- REST API, from its OpenAPI document ---

Schema = Mapping[str, Any]
PREFIX = "/api/v1"
# The page describes these once before the calls, because they are the same everywhere.
USUAL = frozenset({"limit", "cursor", "If-Match", "Idempotency-Key"})


def rest_page() -> str:
    document: Schema = api.get_openapi_schema()
    shapes = document["components"]["schemas"]
    by_tag: dict[str, list[str]] = {}
    bodies: set[str] = set()
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            text = "\n\n".join(_call(method, path, call, shapes))
            bodies.add(_body(call))
            by_tag.setdefault(call["tags"][0], []).append(text)
    return page(
        "REST",
        f"Every path begins with `{PREFIX}`. See also [how to use the API](../api.md): tokens, "
        "pagination (`limit`, `cursor`), versions (`If-Match`), `Idempotency-Key` and errors. The "
        f"OpenAPI document is at `{PREFIX}/openapi.json`.",
        "\n".join(
            f"- [{tag}](#{tag.replace(' ', '-')}): {_count(calls)}" for tag, calls in by_tag.items()
        )
        + "\n- [response bodies](#response-bodies)",
        *(f"## {tag}\n\n" + "\n\n".join(calls) for tag, calls in by_tag.items()),
        "## Response bodies",
        *_answers(shapes, bodies),
    )


def _count(calls: list[str]) -> str:
    return "1 call" if len(calls) == 1 else f"{len(calls)} calls"


def _call(method: str, path: str, call: Schema, shapes: Schema) -> Iterator[str]:
    yield f"### `{method.upper()} {path.removeprefix(PREFIX)}`"
    yield " ".join(str(call.get("description", "")).split())
    given = call.get("parameters", [])
    rows = [
        _field_row(
            one["name"], one["schema"] | _description(one), is_needed=bool(one.get("required"))
        )
        for one in given
        if one["name"] not in USUAL and one["in"] != "path"
    ]
    body = _body(call)
    rows += _fields(shapes[body]) if body else []
    if rows:
        yield table(("field" if body else "parameter", "type", "default", ""), rows)
    usual = [f"`{one['name']}`" for one in given if one["name"] in USUAL]
    answers = [
        f"{status} {type_of(_json(answer))}".removesuffix(" any")
        for status, answer in call["responses"].items()
        if str(status) < "300"
    ]
    takes = f"Takes {', '.join(usual)}. " if usual else ""
    yield f"{takes}Returns {', '.join(answers)}."


def _body(call: Schema) -> str:
    """Return the name of the call's request schema, or ""."""
    return name_of(_json(call.get("requestBody", {})))


def _description(parameter: Schema) -> dict[str, str]:
    return {"description": str(parameter.get("description", ""))}


def _json(holder: Schema) -> Schema:
    content = holder.get("content", {})
    return dict(content.get("application/json", {}).get("schema", {}))


def _fields(shape: Schema) -> list[tuple[str, ...]]:
    needed = set(shape.get("required", []))
    return [
        _field_row(name, schema, is_needed=name in needed)
        for name, schema in shape.get("properties", {}).items()
    ]


def _field_row(name: str, schema: Schema, *, is_needed: bool) -> tuple[str, ...]:
    default = default_of(schema, is_needed=is_needed)
    return (f"`{name}`", type_of(schema), default, describe_schema(schema))


def _answers(shapes: Schema, texts: set[str]) -> Iterator[str]:
    """Yield a paragraph for every schema whose fields aren't in a call's table."""
    for name, shape in sorted(shapes.items()):
        # `…Wanted` schemas are the parameters of a list
        if name.endswith("Wanted") or name in texts:
            continue
        if "enum" in shape:
            yield f"`{name}`: {type_of(shape)}"
            continue
        fields = [
            f"`{field}` {type_of(schema)}" for field, schema in shape.get("properties", {}).items()
        ]
        yield f"`{name}`: {'; '.join(fields)}"


# --- environment variables ---

VARIABLES_BEGUN = (
    "Beacon reads these from the environment, then from `beacon.env` in the data folder. Unset "
    "variables use the default. See also [how settings work, and which can be changed in the "
    "UI](../settings.md)."
)


def settings_page() -> str:
    parts = [VARIABLES_BEGUN]
    for group, variables in VARIABLES.items():
        heads = ("variable", "allowed values", "default", "description")
        parts += [f"## {group}", table(heads, map(_variable_row, variables))]
    return page("Environment variables", *parts)


def _variable_row(one: Variable) -> tuple[str, ...]:
    names = one.names.split()
    read = [READ[name] for name in names if name in READ]
    takes = dict.fromkeys(values for values, _default in read) or {"text": None}
    usual = dict.fromkeys(f"`{default}`" if default else "none" for _values, default in read)
    return (
        ", ".join(f"`{name}`" for name in names),
        ", ".join(takes),
        one.usual or ", ".join(usual) or "none",
        one.does,
    )


# --- pages ---

PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "rest.md": rest_page,
    "mcp-tools.md": tools,
    "commands.md": commands,
    "metrics.md": metrics_page,
}


def stale(folder: Path) -> dict[str, str]:
    """Return the pages in `folder` that don't match the code, with their new text."""
    texts = {name: written() for name, written in PAGES.items()}
    return {name: text for name, text in texts.items() if _read(folder / name) != text}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


class Command(BaseCommand):
    """Write the pages that differ. Needs no database."""

    help = "Generate the docs/reference/ pages from the code (make docs)."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the pages, and print what happened to each."""
        folder = Path(settings.BASE_DIR) / "docs" / "reference"
        folder.mkdir(parents=True, exist_ok=True)
        changed = stale(folder)
        for name, text in changed.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name in PAGES:
            message = "renewed" if name in changed else "unchanged"
            self.stdout.write(f"docs/reference/{name}: {message}")
