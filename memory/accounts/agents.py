"""The four settings of an agent (seed 002), and the instructions for connecting one.

Each app that used a token is an agent, and so is Beacon's own researcher.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.embedded import places
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import grouped
from memory.accounts.tokens import mcp_url
from memory.models import Activity, Agent, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue

FIELDS = ("enable_memory", "share_with_subagents", "use_model_compaction", "compaction_prompt")
MAX_PROMPT_LENGTH = 4000  # characters


def agents_of(owner: User) -> QuerySet[Agent]:
    """Return the owner's agents by name, each with its number of active tokens and last use."""
    now = timezone.now()
    unexpired = Q(tokens__expires_at=None) | Q(tokens__expires_at__gt=now)
    is_open = Q(tokens__isnull=False, tokens__revoked_at=None) & unexpired
    is_open &= Q(tokens__grant=None) | Q(tokens__grant__access_until__isnull=False)
    rows: QuerySet[Agent] = Agent.objects.filter(owner=owner)
    counted = {"open_tokens": Count("tokens", filter=is_open)}
    return rows.annotate(**counted, used_at=Max("tokens__last_used_at")).order_by("name", "pk")


def change(agent: Agent, values: Mapping[str, Any], *, by: Actor) -> bool:
    """Store an agent's settings and return whether any changed; the changed ones are logged.

    Raises InvalidValue for a prompt that is too long.
    """
    data = {name: values[name] for name in FIELDS if name in values}
    if "compaction_prompt" in data:
        data["compaction_prompt"] = _checked(str(data["compaction_prompt"]))
    with transaction.atomic():
        stored = Agent.objects.select_for_update().get(pk=agent.pk)
        changed = {k: value for k, value in data.items() if getattr(stored, k) != value}
        if not changed:
            return False
        Agent.objects.filter(pk=agent.pk).update(**changed)
        Activity.log(
            stored.owner, by, "agent-changed", subject=stored, changed=", ".join(sorted(changed))
        )
    for name, value in changed.items():
        setattr(agent, name, value)
    return True


def _checked(prompt: str) -> str:
    prompt = clean(prompt)[0].strip()
    if len(prompt) > MAX_PROMPT_LENGTH:
        params = {"have": grouped(len(prompt)), "most": grouped(MAX_PROMPT_LENGTH)}
        text = _("The text has %(have)s characters, but the limit is %(most)s.") % params
        raise InvalidValue(text, errors={"compaction_prompt": [text]})
    return prompt


# --- connection instructions ---

PLACE = "bcn_…"  # where the token belongs


@dataclass(frozen=True, slots=True)
class Setup:
    """One app's setup: its key, its name, where to put the configuration, and the configuration."""

    key: str
    name: str
    where: str
    text: str
    note: str = ""


def sign_in_setups() -> list[Setup]:
    """Return the setups of apps that ask a person for access (OAuth), so they need no token."""
    url = mcp_url()
    public = ""
    if not settings.BEACON_HTTPS:
        public = _(
            "This app connects from its own servers, so Beacon needs a public HTTPS URL, which isn’t set up yet."
        )
    return [
        Setup(
            "claude",
            _("Claude (web, desktop and mobile)"),
            _(
                "In Claude, open Settings → Connectors, select Add custom connector, enter this URL and select Connect:"
            ),
            url,
            public,
        ),
        Setup(
            "chatgpt",
            "ChatGPT",
            _(
                "In ChatGPT, open Settings → Apps → Advanced settings and turn on Developer mode. Select Create app, enter this URL and choose OAuth:"
            ),
            url,
            public,
        ),
        Setup(
            "claude-code-sign-in",
            "Claude Code",
            _(
                "Run this once in a terminal, then enter /mcp in Claude Code and select Authenticate:"
            ),
            f"claude mcp add --transport http beacon {url}",
        ),
        Setup(
            "codex",
            "Codex",
            _("To sign in through your browser, run this once in a terminal:"),
            f"codex mcp add beacon --url {url}\ncodex mcp login beacon",
        ),
        Setup(
            "cursor-sign-in",
            "Cursor",
            _(
                "Add this to ~/.cursor/mcp.json, or to a project’s .cursor/mcp.json. Then select Connect in Cursor’s MCP settings:"
            ),
            _json({"mcpServers": {"beacon": {"url": url}}}),
        ),
        Setup(
            "vs-code-sign-in",
            "VS Code",
            _("Add this to .vscode/mcp.json, then select Start above the server’s name:"),
            _json({"servers": {"beacon": {"type": "http", "url": url}}}),
        ),
    ]


