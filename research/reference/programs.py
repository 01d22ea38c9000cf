"""The reference of MCP tools and commands."""

from __future__ import annotations

import re
from argparse import Action
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.management import get_commands, load_command_class

from memory.tools.registry import as_markdown
from research.reference import markdown

TARGET = re.compile(r"^([a-z-]+):.*?## (.+)$", re.MULTILINE)
BEGUN = (
    "Run each one as `.venv/bin/python manage.py …`, whether Beacon is running or not (`restore` "
    "requires it to be stopped). Servers that aren't running are started for the duration of the "
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
    """Return the page of the MCP tools."""
    said = (
        "Apps call these [over MCP](../how-to/connect-an-agent.md). Ask and the "
        "reflection after a run use them too. [How a call is "
        "answered](../agents.md#how-a-call-is-answered)."
    )
    return markdown.page("MCP tools", said, as_markdown())


def commands() -> str:
    """Return the page of the commands: Beacon's own in `manage.py`, and the targets of `make`."""
    makefile = (Path(settings.BASE_DIR) / "Makefile").read_text()
    targets = [(f"`make {name}`", told) for name, told in TARGET.findall(makefile)]
    parts = [
        "## make",
        markdown.table(("command", "does"), targets),
        "## manage.py",
        BEGUN,
    ]
    for name in own_commands():
        parts += list(_command(name))
    return markdown.page("Commands", *parts)


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
    rows = [(f"`{_named(one)}`", str(one.help)) for one in taken if one.help]
    if rows:
        yield markdown.table(("argument", ""), rows)


def _named(one: Action) -> str:
    return one.option_strings[-1] if one.option_strings else one.dest.upper()


def _usage(one: Action) -> str:
    value = str(one.metavar or one.dest.upper())
    if not one.option_strings:
        return f"[{value}]" if one.nargs in ("?", "*") else value
    takes = "" if one.nargs == 0 else f" {value}"
    return f"{_named(one)}{takes}" if one.required else f"[{_named(one)}{takes}]"
