"""The `memory` tool: Anthropic's six commands over the agent's own folder (docs/dev/formats.md).

Answers and errors have the documented words, because models are trained on them, so they aren't
translated. What Beacon adds, such as a write held for approval, is in Beacon's own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction
from django.utils.translation import gettext as _
from pydantic import Field, model_validator

from beacon_site.text.cleaning import as_data, clean, shorten
from memory.agents.tools.files import written
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    hold_reason,
    record_entry,
    refused,
)
from memory.models import FileDraft, MemoryFile, User
from memory.models.actors import Actor
from memory.models.errors import Locked, MemoryRefused, OnlyPeople
from memory.models.file_format import (
    AGENTS,
    DEEPEST,
    MAX_PATH_LENGTH,
    agent_of,
    folder_of,
    is_name,
    lines_of,
)
from memory.services.files.saving import check_folder, check_names, hold_folder, replacing
from memory.services.files.texts import MAX_EPISODES, cleaned

MAX_LINES = 999_999
AROUND = 2  # lines shown on each side of a replacement
MAX_QUOTED_LENGTH = 400  # characters of old_str in an error

MAX_LENGTH = 1_000  # characters of a path, which is then rejected in the documented words

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
        None, max_length=MAX_LENGTH, description="The path, such as /memories/notes.md."
    )
    view_range: list[int] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="view: the first and the last line to read. -1 means the end of the file.",
    )
    file_text: str | None = Field(
        None, max_length=MAX_EPISODES, description="create: the text of the new file."
    )
    old_str: str | None = Field(
        None,
        max_length=MAX_EPISODES,
        description="str_replace: text that occurs in the file exactly once.",
    )
    new_str: str = Field(
        "",
        max_length=MAX_EPISODES,
        description="str_replace: the replacement. Leave empty to delete the text.",
    )
    insert_line: int | None = Field(
        None, description="insert: the line after which to insert the text. 0 means the beginning."
    )
    insert_text: str | None = Field(
        None, max_length=MAX_EPISODES, description="insert: the text to insert."
    )
    old_path: str | None = Field(
        None, max_length=MAX_LENGTH, description="rename: the current path."
    )
    new_path: str | None = Field(None, max_length=MAX_LENGTH, description="rename: the new path.")

    @model_validator(mode="after")
    def _check_needed(self) -> CommandArguments:
        missing = [name for name in NEEDED[self.command] if getattr(self, name) is None]
        if missing:
            params = {"command": self.command, "names": ", ".join(missing)}
            raise ValueError(_("“%(command)s” needs %(names)s") % params)
        return self


def run(context: ToolContext, args: CommandArguments) -> ToolResult:
    """Carry out one command, and return the documented answer."""
    act = {
        "view": _view, "create": _create, "str_replace": _str_replace, "insert": _insert,
        "delete": _delete, "rename": _rename,
    }[args.command]  # fmt: skip
    try:
        with transaction.atomic():
            return act(context, _folder_of(context), args)
    except CommandRefused as exc:
        return refused(exc.code, str(exc))


def _folder_of(context: ToolContext) -> Folder:
    name = context.agent.name if context.agent is not None else context.by.name or context.by.kind
    return Folder(context.owner, folder_of(name))


# --- reading ---


def _view(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(args.path))
    file = MemoryFile.objects.for_user(context.owner).live().at(place.stored).first()
    if file is not None:
        return _text_of(context, place, file, args.view_range)
    inside = [one for one in folder.rows() if one.path.startswith(f"{place.stored}/")]
    if place.names and not inside:
        words = f"The path {place.shown} does not exist. Please provide a valid path."
        raise CommandRefused("not_found", words)
    if args.view_range:
        words = (
            "Error: The `view_range` parameter is not allowed when `path` points to a directory."
        )
        raise CommandRefused("invalid", words)
    files = [one for one in inside if context.may_read(one)]
    context.shown(*files)
    data = [{"path": one.path, "size": one.size, "version": one.version} for one in files]
    return ToolResult(listing(place, files), data={"files": data})


def _text_of(
    context: ToolContext, place: Place, file: MemoryFile, numbers: list[int] | None
) -> ToolResult:
    _check_readable(context, place, [file])
    context.seen[file.path] = file.version
    context.read([file])
    lines = lines_of(file.content)
    if len(lines) > MAX_LINES:
        words = f"File {place.shown} exceeds maximum line limit of 999,999 lines."
        raise CommandRefused("limit", words)
    first, last = numbers or (1, -1)
    last = len(lines) if last == -1 else last
    if numbers and not 1 <= first <= last <= len(lines):
        words = f"Error: Invalid `view_range` parameter: {numbers}. It should be within the range of lines of the file: [1, {len(lines)}]"
        raise CommandRefused("invalid", words)
    head = f"Here's the content of {place.shown} with line numbers:\n"
    body = _numbered(file, lines[first - 1 : last], first)
    return ToolResult(head + body, data=_of(file))


def _numbered(file: MemoryFile, lines: list[str], first: int) -> str:
    """Return lines with their numbers, marked as data if some of the file came from outside."""
    body = numbered(lines, first)
    return as_data(body) if file.is_outside else body


def _of(file: MemoryFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "version": file.version,
        "size": file.size,
        "records": [record_entry(file)],
    }


def _check_readable(context: ToolContext, place: Place, files: list[MemoryFile]) -> None:
    if not all(context.may_read(file) for file in files):
        raise OnlyPeople(place.shown)


# --- writing ---


def _create(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(args.path))
    check_file_name(place)
    folder.hold()
    if folder.below(place):
        raise CommandRefused("exists", f"Error: File {place.shown} already exists")
    folder.check_free(place)
    answer = _saved(context, place, None, str(args.file_text))
    return _as(answer, f"File created successfully at: {place.shown}")


def _str_replace(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    place, file = _file(context, folder, args, " Please provide a valid path.")
    text, old = str(file.content), cleaned(str(args.old_str))[0]
    quoted = old if len(old) <= MAX_QUOTED_LENGTH else f"{old[:MAX_QUOTED_LENGTH]}…"
    at = text.find(old) if old else -1
    if at < 0:
        words = f"No replacement was performed, old_str `{quoted}` did not appear verbatim in {place.shown}."
        raise CommandRefused("invalid", words)
    if text.find(old, at + 1) >= 0:
        at_lines = ", ".join(map(str, _lines_with(text, old)))
        words = f"No replacement was performed. Multiple occurrences of old_str `{quoted}` in lines: {at_lines}. Please ensure it is unique"
        raise CommandRefused("invalid", words)
    new = cleaned(args.new_str)[0]
    after = text[:at] + new + text[at + len(old) :]
    answer = _saved(context, place, file, after)
    first = text.count("\n", 0, at)
    lines = lines_of(after)
    begin, end = max(0, first - AROUND), first + new.count("\n") + AROUND + 1
    message = "The memory file has been edited. Here is the changed part, with line numbers:\n"
    edited = _as(answer, message + _numbered(file, lines[begin:end], begin + 1))
    if edited is not answer:
        context.shown(file)
    return edited


def _lines_with(text: str, old: str) -> list[int]:
    """Return the lines in which a text begins, counted from 1, at most a hundred."""
    results: list[int] = []
    at = text.find(old)
    while at >= 0 and len(results) < 100:
        results.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    return list(dict.fromkeys(results))


def _insert(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    place, file = _file(context, folder, args)
    lines, at = lines_of(str(file.content)), int(args.insert_line or 0)
    if not 0 <= at <= len(lines):
        words = f"Error: Invalid `insert_line` parameter: {args.insert_line}. It should be within the range of lines of the file: [0, {len(lines)}]"
        raise CommandRefused("invalid", words)
    fresh = cleaned(str(args.insert_text))[0].removesuffix("\n")
    after = "\n".join([*lines[:at], fresh, *lines[at:]]) + "\n"
    answer = _saved(context, place, file, after)
    return _as(answer, f"The file {place.shown} has been edited.")


def _file(
    context: ToolContext, folder: Folder, args: CommandArguments, advice: str = ""
) -> tuple[Place, MemoryFile]:
    """Return the file to change, locked; a folder counts as a missing file."""
    place = place_at(folder.name, str(args.path))
    folder.hold()
    file = folder.file_at(place)
    if file is None:
        stop = f".{advice}" if advice else ""
        raise CommandRefused("not_found", f"Error: The path {place.shown} does not exist{stop}")
    _check_readable(context, place, [file])
    return place, file


def _saved(context: ToolContext, place: Place, file: MemoryFile | None, text: str) -> ToolResult:
    """Save a file's new text if the review allows it; a held one becomes a proposal."""
    seen = file.version if file is not None else 0
    return written(context, place.stored, replacing(text, seen=seen, join=False))


