"""`beacon-memory`: recall, remember, run and files from a terminal, and hooks for agents.

The URL and the token come from BEACON_URL (or --url) and BEACON_API_TOKEN. There is no option for
the token, because other users of the machine could read it in the list of processes.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from beacon_memory import hook, hook_settings
from beacon_memory.client import USUAL, Beacon
from beacon_memory.errors import BeaconError, Refused
from beacon_memory.records import Written

OK, WENT_WRONG, HELD, UNFINISHED = 0, 1, 3, 4
ALL = "all"
SETUP_SECONDS = 5.0
SHOWN = 200  # characters of a hit, so a report doesn't fill the terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    0: done, 1: refused or no response, 2: wrong usage, 3: held for approval, 4: the run isn't
    finished.
    """
    asked = _parser().parse_args(arguments)
    act: Callable[[Any, argparse.Namespace], int] = asked.act
    try:
        if act is _hooks:
            return _hooks(None, asked)
        with Beacon(asked.url) as beacon:
            return act(beacon, asked)
    except BeaconError as exc:
        print(f"beacon-memory: {exc}", file=sys.stderr)
        return WENT_WRONG
    except BrokenPipeError:
        return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="beacon-memory", description="Use Beacon from a terminal."
    )
    parser.add_argument("--url", default="", help=f"Beacon's URL (default: BEACON_URL, or {USUAL})")
    parser.add_argument("--json", action="store_true", help="print the response as JSON")
    acts = parser.add_subparsers(required=True, metavar="{recall,remember,run,files,hooks}")

    recall = acts.add_parser("recall", help="search memory")
    recall.add_argument("query")
    recall.add_argument(
        "--limit", type=int, default=10, help="maximum number of results (default: 10)"
    )
    recall.add_argument("--whole", action="store_true", help="print each result in full")
    recall.set_defaults(act=_recall)

    remember = acts.add_parser("remember", help="write a note (“-” reads standard input)")
    remember.add_argument("content")
    remember.add_argument("--kind", default="log", choices=["log", "summary", "rule"])
    remember.add_argument(
        "--tag", action="append", default=[], dest="tags", help="a tag; can be repeated"
    )
    remember.set_defaults(act=_remember)

    run = acts.add_parser("run", help="research a topic and print the report")
    run.add_argument("topic", help="the topic's title; a new topic is created")
    run.add_argument(
        "--depth", default="", choices=["", "quick", "deep"], metavar="quick|deep",
        help="how thorough to be (default: the topic's setting)",
    )  # fmt: skip
    run.add_argument(
        "--wait", type=float, default=600.0, help="maximum wait in seconds (0: don't wait)"
    )
    run.set_defaults(act=_run)

    files = acts.add_parser("files", help="list the memory files, or print one")
    files.add_argument("path", nargs="?", default="")
    files.add_argument(
        "--write", metavar="FILE", help="replace the text with FILE (“-”: standard input)"
    )
    files.set_defaults(act=_files)

    hooks = acts.add_parser(
        "hooks",
        help="give Claude Code, Codex or Cursor their memory automatically",
        description="Install, list or remove hooks. Installing asks for a token of the agent, or "
        "takes it from BEACON_API_TOKEN, and stores it in a file that only you can read.",
    )
    hooks.add_argument("do", choices=["install", "list", "remove"])
    hooks.add_argument(
        "agents", nargs="*", metavar="AGENT", help=f"{', '.join(hook.AGENTS)} or {ALL}"
    )
    hooks.set_defaults(act=_hooks)
    return parser


def _recall(beacon: Beacon, asked: argparse.Namespace) -> int:
    hits = beacon.recall(asked.query, limit=asked.limit)
    if asked.json:
        return _print_json([hit.raw for hit in hits])
    for hit in hits:
        said = " ".join(hit.content.split())
        print(f"{hit.score:.2f}  {hit.type:<11}  {said if asked.whole else _short(said)}")
    if not hits:
        print("No results in memory.", file=sys.stderr)
    return OK


def _remember(beacon: Beacon, asked: argparse.Namespace) -> int:
    content = _text_of(asked.content) if asked.content == "-" else asked.content
    written = beacon.remember(content, kind=asked.kind, tags=asked.tags)
    if asked.json:
        _print_json(written.raw)
    elif written.is_held:
        _say_held(written)
    else:
        print(written.id)
    return HELD if written.is_held else OK


def _say_held(written: Written) -> None:
    why = f" ({written.reason})" if written.reason else ""
    print(f"Held: it's stored when you accept it in the Inbox{why}.", file=sys.stderr)


def _run(beacon: Beacon, asked: argparse.Namespace) -> int:
    run = beacon.run(asked.topic, depth=asked.depth, wait=asked.wait)
    if run.is_unfinished:
        print(f"Run {run.id} is {run.status}.", file=sys.stderr)
        return _print_json(run.raw) if asked.json else UNFINISHED if asked.wait else OK
    try:
        report = beacon.report(run.id)
    except Refused as exc:
        print(f"Run {run.id} is {run.status}: {exc}", file=sys.stderr)
        return WENT_WRONG
    if asked.json:
        return _print_json(report.raw)
    sys.stdout.write(report.markdown)
    return OK


