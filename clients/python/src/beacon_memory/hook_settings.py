"""Install, list and remove Beacon's hooks in the settings of Claude Code, Codex and Cursor.

Everything else in a settings file keeps its bytes. Each hook is inserted as one piece of text, and
the pieces are noted, so that removing them restores the file exactly. If the file has changed since,
the hooks are found by their command instead, and the rest still keeps its bytes.
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon_memory import hook
from beacon_memory.errors import BeaconError

# In the command of each of our hooks: the plugin's file, or the installed package's.
# Imports the file in the next argument (see `hook.start`). It has no quotation marks, as shells differ.
START = (
    "import os, sys; f = sys.argv.pop(1); sys.path.append(os.path.dirname(f)); "
    "__import__(os.path.basename(f)[:-3]).start()"
)
OURS = re.compile(r"beacon_hook\.py|beacon_memory[/\\]+hook\.py")
BEGIN, END = "# beacon-memory hooks: begin", "# beacon-memory hooks: end"
BINARY = getattr(os, "O_BINARY", 0)  # on Windows
TIMEOUT = 5  # seconds; the hook itself takes at most one
STARTS = "startup|resume|clear|compact"

# Events with their matcher. Each agent's documents are named in docs/dev/formats.md.
EVENTS: dict[str, dict[str, str]] = {
    "claude-code": {
        "SessionStart": "", "UserPromptSubmit": "", "Stop": "", "PreCompact": "", "SessionEnd": "",
    },
    "codex": {"SessionStart": STARTS, "UserPromptSubmit": "", "Stop": "", "PreCompact": ""},
    "cursor": dict.fromkeys(
        ("sessionStart", "beforeSubmitPrompt", "postToolUse", "afterAgentResponse"), ""
    ),
}  # fmt: skip


@dataclass(frozen=True)
class State:
    """What is installed for one agent, and in which file."""

    agent: str
    path: Path
    events: list[str]
    has_token: bool


def install(agent: str, url: str, token: str) -> Path:
    """Store the token, add the hooks, and return the settings file.

    Hooks that are there already are replaced. Raises BeaconError if the settings can't be read;
    nothing is changed then.
    """
    path = settings_file(agent)
    text, was_made = _without(agent, path, _read(path))
    after, pieces = _with(agent, path, text)
    told = {"url": url, "token": token, "file": str(path), "pieces": pieces, "sha256": _sha(after)}
    _store(agent, {**told, "made": was_made or not path.exists()})
    _write(path, after)
    return path


def remove(agent: str) -> Path | None:
    """Remove the hooks and the token. Return the settings file, or None if none were installed."""
    found = None
    for path in {settings_file(agent), *_noted_file(agent)}:
        before = _read(path)
        text, is_made = _without(agent, path, before)
        if text == before:
            continue
        found = path
        if is_made and not text.strip():
            path.unlink()
        else:
            _write(path, text)
    had = bool(_noted(agent))
    _store(agent, None)
    return found or (settings_file(agent) if had else None)


def listed() -> Iterator[State]:
    """Yield the state of each agent."""
    for agent in EVENTS:
        path = next(iter(_noted_file(agent)), None) or settings_file(agent)
        text = _read(path) if path.exists() else ""
        events = [one for one in EVENTS[agent] if _is_in(text, one)] if OURS.search(text) else []
        yield State(agent, path, events, bool(_noted(agent).get("token")))


def _is_in(text: str, event: str) -> bool:
    return re.search(rf'"{event}"|hooks\.{event}\]', text) is not None


# --- files ---


def settings_file(agent: str) -> Path:
    """Return the file that holds the agent's hooks for all projects.

    Codex reads hooks.json and config.toml, and prefers one of them: hooks.json if it's in use.
    """
    home = Path.home()
    if agent == "claude-code":
        base = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        return base / "settings.json"
    if agent == "cursor":
        return home / ".cursor" / "hooks.json"
    base = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    as_json = base / "hooks.json"
    return as_json if as_json.exists() else base / "config.toml"


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as exc:
        raise BeaconError(f"{path} can't be read ({exc}). Nothing was changed.") from exc


def _write(path: Path, text: str) -> None:
    """Replace a file whole, also behind a link, and keep its permissions."""
    path = path.resolve()
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        fresh.unlink(missing_ok=True)
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
        with os.fdopen(file, "wb") as out:
            out.write(text.encode("utf-8"))
        fresh.chmod(mode)  # the umask can have removed some
        fresh.replace(path)
    except OSError as exc:
        fresh.unlink(missing_ok=True)
        raise BeaconError(f"{path} can't be written ({exc}). It is unchanged.") from exc


def _store(agent: str, told: dict[str, Any] | None) -> None:
    """Store an agent's URL, token and inserted pieces in a file with mode 0600."""
    try:
        kept = hook.stored()
    except hook.Refused:
        kept = {}
    kept.pop(agent, None)
    if told is not None:
        kept[agent] = told
    try:
        if kept:
            hook.write_private(hook.config_file(), json.dumps(kept, indent=2) + "\n")
        else:
            Path(hook.config_file()).unlink(missing_ok=True)
    except OSError as exc:
        raise BeaconError(f"{hook.config_file()} can't be written ({exc}).") from exc


