"""The `memory` tool: Anthropic's six commands over the agent's own folder (docs/dev/formats.md).

Answers and errors have the documented words, because models are trained on them, so they aren't
translated. What Beacon adds, such as a write held for approval, is in Beacon's own words.
"""

from __future__ import annotations

from typing import Any, Literal

from django.db import transaction
from django.utils.translation import gettext as _
from pydantic import Field, model_validator

from beacon_site.text.cleaning import as_data
from memory.core.file_format import folder_of, lines_of
from memory.files.agent_folder import (
    ROOT,
    CommandRefused,
    Folder,
    Place,
    check_file_name,
    listing,
    numbered,
    place_at,
)
from memory.files.services import Act, NewText, Rows, replaced
from memory.files.texts import MOST_EPISODES, cleaned
from memory.models import MemoryFile, Trust
from memory.tools.files import saved_if_allowed
from memory.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    named,
    refused,
    why_held,
)

MOST_LINES = 999_999
AROUND = 2  # lines shown on each side of a replacement
LONGEST_QUOTED = 400  # characters of old_str in an error

LONGEST = 1_000  # characters of a path, which is then rejected in the documented words

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]
NEEDED: dict[str, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


class CommandArguments(Arguments):
    """A command and its arguments."""

    command: Command = Field(description="What to do.")
    path: str | None = Field(
        None, max_length=LONGEST, description="The path, such as /memories/notes.md."
    )
    view_range: list[int] | None = Field(
        None, min_length=2, max_length=2, description="view: first and last line. -1 is the last."
    )
    file_text: str | None = Field(
        None, max_length=MOST_EPISODES, description="create: the text of the new file."
    )
    old_str: str | None = Field(
        None,
        max_length=MOST_EPISODES,
        description="str_replace: text that occurs in the file exactly once.",
    )
    new_str: str = Field(
        "",
        max_length=MOST_EPISODES,
        description="str_replace: the replacement. Empty deletes the text.",
    )
    insert_line: int | None = Field(
        None, description="insert: the line after which to insert. 0 is the beginning."
    )
    insert_text: str | None = Field(
        None, max_length=MOST_EPISODES, description="insert: the text to insert."
    )
    old_path: str | None = Field(None, max_length=LONGEST, description="rename: the present path.")
    new_path: str | None = Field(None, max_length=LONGEST, description="rename: the new path.")

    @model_validator(mode="after")
    def _check_needed(self) -> CommandArguments:
        missing = [name for name in NEEDED[self.command] if getattr(self, name) is None]
        if missing:
            told = {"command": self.command, "names": ", ".join(missing)}
            raise ValueError(_("“%(command)s” needs %(names)s") % told)
        return self


def run(context: ToolContext, asked: CommandArguments) -> ToolResult:
    """Carry out one command, and return the documented answer."""
    act = {
        "view": _view, "create": _create, "str_replace": _str_replace, "insert": _insert,
        "delete": _delete, "rename": _rename,
    }[asked.command]  # fmt: skip
    try:
        with transaction.atomic():
            return act(context, _folder_of(context), asked)
    except CommandRefused as exc:
        return refused(exc.code, str(exc))


def _folder_of(context: ToolContext) -> Folder:
    name = context.agent.name if context.agent is not None else context.by.name or context.by.kind
    return Folder(context.owner, folder_of(name))


# --- reading ---


def _view(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(asked.path))
    file = MemoryFile.objects.of(context.owner).live().at(place.stored).first()
    if file is not None:
        return _text_of(context, place, file, asked.view_range)
    inside = [one for one in folder.rows() if one.path.startswith(f"{place.stored}/")]
    if place.names and not inside:
        words = f"The path {place.shown} does not exist. Please provide a valid path."
        raise CommandRefused("not_found", words)
    if asked.view_range:
        words = (
            "Error: The `view_range` parameter is not allowed when `path` points to a directory."
        )
        raise CommandRefused("invalid", words)
    files = [one for one in inside if context.may_read(one)]
    context.shown(*files)
    data = [{"path": one.path, "size": one.size, "version": one.version} for one in files]
    return ToolResult(listing(place, files), data={"files": data})


def _text_of(
    context: ToolContext, place: Place, file: MemoryFile, wanted: list[int] | None
) -> ToolResult:
    _check_readable(context, place, [file])
    context.seen[file.path] = file.version
    context.read([file])
    lines = lines_of(file.content)
    if len(lines) > MOST_LINES:
        words = f"File {place.shown} exceeds maximum line limit of 999,999 lines."
        raise CommandRefused("limit", words)
    first, last = wanted or (1, -1)
    last = len(lines) if last == -1 else last
    if wanted and not 1 <= first <= last <= len(lines):
        words = f"Error: Invalid `view_range` parameter: {wanted}. It should be within the range of lines of the file: [1, {len(lines)}]"
        raise CommandRefused("invalid", words)
    head = f"Here's the content of {place.shown} with line numbers:\n"
    body = _numbered(file, lines[first - 1 : last], first)
    return ToolResult(head + body, data=_of(file))


def _numbered(file: MemoryFile, lines: list[str], first: int) -> str:
    """Return lines with their numbers, marked as data if some of the file came from outside."""
    body = numbered(lines, first)
    return body if file.trust in (Trust.OWNER, Trust.AGENT) else as_data(body)


def _of(file: MemoryFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "version": file.version,
        "size": file.size,
        "records": [named(file)],
    }


def _check_readable(context: ToolContext, place: Place, files: list[MemoryFile]) -> None:
    if not all(context.may_read(one) for one in files):
        words = _("Only people can see %(path)s.") % {"path": place.shown}
        raise CommandRefused("sensitive", words)


# --- writing ---


def _create(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(asked.path))
    check_file_name(place)
    folder.hold()
    if folder.below(place):
        raise CommandRefused("exists", f"Error: File {place.shown} already exists")
    folder.check_free(place)
    answer = _saved(context, folder, place, None, str(asked.file_text))
    return _as(answer, f"File created successfully at: {place.shown}")


def _str_replace(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    place, file = _file(context, folder, asked, " Please provide a valid path.")
    text, old = str(file.content), cleaned(str(asked.old_str)).text
    quoted = old if len(old) <= LONGEST_QUOTED else f"{old[:LONGEST_QUOTED]}…"
    at = text.find(old) if old else -1
    if at < 0:
        words = f"No replacement was performed, old_str `{quoted}` did not appear verbatim in {place.shown}."
        raise CommandRefused("invalid", words)
    if text.find(old, at + 1) >= 0:
        at_lines = ", ".join(map(str, _lines_with(text, old)))
        words = f"No replacement was performed. Multiple occurrences of old_str `{quoted}` in lines: {at_lines}. Please ensure it is unique"
        raise CommandRefused("invalid", words)
    new = cleaned(asked.new_str).text
    after = text[:at] + new + text[at + len(old) :]
    answer = _saved(context, folder, place, file, after)
    first = text.count("\n", 0, at)
    lines = lines_of(after)
    begin, end = max(0, first - AROUND), first + new.count("\n") + AROUND + 1
    said = "The memory file has been edited. Here is the changed part, with line numbers:\n"
    edited = _as(answer, said + _numbered(file, lines[begin:end], begin + 1))
    if edited is not answer:
        context.shown(file)
    return edited


def _lines_with(text: str, old: str) -> list[int]:
    """Return the lines in which a text begins, counted from 1, at most a hundred."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0 and len(found) < 100:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    return list(dict.fromkeys(found))


def _insert(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    place, file = _file(context, folder, asked)
    lines, at = lines_of(str(file.content)), int(asked.insert_line or 0)
    if not 0 <= at <= len(lines):
        words = f"Error: Invalid `insert_line` parameter: {asked.insert_line}. It should be within the range of lines of the file: [0, {len(lines)}]"
        raise CommandRefused("invalid", words)
    fresh = cleaned(str(asked.insert_text)).text.removesuffix("\n")
    after = "\n".join([*lines[:at], fresh, *lines[at:]]) + "\n"
    answer = _saved(context, folder, place, file, after)
    return _as(answer, f"The file {place.shown} has been edited.")


def _file(
    context: ToolContext, folder: Folder, asked: CommandArguments, advice: str = ""
) -> tuple[Place, MemoryFile]:
    """Return the file to change, locked; a folder counts as a missing file."""
    place = place_at(folder.name, str(asked.path))
    folder.hold()
    file = folder.file_at(place)
    if file is None:
        stop = f".{advice}" if advice else ""
        raise CommandRefused("not_found", f"Error: The path {place.shown} does not exist{stop}")
    _check_readable(context, place, [file])
    return place, file


def _saved(
    context: ToolContext, folder: Folder, place: Place, file: MemoryFile | None, text: str
) -> ToolResult:
    """Save a file's new text if the review allows it; a held one becomes a proposal."""

    def edit(path: str, rows: Rows, act: Act) -> NewText:
        seen = file.version if file is not None else 0
        return replaced(context.owner, path, rows, text, act, seen=seen, join=False)

    return saved_if_allowed(context, place.stored, edit)


def _as(answer: ToolResult, said: str) -> ToolResult:
    """Return a stored write's answer in the documented words, with Beacon's warnings below."""
    if answer.is_error or "proposal" in answer.data:
        return answer
    text = "\n".join([said, *answer.data.get("warnings", ())])
    return ToolResult(text, data=answer.data)


# --- deleting and renaming ---


def _delete(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(asked.path))
    if not place.names:
        raise CommandRefused("invalid", f"Error: Cannot delete the {ROOT} directory itself")
    files = _files(context, folder, place)
    if held := _why_held(context, files):
        words = _(
            "Error: Only the user can delete %(path)s now: %(why)s. Nothing was deleted. Ask the user to delete it on the Files page."
        )
        raise CommandRefused("refused", words % {"path": place.shown, "why": held})
    folder.delete(files, by=context.by, source=context.source)
    return ToolResult(f"Successfully deleted {place.shown}", data=_of_many(files))


def _rename(context: ToolContext, folder: Folder, asked: CommandArguments) -> ToolResult:
    old, new = (place_at(folder.name, str(one)) for one in (asked.old_path, asked.new_path))
    if not old.names or not new.names or new.stored.startswith(f"{old.stored}/"):
        words = f"Error: Cannot rename {old.shown} to {new.shown}"
        raise CommandRefused("invalid", words)
    files = _files(context, folder, old)
    if old.stored == new.stored or folder.below(new):
        raise CommandRefused("exists", f"Error: The destination {new.shown} already exists")
    folder.check_free(new)
    if held := _why_held(context, files):
        words = _(
            "Error: You can’t rename %(path)s now: %(why)s. Nothing was renamed. Ask the user, or create a new file instead."
        )
        raise CommandRefused("refused", words % {"path": old.shown, "why": held})
    folder.rename(files, old, new, by=context.by, source=context.source)
    words = f"Successfully renamed {old.shown} to {new.shown}"
    return ToolResult(words, data=_of_many(files))


def _files(context: ToolContext, folder: Folder, place: Place) -> list[MemoryFile]:
    """Return the files at a place or below it, locked. Raises CommandRefused if there are none."""
    folder.hold()
    files = folder.below(place)
    if not files:
        raise CommandRefused("not_found", f"Error: The path {place.shown} does not exist")
    _check_readable(context, place, files)
    return files


def _why_held(context: ToolContext, files: list[MemoryFile]) -> str:
    """Return why a person must do this; empty if no file's path and text need one to disappear."""
    found = (why_held(context, "file", target=one, path=one.path, after="") for one in files)
    return next(filter(None, found), "")


def _of_many(files: list[MemoryFile]) -> dict[str, Any]:
    return _of(files[0]) if len(files) == 1 else {"records": [named(one) for one in files]}


TOOLS = (
    MemoryTool(
        "memory",
        "Your own memory directory, /memories: view, create, str_replace, insert, delete or rename its files. The user sees every file and version. View it before a task, and record progress and lessons as you work.",
        CommandArguments,
        run,
        writes=True,
    ),
)
