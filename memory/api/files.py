"""`/files`: memory files, their versions and entries.

Data flow of a write: the version that it is based on is checked on the locked file -> written as by
a tool (`write_reviewed`) -> the stored file, or the proposal that waits for a person (202).
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

from beacon_site.db.errors import retried
from memory.agents.tools.files import write_reviewed
from memory.agents.tools.memory_commands import CommandArguments
from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolResult
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Body, PendingOut, located, router
from memory.api.paging import PAGE, Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.review import waiting
from memory.api.shown import AS_OF, RowOut, shows, used
from memory.api.versions import IF_MATCH, IF_MATCH_OR_NONE, expected_version, tag_of, tagged
from memory.models import MemoryFile, Proposal, Revision, Trust, User
from memory.models.as_of import as_it_was
from memory.models.errors import InvalidValue, OnlyPeople
from memory.services.files.mirror import import_edits
from memory.services.files.reading import read_file as read_file_at
from memory.services.files.saving import (
    Act,
    Edit,
    NewText,
    Rows,
    appending,
    patching,
    replacing,
    rows_held,
)
from memory.services.files.texts import MAX_EPISODES
from memory.services.records import history as record_history

MAX_PATCHES = 100
_REASON = Field("", max_length=500, description="Reason for the change, for its history.")


class FileIn(Body):
    """The whole text of a file."""

    content: str = Field(
        max_length=MAX_EPISODES,
        description="Markdown. The two fact files share a limit of 15 KiB. A month's file can have 256 KiB.",
    )
    reason: str = _REASON


class PatchPair(Body):
    """A piece of text and its replacement."""

    old_text: str = Field(
        min_length=1, max_length=MAX_EPISODES, description="Must occur in the file exactly once."
    )
    new_text: str = Field(max_length=MAX_EPISODES)


class FilePatch(Body):
    """Replacements in a file, all or none."""

    patches: list[PatchPair] = Field(min_length=1, max_length=MAX_PATCHES)
    reason: str = _REASON

    def pairs(self) -> list[tuple[str, str]]:
        return [(one.old_text, one.new_text) for one in self.patches]


class EntryIn(Body):
    """An entry to add at the end of a file."""

    entry: str = Field(min_length=1, max_length=MAX_EPISODES, description="Markdown.")
    summary: str | None = Field(
        None,
        max_length=500,
        description="The file's summary line. An agent can't replace a line that a person wrote.",
    )
    reason: str = _REASON


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
    errors = {name: _as_list(value) for name, value in dict(data.get("errors") or {}).items()}
    more = {name: data[name] for name in _TOLD if data.get(name) is not None}
    return Problem(status, str(data.get("message") or result.text), errors=errors, **more)


def _as_list(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


# --- endpoints ---

api = router("files")
_ONE = "/{path:path}"
_SAVED = {200: FileSaved, 201: FileSaved, 202: PendingOut}


@api.get("", auth=READ, response=Listing[FileListed])
def list_files(
    request: ApiRequest, page: PageParams = PAGE, as_of: str = AS_OF
) -> Listing[FileListed]:
    """List the memory files without their text: fact files first, then months, newest first."""
    caller = request.auth
    import_edits(caller.owner)
    with as_it_was(caller, as_of):
        rows = MemoryFile.objects.for_user(caller.owner).live().defer("content", "blame")
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
    edit = appending(entry.entry)
    return _written(request, response, path, edit, why=entry.reason, summary=entry.summary)


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
    edit = replacing(file.content)
    return _written(request, response, path, edit, why=file.reason, check=_check_seen)


@api.patch(_ONE, auth=WRITE, response=_SAVED, openapi_extra=IF_MATCH)
def patch_file_at(request: ApiRequest, response: HttpResponse, path: str, patch: FilePatch) -> Any:
    """Replace parts of a file.

    Either all patches are applied, or none. Each old text must occur exactly once.
    """
    edit = patching(patch.pairs())
    return _written(request, response, path, edit, why=patch.reason, check=_check_there)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_file(request: ApiRequest, path: str) -> Status[None]:
    """Move a month's file to Trash.

    Requires a token with the `admin` scope. Fact files can't be deleted (422).
    """
    caller = request.auth
    words = _("Only a person can move a file to Trash. Use a token with the “admin” scope.")
    only_people(caller, words)
    import_edits(caller.owner)
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
    edit: Edit,
    *,
    why: str,
    summary: str | None = None,
    check: Callable[[ApiRequest, str, MemoryFile | None], None] | None = None,
) -> Any:
    """Store a write if it is based on the current version; 202 if it waits for a person."""
    caller = request.auth

    def checked(owner: User, path: str, rows: Rows, act: Act) -> NewText:
        if check is not None:
            check(request, path, rows.get(path))
        return edit(owner, path, rows, act)

    def write() -> Any:
        return write_reviewed(
            caller.context(), path, checked, may_read=caller.may_read, why=why, summary=summary
        )

    try:
        done = retried(write)
    except OnlyPeople as exc:
        raise _for_people(path) from exc
    if isinstance(done, Proposal):
        return waiting(done)
    tagged(response, done.file)
    if done.is_new:
        located(response, f"/files/{done.file.path}")
    saved = FileSaved.of(done.file, warnings=list(done.warnings))
    return Status(201 if done.is_new else 200, saved)


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
    params = {"path": file.path, "version": file.version}
    tag = {"ETag": tag_of(file.version)}
    return Problem(412, words % params, headers=tag, current=file.content, version=file.version)


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


@commands_api.post("", auth=WRITE, response={200: CommandOut, 202: PendingOut})
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
        why = str(result.data.get("reason", ""))
        return Status(202, PendingOut(proposal=str(result.data["proposal"]), reason=why))
    data = result.data
    return CommandOut(text=result.text, path=data.get("path", ""), version=data.get("version"))
