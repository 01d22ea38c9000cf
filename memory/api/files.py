"""`/files`: memory files, exact Markdown by path; written by programs as tools and people do.

Data flow of a write: the disk's edits are taken in -> the rows are held -> If-Match or
If-None-Match is compared with what stands -> a person's write is saved, an agent's goes through
the tool of the same name, which the review may hold (202).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Status

from beacon_site.database_errors import retried
from memory.advisory_locks import LockId, lock_until_commit
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.file_schemas import (
    EntryIn,
    FileIn,
    FileListed,
    FileOut,
    FilePatch,
    FileSaved,
    RevisionOut,
)
from memory.api.frame import Held, located, router
from memory.api.paging import PAGE, Listing, Paged, listing
from memory.api.problems import Problem, not_found
from memory.api.reading import used
from memory.api.shown import shows
from memory.api.tool_answers import problem_of
from memory.api.versions import IF_MATCH, IF_MATCH_OR_NONE, expected_version, tag_of, tagged
from memory.errors import InvalidValue
from memory.file_texts.paths import checked_path
from memory.files.errors import FileConflict
from memory.files.mirror import take_in
from memory.files.reading import read_file as read_file_at
from memory.files.services import Saved, append_to, patch_file, rows_held, save_file
from memory.models import MemoryFile
from memory.records import history as record_history
from memory.toolkit.registry import call_tool

api = router("files")
_ONE = "/{path:path}"
_SAVED = {200: FileSaved, 201: FileSaved, 202: Held}


@api.get("", auth=READ, response=Listing[FileListed])
def list_files(request: ApiRequest, page: Paged = PAGE) -> Listing[FileListed]:
    """List the memory files without their texts: facts first, then the months, the latest first."""
    caller = request.auth
    take_in(caller.owner)
    rows = MemoryFile.objects.of(caller.owner).live().defer("content", "blame")
    if not caller.by.is_person:
        rows = rows.for_agents()
    return listing(rows, page, name="files", out=FileListed.of, by="path")


# The addresses below a file's come first: a path takes all that follows.
@api.get(_ONE + "/revisions", auth=READ, response=Listing[RevisionOut])
def list_file_revisions(request: ApiRequest, path: str, page: Paged = PAGE) -> Listing[RevisionOut]:
    """List a file's versions, the latest first: who made each, when, and why."""
    file = _file(request.auth, path)
    rows = record_history.revisions_of(file).order_by()
    return listing(rows, page, name=f"revisions of {file.pk}", out=RevisionOut.of)


@api.post(_ONE + "/entries", auth=WRITE, response=_SAVED)
def append_entry(request: ApiRequest, response: HttpResponse, path: str, entry: EntryIn) -> Any:
    """Add an entry at a file's end; a month's file is made by its first (201)."""
    caller = request.auth

    def save() -> Saved:
        return append_to(
            caller.owner, path, entry.entry, summary=entry.summary, by=caller.by, why=entry.why,
            source=caller.source, trust=caller.write_trust,
        )  # fmt: skip

    given = {"path": path, "entry": entry.entry, "summary": entry.summary}
    return _written(request, response, path, "memory_append", given, save)


@api.get(_ONE, auth=READ, response=FileOut)
def read_file(request: ApiRequest, response: HttpResponse, path: str) -> FileOut:
    """Read a file: its exact text; the ETag is its version."""
    file = _file(request.auth, path)
    used(request.auth, file)
    tagged(response, file)
    return FileOut.of(file)


@api.put(_ONE, auth=WRITE, response=_SAVED, openapi_extra=IF_MATCH_OR_NONE)
def write_file(request: ApiRequest, response: HttpResponse, path: str, file: FileIn) -> Any:
    """Replace a file's text (If-Match), or make a month's file (If-None-Match: *, 201)."""
    caller = request.auth

    def save() -> Saved:
        return save_file(
            caller.owner, path, file.content, by=caller.by, seen=seen, why=file.why,
            source=caller.source, trust=caller.write_trust,
        )  # fmt: skip

    # 0: there must be none yet, also where another creates it at the same moment.
    seen = 0 if _wants_new(request) else None
    given = {"path": path, "content": file.content, "version": seen}
    return _written(request, response, path, "memory_write", given, save, check=_check_seen)


