"""`/files`: memory files, their versions and entries.

Agents write through the same rules as tools.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Self

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, ConfigDict, Field

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.db.errors import retried
from memory.agents.tools.memory_commands import CommandArguments
from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolResult
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Body, Held, located, router
from memory.api.paging import PAGE, Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.shown import AS_OF, RowOut, shows, used
from memory.api.versions import IF_MATCH, IF_MATCH_OR_NONE, expected_version, tag_of, tagged
from memory.models import MemoryFile, Revision, Trust
from memory.models.as_of import as_it_was
from memory.models.errors import InvalidValue
from memory.models.file_format import checked_path
from memory.services.files.mirror import take_in
from memory.services.files.reading import read_file as read_file_at
from memory.services.files.saving import SaveResult, append_to, patch_file, rows_held, save_file
from memory.services.files.texts import MOST_EPISODES, FileConflict
from memory.services.records import history as record_history

MOST_PATCHES = 100
_WHY = Field("", max_length=500, description="Reason for the change, for its history.")


class FileIn(Body):
    """The whole text of a file."""

    content: str = Field(
        max_length=MOST_EPISODES,
        description="Markdown. The two fact files share a limit of 15 KiB. A month's file can have 256 KiB.",
    )
    why: str = _WHY


class PatchPair(Body):
    """A piece of text and its replacement."""

    old_text: str = Field(
        min_length=1, max_length=MOST_EPISODES, description="Must occur in the file exactly once."
    )
    new_text: str = Field(max_length=MOST_EPISODES)


class FilePatch(Body):
    """Replacements in a file, all or none."""

    patches: list[PatchPair] = Field(min_length=1, max_length=MOST_PATCHES)
    why: str = _WHY

    def pairs(self) -> list[tuple[str, str]]:
        return [(one.old_text, one.new_text) for one in self.patches]


class EntryIn(Body):
    """An entry to add at the end of a file."""

    entry: str = Field(min_length=1, max_length=MOST_EPISODES, description="Markdown.")
    summary: str | None = Field(
        None,
        max_length=500,
        description="The file's summary line. An agent can't replace a line that a person wrote.",
    )
    why: str = _WHY


class FileListed(RowOut):
    """A file without its text."""

    path: str
    summary: str
    summary_by: str = Field(
        description="Who wrote the summary line: `beacon` (generated), `person` or `agent`."
    )
    version: int
    size: int = Field(description="Size in bytes (UTF-8).")
    source: str
    trust: str
    sensitivity: str
    lock: str
    section_locks: list[list[str]] = Field(
        description="Headings of sections that only people can change."
    )
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, file: MemoryFile, **more: Any) -> Self:
        shows(file)
        return cls.from_row(file, **more)


class FileOut(FileListed):
    """A file with its exact text."""

    content: str


class FileSaved(FileOut):
    """A file as it was saved, and notices for its writer."""

    warnings: list[str]


class RevisionOut(RowOut):
    """One version of a file: who created it, when, and why."""

    version: int
    actor: str
    reason: str
    source: str
    size: int | None = Field(description="Size in bytes, if this version changed the text.")
    created: datetime

    @classmethod
    def of(cls, revision: Revision) -> Self:
        """Return the schema; the endpoint that lists revisions reports the file."""
        shows(trust=Trust.AGENT)
        return cls.from_row(revision, size=revision.after.get("size"))


# --- answers of tools as problems ---

# By the tools' error codes (`ToolResult`); any other error is a conflict.
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
    """Return the problem for a tool's error, with what the caller should do next."""
    data = result.data
    status = _STATUS.get(str(data.get("error", "")), 409)
    errors = {name: _lines(value) for name, value in dict(data.get("errors") or {}).items()}
    more = {name: data[name] for name in _TOLD if data.get(name) is not None}
    return Problem(status, str(data.get("message") or result.text), errors=errors, **more)