def _as(answer: ToolResult, message: str) -> ToolResult:
    """Return a stored write's answer in the documented words, with Beacon's warnings below."""
    if answer.is_error or "proposal" in answer.data:
        return answer
    text = "\n".join([message, *answer.data.get("warnings", ())])
    return ToolResult(text, data=answer.data)


# --- deleting and renaming ---


def _delete(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    place = place_at(folder.name, str(args.path))
    if not place.names:
        raise CommandRefused("invalid", f"Error: Cannot delete the {ROOT} directory itself")
    files = _files(context, folder, place)
    if held := _why_held(context, files):
        words = _(
            "Error: You can’t delete %(path)s: %(why)s. Nothing was deleted. Ask the user to delete it on the Files page."
        )
        raise CommandRefused("refused", words % {"path": place.shown, "why": held})
    folder.delete(files, by=context.by, source=context.source)
    return ToolResult(f"Successfully deleted {place.shown}", data=_of_many(files))


def _rename(context: ToolContext, folder: Folder, args: CommandArguments) -> ToolResult:
    old, new = (place_at(folder.name, str(one)) for one in (args.old_path, args.new_path))
    if not old.names or not new.names or new.stored.startswith(f"{old.stored}/"):
        words = f"Error: Cannot rename {old.shown} to {new.shown}"
        raise CommandRefused("invalid", words)
    files = _files(context, folder, old)
    if old.stored == new.stored or folder.below(new):
        raise CommandRefused("exists", f"Error: The destination {new.shown} already exists")
    folder.check_free(new)
    if held := _why_held(context, files):
        words = _(
            "Error: You can’t rename %(path)s: %(why)s. Nothing was renamed. Ask the user, or create a new file instead."
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
    found = (hold_reason(context, "file", target=file, path=file.path, after="") for file in files)
    return next(filter(None, found), "")


def _of_many(files: list[MemoryFile]) -> dict[str, Any]:
    return _of(files[0]) if len(files) == 1 else {"records": [record_entry(file) for file in files]}


TOOLS = (
    MemoryTool(
        "memory",
        "Your own memory directory, /memories: view, create, str_replace, insert, delete or rename its files. The user sees every file and version. View it before a task, and record progress and lessons as you work.",
        CommandArguments,
        run,
        writes=True,
    ),
)


# --- Agent folder ---
#
# An agent's own folder of memory files, as the `memory` tool sees it (docs/dev/formats.md).
#
# The agent's path `/memories/notes.md` is the memory file `agents/<folder>/notes.md`, so limits,
# history, locks, review and Trash are those of every memory file. Folders exist only as part of paths.


ROOT = "/memories"
DEPTH = 2  # levels in a listing


class CommandRefused(MemoryRefused):
    """A command can't be carried out, in the words that models expect; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Place:
    """A path as the agent wrote it, and the stored path; `names` is empty for the folder itself."""

    shown: str
    stored: str
    names: tuple[str, ...]


def place_at(folder: str, path: str) -> Place:
    """Return the place of a path below /memories.

    Nothing is decoded or resolved, so no other spelling leads elsewhere. Raises CommandRefused.
    """
    shown = path.removesuffix("/")
    root, *names = shown.split("/")[1:] if shown.startswith("/") else ["", ""]
    stored = "/".join((AGENTS + folder, *names))
    is_valid = f"/{root}" == ROOT and len(names) <= DEEPEST and all(map(is_name, names))
    if not is_valid or len(stored) > MAX_PATH_LENGTH:
        text = shorten(clean(path[:400])[0], 80)
        words = f"Error: Invalid path {text}. A path starts with {ROOT}. Names are made of letters, digits, spaces and _ . - + , ( ), and begin with a letter or a digit."
        raise CommandRefused("invalid", words)
    return Place(shown, stored, tuple(names))


def check_file_name(place: Place) -> None:
    """Raise CommandRefused if a file can't have this path: files need an extension."""
    if not agent_of(place.stored):
        words = f"Error: Invalid path {place.shown}. A file needs a name with an extension, such as {ROOT}/notes.md."
        raise CommandRefused("invalid", words)


class Folder:
    """One agent's folder. Changes hold it until the transaction ends."""

    def __init__(self, owner: User, name: str) -> None:
        self.owner, self.name = owner, name

    def rows(self) -> list[MemoryFile]:
        """Return all files without their text."""
        rows = MemoryFile.objects.for_user(self.owner).live().own(self.name)
        return list(rows.defer("content", "blame").order_by("path"))

    def hold(self) -> None:
        """Keep others from creating, renaming or deleting files here until the transaction ends."""
        hold_folder(self.owner, self.name)

    def file_at(self, place: Place) -> MemoryFile | None:
        """Return the file at a place, locked; None if there is none or it's a folder."""
        rows = MemoryFile.objects.for_user(self.owner).live().at(place.stored)
        return rows.select_for_update(of=("self",), no_key=True).first()

    def below(self, place: Place) -> list[MemoryFile]:
        """Return the file at a place or, for a folder, all files in it, locked."""
        rows = MemoryFile.objects.for_user(self.owner).live().own(self.name).order_by("path")
        held = list(rows.select_for_update(of=("self",), no_key=True))
        inside = f"{place.stored}/"
        return [one for one in held if one.path == place.stored or one.path.startswith(inside)]

    def check_free(self, place: Place) -> None:
        """Raise CommandRefused if a file's path goes through another file."""
        above = [
            "/".join((AGENTS + self.name, *place.names[:n])) for n in range(1, len(place.names))
        ]
        rows = MemoryFile.objects.for_user(self.owner).live().filter(path__in=above)
        if through := rows.values_list("path", flat=True).first():
            words = f"Error: {ROOT}{through.removeprefix(AGENTS + self.name)} is a file, so it can't contain {place.shown}"
            raise CommandRefused("exists", words)

    def delete(self, files: list[MemoryFile], *, by: Actor, source: str) -> None:
        """Move files to Trash, all or none. Raises Locked."""
        for file in files:
            _check_unlocked(file, by)
            file.trash(by=by, source=source)

    def rename(
        self, files: list[MemoryFile], old: Place, new: Place, *, by: Actor, source: str
    ) -> None:
        """Rename a file, or a folder with all files in it. The history stays with each file.

        Raises CommandRefused for a path that is too long or deep, InvalidValue and Locked.
        """
        with transaction.atomic():
            for file in files:
                path = new.stored + file.path.removeprefix(old.stored)
                if not agent_of(path):
                    check_file_name(Place(new.shown, path, ()))
                check_names(path, by)
                _check_unlocked(file, by)
                was = file.path
                why = _("renamed from %(path)s") % {"path": was}
                drafts = FileDraft.objects.for_user(self.owner)
                if drafts.filter(path=was).exists():
                    drafts.filter(path=path).delete()  # of a file that no longer exists
                    drafts.filter(path=was).update(path=path)
                file.change(by=by, why=why, source=source, path=path)


def _check_unlocked(file: MemoryFile, by: Actor) -> None:
    """Raise Locked if `by` can't delete or rename the file because of its folder or its sections."""
    check_folder(file.path, by)
    if file.section_locks and not by.is_person:
        params = {"section": " › ".join(file.section_locks[0]), "path": file.path}
        words = _(
            "The section “%(section)s” of %(path)s is locked, so only a person can delete or rename the file. Nothing was changed."
        )
        raise Locked(words % params)


def listing(place: Place, files: list[MemoryFile]) -> str:
    """Return the folders and files up to two levels below a place, with their sizes."""
    sizes: dict[str, int] = {}
    total = 0
    for file in files:
        names = file.path.removeprefix(f"{place.stored}/").split("/")
        if "node_modules" in names:
            continue
        total += file.size
        for depth in range(1, min(DEPTH, len(names)) + 1):
            name = "/".join(names[:depth]) + ("/" if depth < len(names) else "")
            sizes[name] = sizes.get(name, 0) + file.size
    head = f"Here're the files and directories up to 2 levels deep in {place.shown}, excluding hidden items and node_modules:"
    lines = [f"{short_size(size)}\t{place.shown}/{name}" for name, size in sorted(sizes.items())]
    return "\n".join([head, f"{short_size(total)}\t{place.shown}", *lines])


def short_size(size: int) -> str:
    """Return a size as in a listing: 12B, 5.5K, 1.2M."""
    for unit, step in (("M", 1_048_576), ("K", 1024)):
        if size >= step:
            return f"{size / step:.1f}".removesuffix(".0") + unit
    return f"{size}B"


def numbered(lines: list[str], first: int) -> str:
    """Return lines with their numbers, six characters wide, and a tab."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start=first))
