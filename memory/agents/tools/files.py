"""The tools for memory files: list, read, write, patch and append (seed 003, "Memory Tools").

Data flow of a write, also of one by REST: an edit (`memory.services.files.saving`) -> the text that
it would store in the locked file -> review -> stored, or kept as a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import AliasChoices, Field

from beacon_site.text.cleaning import as_data
from beacon_site.text.diff import lines_of
from beacon_site.text.messages import grouped
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    hold,
    hold_reason,
    pending_result,
    record_entry,
    refused,
)
from memory.models import MemoryFile, Proposal, Trust
from memory.models.as_of import AS_OF_WORDS, as_it_was
from memory.models.errors import OnlyPeople
from memory.models.file_format import checked_path, is_fact
from memory.services.files.mirror import import_edits
from memory.services.files.reading import files_of, index_text, read_file
from memory.services.files.saving import (
    Act,
    Edit,
    NewText,
    SaveResult,
    appending,
    facts_size,
    patching,
    replacing,
    rows_held,
    store,
    with_retry,
)
from memory.services.files.texts import MAX_FACTS, FileConflict, format_size
from memory.services.review.risks import adds_only_own

_PATH = "facts/user.md, facts/memory.md, or a month's episodes such as episodes/2026-02.md."
_OWN_WORDS = " Each new line in facts/user.md must quote the person, for example: - Name: Alice (“I'm Alice”). If Beacon can't find the quote in a conversation that it saw, the line waits for approval."
_VERSION = "The version you read, if known. A newer version is never overwritten."


class DateArguments(Arguments):
    """As of which date."""

    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


class PathArguments(Arguments):
    """Which file."""

    path: str = Field(description=_PATH)


class ReadArguments(PathArguments):
    """Which file, which lines, and as of which date."""

    first_line: int | None = Field(None, ge=1, description="First line to read, for large files.")
    last_line: int | None = Field(None, ge=1, description="Last line to read.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


class WriteArguments(PathArguments):
    """A file's whole text."""

    content: str = Field(description="The complete new text, in Markdown.")
    version: int | None = Field(None, ge=0, description=_VERSION)


class Pair(Arguments):
    """A piece of text and its replacement."""

    old_text: str = Field(
        validation_alias=AliasChoices("old_text", "oldText"),
        description="Text exactly as it is in the file, where it must occur once.",
    )
    new_text: str = Field(
        validation_alias=AliasChoices("new_text", "newText"), description="The replacement."
    )


class PatchArguments(PathArguments):
    """Replacements in a file, all or none."""

    patches: list[Pair] = Field(
        min_length=1,
        max_length=100,
        description="The replacements. Either all are applied, or none.",
    )
    version: int | None = Field(None, ge=0, description=_VERSION)


class AppendArguments(PathArguments):
    """An entry to add at the end of a file."""

    entry: str = Field(
        description="Markdown. An episode is “## Title” with the lines “- Summary: …” (under 10 words), “- Date: 2026-02-26”, “- Task: …”, “- Findings: …”, “- Lesson: …”."
    )
    summary: str | None = Field(
        None,
        description="The file's new summary line. If a person wrote the current line, it isn't replaced.",
    )


# --- reading ---


def _list(context: ToolContext, args: DateArguments) -> ToolResult:
    with as_it_was(context, args.as_of):
        return _listed(context)


def _listed(context: ToolContext) -> ToolResult:
    files = [file for file in files_of(context.owner) if context.may_read(file)]
    context.shown(*files)  # from their summary lines
    used = facts_size(context.owner)
    params = {"used": grouped(used), "most": grouped(MAX_FACTS)}
    text = index_text(context.owner) + "\n"
    text += _("The fact files together use %(used)s of %(most)s bytes.") % params
    rows = [{"path": one.path, "summary": one.summary, "size": one.size} for one in files]
    return ToolResult(text, data={"files": rows, "used": used, "most": MAX_FACTS})


def _read(context: ToolContext, args: ReadArguments) -> ToolResult:
    with as_it_was(context, args.as_of) as past:
        file = read_file(context.owner, args.path)
    if not context.may_read(file):
        raise OnlyPeople(file.path)
    if past is None:
        context.seen[file.path] = file.version
    context.read([file])
    lines = lines_of(file.content)
    first, last = args.first_line or 1, args.last_line or len(lines)
    if lines and first > min(last, len(lines)):
        asked_for = {"path": file.path, "n": len(lines), "first": first, "last": last}
        text = ngettext(
            "%(path)s has only %(n)d line. Lines %(first)d to %(last)d don’t exist.",
            "%(path)s has only %(n)d lines. Lines %(first)d to %(last)d don’t exist.",
            len(lines),
        )
        return refused("invalid", text % asked_for)
    content = "".join(lines[first - 1 : last])
    outside = file.is_outside
    data = {"content": content, "lines": len(lines), **_of_file(file)}
    return ToolResult(as_data(content) if outside else content, data=data)


def _of_file(file: MemoryFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "version": file.version,
        "size": file.size,
        "summary": file.summary,
        "summary_by": file.summary_by,
        "records": [record_entry(file)],
    }


# --- writing ---


def _write(context: ToolContext, args: WriteArguments) -> ToolResult:
    return written(context, args.path, replacing(args.content, seen=_seen(context, args)))