@api.patch(_ONE, auth=WRITE, response=_SAVED, openapi_extra=IF_MATCH)
def patch_file_at(request: ApiRequest, response: HttpResponse, path: str, patch: FilePatch) -> Any:
    """Replace stretches of a file: each old text stands in it exactly once, all or none."""
    caller = request.auth

    def save() -> Saved:
        saved, _count = patch_file(
            caller.owner, path, patch.pairs(), by=caller.by, why=patch.why, source=caller.source,
            trust=caller.write_trust,
        )  # fmt: skip
        return saved

    given = {"path": path, "patches": [one.model_dump() for one in patch.patches]}
    return _written(request, response, path, "memory_patch", given, save, check=_check_there)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_file(request: ApiRequest, path: str) -> Status[None]:
    """Move a month's file to the trash: by a token of scope admin alone.  422: fact files stay."""
    caller = request.auth
    words = _("Only a person moves a file to the trash; a program of theirs has the scope admin.")
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
    save: Callable[[], Saved],
    *,
    check: Callable[[ApiRequest, str, MemoryFile | None], None] | None = None,
) -> Any:
    """Carry a write out, if it is based on the current version; 202 where it waits for a person.

    What is answered is read before others can write: version and text are this write's own.
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
        # A page or tool may have been quicker: then this write was added to that file.
        is_new = before is None and file.version == 1
        tagged(response, file)
        if is_new:
            located(response, f"/files/{path}")
        return Status(201 if is_new else 200, FileSaved.of(file, warnings=list(warnings)))

    try:
        return retried(write)
    except FileConflict as exc:  # it was to be new, and another writer was quicker
        raise _stale(read_file_at(caller.owner, path)) from exc


def _held(caller: Caller, path: str) -> MemoryFile | None:
    """Return the file, held until the transaction ends; None also keeps others from creating it."""
    if file := rows_held(caller.owner, path).get(path):
        return file
    lock_until_commit(LockId.FILE_CREATION, f"{caller.owner.pk}:{path}")
    return rows_held(caller.owner, path).get(path)


def _check_seen(request: ApiRequest, path: str, file: MemoryFile | None) -> None:
    """Compare what a PUT is based on.  Raises Problem: 428 without it, 412 with `current`."""
    wants_new = _wants_new(request)
    if file is not None and not wants_new:
        _check_version(request, file)
    elif file is not None:
        raise _stale(file)
    elif not wants_new:
        words = _(
            "There is no %(path)s yet. Make it with the header If-None-Match: *, or by its first "
            "entry (POST …/entries). Nothing was stored."
        )
        status = 412 if "If-Match" in request.headers else 428
        raise Problem(status, words % {"path": path})


def _wants_new(request: ApiRequest) -> bool:
    return request.headers.get("If-None-Match", "").strip() == "*"


def _check_there(request: ApiRequest, path: str, file: MemoryFile | None) -> None:
    if file is None:
        raise not_found(_("There is no %(path)s yet.") % {"path": path})
    _check_version(request, file)


def _check_version(request: ApiRequest, file: MemoryFile) -> None:
    try:
        expected_version(request, file)
    except Problem as exc:
        if exc.status == 412:
            raise _stale(file) from exc
        raise


def _stale(file: MemoryFile) -> Problem:
    """Return the problem that carries the text as it stands, for the caller to join with."""
    words = _(
        "%(path)s was changed since you read it: it is at version %(version)d now, whose text "
        "stands in `current`. Nothing was saved: put your change into that, and send it."
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
    words = _("%(path)s is shown to people only: a program of theirs takes a token of scope admin.")
    return Problem(403, words % {"path": path})