def _noted(agent: str) -> dict[str, Any]:
    try:
        told = hook.stored().get(agent)
    except hook.Refused:
        return {}
    return told if isinstance(told, dict) else {}


def _noted_file(agent: str) -> list[Path]:
    return [Path(one) for one in [_noted(agent).get("file")] if isinstance(one, str)]


# --- the hooks ---


def command(agent: str) -> str:
    """Return the command of the hooks. It has no token, since others could read it."""
    parts = [sys.executable, "-I", "-S", "-c", START, str(Path(hook.__file__).resolve()), agent]
    return subprocess.list2cmdline(parts) if os.name == "nt" else shlex.join(parts)


def entry(agent: str, event: str) -> dict[str, Any]:
    """Return the element of an event's array."""
    if agent == "cursor":
        return {"command": command(agent), "timeout": TIMEOUT}
    handler = {"type": "command", "command": command(agent), "timeout": TIMEOUT}
    matcher = EVENTS[agent][event]
    return {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}


def _with(agent: str, path: Path, text: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the text with the hooks, and where which pieces were inserted, one after another."""
    if path.suffix == ".toml":
        return _with_toml(agent, path, text)
    pieces: list[tuple[int, str]] = []
    if not text.strip():
        base: dict[str, Any] = {"version": 1} if agent == "cursor" else {}
        hooks = {event: [entry(agent, event)] for event in EVENTS[agent]}
        made = json.dumps({**base, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n"
        return text + made, [(len(text), made)]
    _check_json(path, text)
    found = re.search(r"\n([ \t]+)\S", text)
    unit, line = found[1] if found else "  ", "\r\n" if "\r\n" in text else "\n"
    for event in EVENTS[agent]:
        at, piece = _place_in_json(text, path, event, entry(agent, event), unit)
        piece = piece.replace("\n", line)
        text = text[:at] + piece + text[at:]
        pieces.append((at, piece))
    _check_json(path, text)
    return text, pieces


def _without(agent: str, path: Path, text: str) -> tuple[str, bool]:
    """Return the text without our hooks, and whether the file was created for them."""
    told = _noted(agent)
    if told.get("file") == str(path) and told.get("sha256") == _sha(text):
        for at, piece in reversed(told["pieces"]):
            text = text[:at] + text[at + len(piece) :]
        return text, bool(told.get("made"))
    if not OURS.search(text):
        return text, False
    if path.suffix == ".toml":
        return _without_tables(path, text), False
    return _without_ours(path, text), False


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- TOML: one block at the end ---


def _with_toml(agent: str, path: Path, text: str) -> tuple[str, list[tuple[int, str]]]:
    _check_toml(path, text)
    line = "\r\n" if "\r\n" in text else "\n"
    rows = [f"{BEGIN} (remove them with: beacon-memory hooks remove {agent})"]
    for event, matcher in EVENTS[agent].items():
        rows.append(f"[[hooks.{event}]]")
        if matcher:
            rows.append(f"matcher = {json.dumps(matcher)}")
        rows += [
            f"[[hooks.{event}.hooks]]",
            'type = "command"',
            f"command = {json.dumps(command(agent), ensure_ascii=False)}",
            f"timeout = {TIMEOUT}",
        ]
    rows.append(END)
    gap = "" if not text else line if text.endswith("\n") else line * 2
    piece = gap + line.join(rows) + line
    _check_toml(path, text + piece)
    return text + piece, [(len(text), piece)]


def _check_toml(path: Path, text: str) -> None:
    """Raise BeaconError if this isn't TOML. Before Python 3.11 there is no parser to ask."""
    try:
        import tomllib
    except ImportError:
        return
    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as exc:
        raise BeaconError(
            f"{path}: the hooks can't be added ({exc}). Nothing was changed. If the file defines "
            "“hooks” in one line, write them as [[hooks.…]] tables first."
        ) from exc


_HEADER = re.compile(r"[ \t]*\[\[?([^\]]+)\]\]?[ \t]*(?:#.*)?\r?\n?")
_COMMAND = re.compile(r"""\bcommand["']?[ \t]*=[ \t]*("(?:\\.|[^"\\])*"|'[^']*')""")


def _without_tables(path: Path, text: str) -> str:
    """Return the text without the tables of our hooks and our two marker lines.

    Whatever else is between the markers stays, since other programs insert their tables there.
    """
    parts: list[list[str]] = [[]]  # the lines before the first table, then those of each table
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        if line.startswith(BEGIN) or line.rstrip() == END:
            if line.startswith(BEGIN) and parts[-1] and not parts[-1][-1].strip():
                parts[-1].pop()
            continue
        if _HEADER.fullmatch(line):
            parts.append([])
        parts[-1].append(line)
    groups: dict[str, int] = {}  # the last [[hooks.Event]] of each event
    handlers: dict[int, list[int]] = {}  # its [[hooks.Event.hooks]]
    for n, lines in enumerate(parts[1:], start=1):
        found = _HEADER.fullmatch(lines[0])
        keys = re.sub(r"[\s\"']", "", found[1] if found else "").split(".")
        if keys[0] == "hooks" and len(keys) == 2:
            groups[keys[1]] = n
            handlers[n] = []
        elif keys[0] == keys[-1] == "hooks" and len(keys) == 3 and keys[1] in groups:
            handlers[groups[keys[1]]].append(n)
    for group, inside in handlers.items():
        ours = [n for n in inside if _is_our_table(parts[n])]
        if _is_our_table(parts[group]) or (ours and ours == inside):
            ours.append(group)
        for n in ours:
            parts[n] = _behind_keys(parts[n])
    after = "".join(line for lines in parts for line in lines)
    _check_rest(path, text, after)
    return after


def _is_our_table(lines: list[str]) -> bool:
    commands = _COMMAND.findall("".join(lines))
    return bool(commands) and all(OURS.search(one) for one in commands)


def _behind_keys(lines: list[str]) -> list[str]:
    """Return the blank lines and comments behind a table's last key: they belong to what follows."""
    end = len(lines)
    while lines[end - 1].strip() == "" or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    return lines[end:]


def _check_rest(path: Path, before: str, after: str) -> None:
    """Raise BeaconError unless `after` has all of `before` except our handlers."""
    try:
        import tomllib
    except ImportError:
        return
    try:
        had, has = (tomllib.loads(one.replace("\r\n", "\n")) for one in (before, after))
    except tomllib.TOMLDecodeError as exc:
        raise BeaconError(f"{path} can't be read ({exc}). Nothing was changed.") from exc
    events = had.get("hooks", {})
    for event, groups in list(events.items()):
        if not isinstance(groups, list):
            continue
        for group in list(groups):
            inside = group.get("hooks", [])
            kept = [one for one in inside if not OURS.search(str(one.get("command")))]
            if kept != inside:
                group["hooks"] = kept
                groups[:] = [one for one in groups if one is not group or kept]
        if not groups:
            del events[event]
    if not events and "hooks" not in has:
        had.pop("hooks", None)
    if had != has:
        raise BeaconError(
            f"{path}: Beacon's hooks can't be removed without changing other settings. Nothing was "
            "changed. Delete the tables with beacon_memory in their command, then try again."
        )


# --- JSON with comments: where things are in the text ---


def _check_json(path: Path, text: str) -> Any:
    """Return the value. Raises BeaconError if the text isn't a JSON object."""
    try:
        found = json.loads(plain_json(text))
    except ValueError as exc:
        raise BeaconError(f"{path} isn't valid JSON ({exc}). Nothing was changed.") from exc
    if not isinstance(found, dict):
        raise BeaconError(f"{path} isn't a JSON object. Nothing was changed.")
    return found


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)