def _lines(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


# --- endpoints ---

api = router("files")
_ONE = "/{path:path}"
_SAVED = {200: FileSaved, 201: FileSaved, 202: Held}


@api.get("", auth=READ, response=Listing[FileListed])
def list_files(
    request: ApiRequest, page: PageParams = PAGE, as_of: str = AS_OF
) -> Listing[FileListed]:
    """List the memory files without their text: fact files first, then months, newest first."""
    caller = request.auth
    take_in(caller.owner)
    with as_it_was(caller, as_of):
        rows = MemoryFile.objects.of(caller.owner).live().defer("content", "blame")
        if not caller.by.is_person:
            rows = rows.for_agents()
        return listing(rows, page, name="files", out=FileListed.of, by="path")


# URLs below a file's come first: a path matches everything that follows.
@api.get(_ONE + "/revisions", auth=READ, response=Listing[RevisionOut])
def list_file_revisions(
    request: ApiRequest, path: str, page: PageParams = PAGE
) -> Listing[RevisionOut]:
    """List a file's versions, newest first: who created each, when, and why."""
    file = _file(request.auth, path)
    rows = record_history.revisions_of(file).order_by()
    return listing(rows, page, name=f"revisions of {file.pk}", out=RevisionOut.of)


@api.post(_ONE + "/entries", auth=WRITE, response=_SAVED)
def append_entry(request: ApiRequest, response: HttpResponse, path: str, entry: EntryIn) -> Any:
    """Append an entry to a file. The first entry of a month creates that month's file (201)."""
    caller = request.auth

    def save() -> SaveResult:
        return append_to(
            caller.owner, path, entry.entry, summary=entry.summary, by=caller.by, why=entry.why,
            source=caller.source, trust=caller.write_trust,
        )  # fmt: skip

    given = {"path": path, "entry": entry.entry, "summary": entry.summary}
    return _written(request, response, path, "memory_append", given, save)


@api.get(_ONE, auth=READ, response=FileOut)
def read_file(
    request: ApiRequest, response: HttpResponse, path: str, as_of: str = AS_OF
) -> FileOut:
    """Read a file's exact text. The ETag is its version."""
    with as_it_was(request.auth, as_of):
        file = _file(request.auth, path)
        used(request.auth, file)
        tagged(response, file)
        return FileOut.of(file)


@api.put(_ONE, auth=WRITE, response=_SAVED, openapi_extra=IF_MATCH_OR_NONE)
def write_file(request: ApiRequest, response: HttpResponse, path: str, file: FileIn) -> Any:
    """Replace a file's text (If-Match), or create a month's file (If-None-Match: *, 201)."""
    caller = request.auth

    def save() -> SaveResult:
        return save_file(
            caller.owner, path, file.content, by=caller.by, seen=seen, why=file.why,
            source=caller.source, trust=caller.write_trust,
        )  # fmt: skip

    # 0: it must not exist, even if another request creates it at the same time
    seen = 0 if _wants_new(request) else None
    given = {"path": path, "content": file.content, "version": seen}
    return _written(request, response, path, "memory_write", given, save, check=_check_seen)


@api.patch(_ONE, auth=WRITE, response=_SAVED, openapi_extra=IF_MATCH)
def patch_file_at(request: ApiRequest, response: HttpResponse, path: str, patch: FilePatch) -> Any:
    """Replace parts of a file.

    Either all patches are applied, or none. Each old text must occur exactly once.
    """
    caller = request.auth

    def save() -> SaveResult:
        return patch_file(
            caller.owner, path, patch.pairs(), by=caller.by, why=patch.why, source=caller.source,
            trust=caller.write_trust,
        )  # fmt: skip

    given = {"path": path, "patches": [one.model_dump() for one in patch.patches]}
    return _written(request, response, path, "memory_patch", given, save, check=_check_there)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_file(request: ApiRequest, path: str) -> Status[None]:
    """Move a month's file to Trash.

    Requires a token with the `admin` scope. Fact files can't be deleted (422).
    """
    caller = request.auth
    words = _("Only a person can move a file to Trash. Use a token with the “admin” scope.")
    only_people(caller, words)
    take_in(caller.owner)
    with transaction.atomic():
        path = _file(caller, path).path
        file = rows_held(caller.owner, path).get(path)
        _check_there(request, path, file)
        if file is not None:
            file.trash(by=caller.by)
    return Status(204, None)


def _written(
    request: ApiRequest,
    response: HttpResponse,
    path: str,
    tool: str,
    given: dict[str, Any],
    save: Callable[[], SaveResult],
    *,
    check: Callable[[ApiRequest, str, MemoryFile | None], None] | None = None,
) -> Any:
    """Store a write if it is based on the current version; 202 if it waits for a person.

    The answer is read before others can write: its version and text are those of this write.
    """
    caller = request.auth
    path = checked_path(path)
    take_in(caller.owner)

    def write() -> Any:
        before = _held(caller, path)
        if before is not None and not caller.may_read(before):
            raise _for_people(path)
        if check is not None:
            check(request, path, before)
        if caller.by.is_person:
            warnings = save().warnings
        else:
            result = call_tool(
                caller.context(), tool, {k: v for k, v in given.items() if v is not None}
            )
            if result.is_error:
                raise problem_of(result)
            if "proposal" in result.data:
                why = str(result.data.get("why", ""))
                return Status(202, Held(proposal=str(result.data["proposal"]), why=why))
            warnings = tuple(result.data.get("warnings", ()))
        file = rows_held(caller.owner, path)[path]
        # A page or tool created the file first, and this write was added to it.
        is_new = before is None and file.version == 1
        tagged(response, file)
        if is_new:
            located(response, f"/files/{path}")
        return Status(201 if is_new else 200, FileSaved.of(file, warnings=list(warnings)))

    try:
        return retried(write)
    except FileConflict as exc:  # it was to be created, and another request created it first
        raise _stale(read_file_at(caller.owner, path)) from exc


def _held(caller: Caller, path: str) -> MemoryFile | None:
    """Return the file, locked until the transaction ends; None also keeps others from creating it."""
    if file := rows_held(caller.owner, path).get(path):
        return file
    lock_until_commit(LockId.FILE_CREATION, f"{caller.owner.pk}:{path}")
    return rows_held(caller.owner, path).get(path)


def _check_seen(request: ApiRequest, path: str, file: MemoryFile | None) -> None:
    """Check the version that a PUT is based on.

    Raises Problem: 428 without it, 412 with `current`.
    """
    wants_new = _wants_new(request)
    if file is not None and not wants_new:
        _check_version(request, file)
    elif file is not None:
        raise _stale(file)
    elif not wants_new:
        words = _(
            "%(path)s doesn’t exist yet, so nothing was stored. Create it by sending the header “If-None-Match: *”, or by adding its first entry (POST …/entries)."
        )
        status = 412 if "If-Match" in request.headers else 428
        raise Problem(status, words % {"path": path})


def _wants_new(request: ApiRequest) -> bool:
    return request.headers.get("If-None-Match", "").strip() == "*"


def _check_there(request: ApiRequest, path: str, file: MemoryFile | None) -> None:
    if file is None:
        raise not_found(_("%(path)s doesn’t exist yet.") % {"path": path})
    _check_version(request, file)


def _check_version(request: ApiRequest, file: MemoryFile) -> None:
    try:
        expected_version(request, file)
    except Problem as exc:
        if exc.status == 412:
            raise _stale(file) from exc
        raise


def _stale(file: MemoryFile) -> Problem:
    """Return the problem with the current text, for the caller to merge."""
    words = _(
        "%(path)s has changed since you read it, so nothing was saved. Its text at version %(version)d is in `current`. Apply your change to that text and send it again."
    )
    shows(file)
    told = {"path": file.path, "version": file.version}
    tag = {"ETag": tag_of(file.version)}
    return Problem(412, words % told, headers=tag, current=file.content, version=file.version)


def _file(caller: Caller, path: str) -> MemoryFile:
    try:
        file = read_file_at(caller.owner, path)
    except InvalidValue as exc:
        raise not_found(str(exc)) from exc
    if not caller.may_read(file):
        raise _for_people(path)
    shows(file)
    file.owner = caller.owner
    return file


def _for_people(path: str) -> Problem:
    words = _("Agents can’t see %(path)s. To read it, use a token with the “admin” scope.")
    return Problem(403, words % {"path": path})


# --- Memory commands ---
#
# `/memory`: Anthropic's `memory` tool over REST, for programs that run the tool themselves.


commands_api = router("memory")


class CommandIn(CommandArguments):
    """One command with its arguments, as a model calls the tool."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


class CommandOut(BaseModel):
    """The answer for the model."""

    text: str = Field(description="The content of the tool_result block.")
    path: str = Field("", description="The memory file that was read or changed.")
    version: int | None = Field(None, description="Its version.")


@commands_api.post("", auth=WRITE, response={200: CommandOut, 202: Held})
def carry_out_command(request: ApiRequest, command: CommandIn) -> Any:
    """Run a command of Anthropic's memory tool in the agent's own folder.

    The response contains the text that Anthropic documents for the command. If the command fails,
    the text is in `detail`. `view` also needs the `read` scope.
    """
    caller = request.auth
    if command.command == "view" and not caller.may("read"):
        READ(request)  # refuses
    context = caller.context()
    context.agent = caller.agent
    result = call_tool(context, "memory", command.model_dump(exclude_none=True))
    shows(trust=context.trust)
    if result.is_error:
        raise problem_of(result)
    if "proposal" in result.data:
        why = str(result.data.get("why", ""))
        return Status(202, Held(proposal=str(result.data["proposal"]), why=why))
    data = result.data
    return CommandOut(text=result.text, path=data.get("path", ""), version=data.get("version"))