def setups(
    token: str = "", *, with_paths: bool = False
) -> list[Setup]:  # none: the form has a gap there  # nosec B107
    """Return the setups of common apps; `with_paths` includes this machine's folders."""
    words = token or PLACE
    return [*_by_address(words), _by_pipe(words, with_paths=with_paths), _by_compose(words)]


def apps(
    token: str = "", *, with_paths: bool = False
) -> list[tuple[str, Setup | None, Setup | None]]:  # nosec B107
    """Return each app's name, how a person signs in from it, and how it uses a token.

    Those that a person can sign in from come first.
    """
    by_sign_in = {one.name: one for one in sign_in_setups()}
    by_token = {one.name: one for one in setups(token, with_paths=with_paths)}
    names = dict.fromkeys([*by_sign_in, *by_token])
    return [(name, by_sign_in.get(name), by_token.get(name)) for name in names]


def _by_address(token: str) -> list[Setup]:
    url = mcp_url()
    bearer = f"Bearer {token}"
    headers = {"Authorization": bearer}
    fields = {
        "type": "promptString",
        "id": "beacon-token",
        "password": True,
    }  # makes the editor hide the input  # nosec B105
    code = {
        "inputs": [{**fields, "description": "Beacon API token"}],
        "servers": {
            "beacon": {
                "type": "http",
                "url": url,
                "headers": {"Authorization": "Bearer ${input:beacon-token}"},
            }
        },
    }
    return [
        Setup(
            "claude-code",
            "Claude Code",
            _("Run this once in a terminal:"),
            f'claude mcp add --transport http beacon {url} --header "Authorization: {bearer}"',
        ),
        Setup(
            "cursor",
            "Cursor",
            _("Add this to ~/.cursor/mcp.json, or to a project’s .cursor/mcp.json:"),
            _json({"mcpServers": {"beacon": {"url": url, "headers": headers}}}),
        ),
        Setup(
            "vs-code",
            "VS Code",
            _("Add this to .vscode/mcp.json:"),
            _json(code),
            _("VS Code asks for the token when the server first starts, then stores it."),
        ),
        Setup(
            "other",
            _("Other apps (by URL)"),
            _("Use the “streamable HTTP” transport:"),
            f"{url}\nAuthorization: {bearer}",
        ),
    ]


def _by_pipe(token: str, *, with_paths: bool) -> Setup:
    start, mcp = _program(with_paths=with_paths)
    environment = {"BEACON_API_TOKEN": token}
    if with_paths:
        environment["BEACON_DATA_DIR"] = str(settings.DATA_DIR)
    server = {"command": start, "args": [*mcp, "mcp", "--stdio"], "env": environment}
    return Setup(
        "claude-desktop",
        _("Claude Desktop and other apps, over stdio"),
        _("Add this to claude_desktop_config.json on the machine that runs Beacon:"),
        _json({"mcpServers": {"beacon": server}}),
        _("This setup works whether or not Beacon is running."),
    )


def _program(*, with_paths: bool) -> tuple[str, list[str]]:
    """Return the program that runs Beacon's commands on this machine, and its first arguments."""
    if places.IS_WHEEL:
        # Next to the running Python, since the calling app can have another PATH.
        return (str(Path(sys.executable).with_name("beacon")) if with_paths else "beacon"), []
    folder = str(settings.BASE_DIR) if with_paths else "/path/to/beacon"
    python = sys.executable if with_paths else f"{folder}/.venv/bin/python"
    return python, [f"{folder}/manage.py"]


def _by_compose(token: str) -> Setup:
    """Return the setup for Beacon in containers, whose folders aren't on this machine."""
    command = ["compose", "-f", "/path/to/beacon/docker-compose.yml", "exec", "-T"]
    command += ["-e", f"BEACON_API_TOKEN={token}", "mcp", "beacon", "mcp", "--stdio"]
    return Setup(
        "compose",
        _("Over stdio, with Beacon in Docker Compose"),
        _("Add this to claude_desktop_config.json on the machine that runs the containers:"),
        _json({"mcpServers": {"beacon": {"command": "docker", "args": command}}}),
        _("This works only while the containers are running."),
    )


def rest_example(token: str) -> str:  # none: the form has a gap there  # nosec B107
    bearer = f"Authorization: Bearer {token or PLACE}"
    return f"curl -H '{bearer}' '{settings.BEACON_URL}/api/v1/recall?q=batteries'"


def chat_example(token: str) -> str:  # none, as above  # nosec B107
    """Return the settings of a program that uses OpenAI's API."""
    return (
        f"OPENAI_BASE_URL={settings.BEACON_URL}/v1\nOPENAI_API_KEY={token or PLACE}\nmodel: beacon"
    )


def hooks_example() -> str:
    return f"beacon-memory --url {settings.BEACON_URL} hooks install claude-code"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