def _files(beacon: Beacon, asked: argparse.Namespace) -> int:
    if not asked.path:
        files = beacon.files()
        if asked.json:
            return _print_json([file.raw for file in files])
        for file in files:
            print(f"{file.size:>8}  {file.path}  {file.summary}")
        return OK
    if asked.write:
        return _write_file(beacon, asked)
    file = beacon.file(asked.path)
    if asked.json:
        return _print_json(file.raw)
    sys.stdout.write(file.content)
    return OK


def _write_file(beacon: Beacon, asked: argparse.Namespace) -> int:
    content = _text_of(asked.write)
    try:
        version = beacon.file(asked.path).version
    except Refused as exc:
        if exc.status != 404:
            raise
        version = 0  # a new month's file
    written = beacon.write_file(asked.path, content, version=version)
    if asked.json:
        _print_json(written.raw)
    elif written.is_held:
        _say_held(written)
    else:
        print(f"{asked.path} saved ({len(content.encode())} bytes).", file=sys.stderr)
    return HELD if written.is_held else OK


def _hooks(_beacon: None, asked: argparse.Namespace) -> int:
    if asked.do == "list":
        return _list_hooks(asked)
    agents = hook.AGENTS if ALL in asked.agents else tuple(dict.fromkeys(asked.agents))
    if not agents or not set(agents) <= set(hook.AGENTS):
        raise BeaconError(f"Name the agent: {', '.join(hook.AGENTS)} or {ALL}.")
    for agent in agents:
        if asked.do == "remove":
            path = hook_settings.remove(agent)
            print(f"{agent}: removed from {path}" if path else f"{agent}: no hooks are installed")
            continue
        url = asked.url or os.environ.get("BEACON_URL") or USUAL
        token = _token_for(agent)
        _check_token(agent, url, token)
        path = hook_settings.install(agent, url, token)
        print(f"{agent}: installed in {path}. Start a new session to use it.")
        if agent == "codex":
            print(
                "codex: open /hooks in Codex once and trust the hooks. Until then, it doesn't run them."
            )
    return OK


def _list_hooks(asked: argparse.Namespace) -> int:
    states = list(hook_settings.listed())
    if asked.json:
        rows = [
            {
                "agent": one.agent,
                "file": str(one.path),
                "events": one.events,
                "token": one.has_token,
            }
            for one in states
        ]
        return _print_json(rows)
    for one in states:
        token = "" if one.has_token or not one.events else " (no token stored)"
        said = f"{', '.join(one.events)} in {one.path}{token}" if one.events else "not installed"
        print(f"{one.agent}: {said}")
    return OK


def _token_for(agent: str) -> str:
    """Return the token: from the environment, typed without an echo, or from standard input."""
    token = os.environ.get("BEACON_API_TOKEN", "")
    if not token and sys.stdin.isatty():
        token = getpass.getpass(f"Token for {agent} (Agents → API tokens): ")
    elif not token:
        token = sys.stdin.readline()
    token = token.strip()
    if not token:
        raise BeaconError(
            "There is no token. Create one with the scopes read and write in Beacon under "
            "Agents → API tokens, then run this again."
        )
    return token


def _check_token(agent: str, url: str, token: str) -> None:
    """Raise BeaconError if Beacon refuses the token, or the token can do more than an agent.

    If Beacon is down, say so and continue.
    """
    beacon = hook.Beacon(url, token, time.monotonic() + SETUP_SECONDS)
    try:
        # Like the hooks' own requests: external text would count as read, and hold the agent's writes.
        beacon.ask("POST", "context", {"message": "", "external": False})
        beacon.ask("POST", f"sessions/{agent}-setup/consolidate", {"messages": []})
    except hook.NotReached as exc:
        print(
            f"{agent}: {url} can't be reached ({exc}), so the token wasn't checked.",
            file=sys.stderr,
        )
    except hook.Refused as exc:
        raise BeaconError(f"{exc} Nothing was installed.") from exc
    else:
        _check_no_admin(agent, beacon)


def _check_no_admin(agent: str, beacon: hook.Beacon) -> None:
    """Raise BeaconError for a token with the scope admin: what it writes counts as the user's words."""
    try:
        beacon.ask("GET", "proposals?limit=1")
    except hook.Refused:
        return
    except hook.NotReached as exc:
        print(f"{agent}: the token's scopes weren't checked ({exc}).", file=sys.stderr)
        return
    raise BeaconError(
        "This token has the scope admin, which is only for people. Create one with the scopes read "
        "and write in Beacon under Agents → API tokens. Nothing was installed."
    )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + "…"


def _text_of(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BeaconError(f"{name} can't be read: {exc}") from exc


def _print_json(value: Any) -> int:
    print(json.dumps(value, indent=2, ensure_ascii=False))
    return OK


if __name__ == "__main__":
    sys.exit(main())