def _patch(context: ToolContext, args: PatchArguments) -> ToolResult:
    pairs = [(one.old_text, one.new_text) for one in args.patches]
    edit = patching(pairs, seen=_seen(context, args))
    return written(context, args.path, edit, applied=len(pairs))


def _append(context: ToolContext, args: AppendArguments) -> ToolResult:
    return written(context, args.path, appending(args.entry), summary=args.summary)


def _seen(context: ToolContext, asked: WriteArguments | PatchArguments) -> int | None:
    """Return the version that the caller gave, or the one it read."""
    return context.seen.get(asked.path) if asked.version is None else asked.version


def written(
    context: ToolContext,
    path: str,
    edit: Edit,
    *,
    summary: str | None = None,
    applied: int | None = None,
) -> ToolResult:
    """Write a file, and answer what was stored, that it waits for review, or what it conflicts with."""
    try:
        done = write_reviewed(context, path, edit, may_read=context.may_read, summary=summary)
    except FileConflict as exc:
        context.shown(exc.file)
        return _conflict(context, exc)
    if isinstance(done, Proposal):
        return pending_result(done)
    context.seen[done.file.path] = done.file.version
    return _saved_result(context, done, applied)


def write_reviewed(
    context: ToolContext,
    path: str,
    edit: Edit,
    *,
    may_read: Callable[[MemoryFile], bool],
    summary: str | None,
    why: str = "",
) -> SaveResult | Proposal:
    """Store what an edit makes of a file if the review allows it; otherwise keep a proposal.

    A held text has already passed the file's own rules: its budget, locks and lines. Raises
    OnlyPeople if `may_read` says that the caller can't see the file, and what the edit raises.
    """
    path, owner = checked_path(path), context.owner
    import_edits(owner)

    def write() -> SaveResult | Proposal:
        rows = rows_held(owner, path)
        before = rows.get(path)
        if before is not None and not may_read(before):
            raise OnlyPeople(path)
        new = edit(owner, path, rows, Act(context.by, why, context.source, summary=summary))
        trust = _trust(context, new)
        reasons = hold_reason(
            context, "file", target=before, path=path, after=new.text, trust=trust
        )
        if not (reasons and new.changes_text):
            return store(new, trust=trust)
        more = {"entry": new.entry, "summary": summary}
        return hold(
            context,
            "file",
            reasons,
            after={"path": path, "content": new.text, **{k: v for k, v in more.items() if v}},
            before={} if before is None else {"content": before.content},
            target=before,
            why=why,
        )

    return with_retry(write)


def _trust(context: ToolContext, new: NewText) -> Trust:
    """Return the trust of the write: a quote of the owner's words derives from those only."""
    if context.write_trust != Trust.EXTERNAL or not context.messages:
        return context.write_trust
    stood = "" if new.file is None else str(new.file.content)
    is_own = adds_only_own(new.path, stood, new.text, context.messages)
    return context.believed(is_own=is_own)


def _conflict(context: ToolContext, exc: FileConflict) -> ToolResult:
    """Return the current text, on which the caller can base its next write."""
    context.seen[exc.path] = exc.version
    params = {"version": exc.version}
    shown = _("Version %(version)d, the current text:") % params
    return ToolResult(f"{exc}\n\n{shown}\n{exc.theirs}", is_error=True, data=exc.as_json())


def _saved_result(context: ToolContext, saved: SaveResult, applied: int | None) -> ToolResult:
    file = saved.file
    params = {
        "path": file.path,
        "version": file.version,
        "size": format_size(file.size),
        "n": applied,
    }
    parts = [_("Saved %(path)s: version %(version)d, %(size)s.") % params]
    if applied is not None:
        parts.append(_("Patches applied: %(n)d.") % params)
    if is_fact(file.path):
        room = {"used": grouped(facts_size(context.owner)), "most": grouped(MAX_FACTS)}
        parts.append(_("The fact files together use %(used)s of %(most)s bytes.") % room)
    if saved.merged:
        parts.append(
            _(
                "Other lines of the file have changed since you read it. Both sets of changes were kept."
            )
        )
    parts += saved.warnings
    data = {"success": True, "merged": saved.merged, "warnings": list(saved.warnings)}
    if applied is not None:
        data["applied"] = applied
    return ToolResult(" ".join(parts), data={**data, **_of_file(file)})


TOOLS = (
    MemoryTool(
        "memory_list",
        "List the memory files with their summaries and sizes.",
        DateArguments,
        _list,
    ),
    MemoryTool(
        "memory_read",
        "Read a memory file: facts about the person (facts/user.md), lessons learned (facts/memory.md), or a month's work (episodes/YYYY-MM.md).",
        ReadArguments,
        _read,
    ),
    MemoryTool(
        "memory_write",
        "Replace a whole memory file. For small edits, use memory_patch. The two fact files share a limit of 15,360 bytes. If that isn't enough for your text, shorten them first."
        + _OWN_WORDS,
        WriteArguments,
        _write,
        writes=True,
    ),
    MemoryTool(
        "memory_patch",
        "Replace parts of a memory file. Each old text must occur in the file exactly once."
        + _OWN_WORDS,
        PatchArguments,
        _patch,
        writes=True,
    ),
    MemoryTool(
        "memory_append",
        "Append an entry to a memory file. The first entry of a month creates that month's file."
        + _OWN_WORDS,
        AppendArguments,
        _append,
        writes=True,
    ),
)