def plain_json(text: str) -> str:
    """Return the text with spaces instead of comments, trailing commas and a byte order mark.

    Everything keeps its place, so places found here are those in the text.
    """

    def blanked(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])

    text = _TOKEN.sub(blanked, text)
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    parts = re.split(r'("(?:\\.|[^"\\])*")', text)
    joined = "\0".join(parts[::2])  # the text between strings
    joined = re.sub(r",(?=\s*[}\]])", " ", joined)
    between = joined.split("\0")
    return "".join(a + b for a, b in zip(between, [*parts[1::2], ""], strict=True))


def _values(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield key, begin and end of each value in the object or array that begins at `at`.

    `text` is plain JSON. The key of an array's element is empty.
    """
    decoder = json.JSONDecoder()
    is_object = text[at] == "{"
    at = _behind_space(text, at + 1)
    while text[at] not in "}]":
        key = ""
        if is_object:
            key, at = decoder.raw_decode(text, at)
            at = _behind_space(text, _behind_space(text, at) + 1)  # the colon
        _value, end = decoder.raw_decode(text, at)
        yield key, at, end
        at = _behind_space(text, end)
        if text[at] == ",":
            at = _behind_space(text, at + 1)


def _behind_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _member(text: str, at: int, key: str) -> int | None:
    """Return where the value of a key begins. The last one counts, as for parsers."""
    found = [begin for name, begin, _end in _values(text, at) if name == key]
    return found[-1] if found else None


def _place_in_json(
    text: str, path: Path, event: str, one: dict[str, Any], unit: str
) -> tuple[int, str]:
    """Return where to insert an event's hook, and the piece of text to insert."""
    plain = plain_json(text)
    top = _behind_space(plain, 0)
    value: Any = one
    hooks = _member(plain, top, "hooks")
    if hooks is None:
        return _insertion(plain, top, {"hooks": {event: [value]}}, unit, 1)
    if plain[hooks] != "{":
        raise BeaconError(f"{path}: “hooks” isn't an object. Nothing was changed.")
    array = _member(plain, hooks, event)
    if array is None:
        return _insertion(plain, hooks, {event: [value]}, unit, 2)
    if plain[array] != "[":
        raise BeaconError(f"{path}: “{event}” isn't a list. Nothing was changed.")
    return _insertion(plain, array, value, unit, 3)


def _insertion(plain: str, at: int, value: Any, unit: str, depth: int) -> tuple[int, str]:
    """Return the place behind the last value of a container, and the piece to insert there."""
    said = json.dumps(value, indent=unit, ensure_ascii=False)
    if plain[at] == "{":  # its one member, without the braces
        said = "\n".join(row[len(unit) :] for row in said.split("\n")[1:-1])
    said = said.replace("\n", "\n" + unit * depth)
    ends = [end for _key, _begin, end in _values(plain, at)]
    if ends:
        return ends[-1], f",\n{unit * depth}{said}"
    return at + 1, f"\n{unit * depth}{said}\n{unit * (depth - 1)}"


def _without_ours(path: Path, text: str) -> str:
    """Return the text without the handlers whose command is ours, and what became empty by that."""
    while True:
        span = _our_span(path, text)
        if span is None:
            return text
        text = text[: span[0]] + text[span[1] :]


def _our_span(path: Path, text: str) -> tuple[int, int] | None:
    _check_json(path, text)
    plain = plain_json(text)
    top = _behind_space(plain, 0)
    hooks = _member(plain, top, "hooks")
    if hooks is None or plain[hooks] != "{":
        return None
    for _event, array, _end in _values(plain, hooks):
        if plain[array] != "[":
            continue
        for _key, begin, _end in _values(plain, array):
            inside = _member(plain, begin, "hooks") if plain[begin] == "{" else None
            if inside is None or plain[inside] != "[":
                inside = array  # Cursor's handlers aren't in groups
            handlers = [begin] if inside == array else [at for _k, at, _e in _values(plain, inside)]
            ours = [at for at in handlers if _is_ours(plain, at)]
            if not ours:
                continue
            chain = [(inside, ours[0]), (array, begin), (hooks, array), (top, hooks)]
            for container, value in chain:
                if container == top or len(list(_values(plain, container))) > 1:
                    return _cut(plain, container, value)
    return None


def _is_ours(plain: str, at: int) -> bool:
    """Return True if the handler that begins at `at` runs our command."""
    command_at = _member(plain, at, "command") if plain[at] == "{" else None
    if command_at is None:
        return False
    return OURS.search(str(json.JSONDecoder().raw_decode(plain, command_at)[0])) is not None


def _cut(plain: str, container: int, value: int) -> tuple[int, int]:
    """Return the span of a value with its key and one comma, in its object or array."""
    previous = container + 1
    for _key, begin, end in _values(plain, container):
        if begin == value:
            following = _behind_space(plain, end)
            if plain[previous] == "," or plain[following] != ",":
                return previous, end
            return previous, following + 1
        previous = _behind_space(plain, end)
    raise AssertionError("the value is in its container")
