"""The tools of the memory files: list, read, write, patch and append (seed 003, "Memory Tools").

Data flow of a write: the owner's rows are held -> the file is saved by its own rules -> the review
looks at the very text that would stand -> it is committed, or rolled back and kept as a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from pydantic import AliasChoices, Field

from beacon_site.text.cleaning import as_data
from beacon_site.text.diff import lines_of
from memory.core.file_format import FACTS, checked_path, is_fact
from memory.files.limits import FileConflict
from memory.files.mirror import take_in
from memory.files.reading import facts_budget, files_of, index_text, read_file, size_in_words
from memory.files.services import Saved, append_to, patch_file, save_file
from memory.models import MemoryFile, Trust
from memory.review.risks import adds_only_own
from memory.tools.review import held_for_person, why_held
from memory.tools.types import Arguments, MemoryTool, ToolContext, ToolResult, named, refused

_PATH = "facts/user.md, facts/memory.md, or a month's episodes such as episodes/2026-02.md."
_OWN_WORDS = (
    " A new line in facts/user.md quotes the person's own words, such as - Name: Alice (“I'm "
    "Alice”); else it waits for them."
)
_VERSION = "The version you read, if you know it; a newer one is then not written over."


class NoArguments(Arguments):
    """Nothing is asked for."""


class PathArguments(Arguments):
    """Which file."""

    path: str = Field(description=_PATH)


class ReadArguments(PathArguments):
    """Which file, and which of its lines."""

    first_line: int | None = Field(None, ge=1, description="From this line on; for large files.")
    last_line: int | None = Field(None, ge=1, description="Up to this line.")


class WriteArguments(PathArguments):
    """A file's whole text."""

    content: str = Field(description="The whole new text, Markdown; replaces what stands there.")
    version: int | None = Field(None, ge=0, description=_VERSION)


class Pair(Arguments):
    """A stretch of text and what replaces it."""

    old_text: str = Field(
        validation_alias=AliasChoices("old_text", "oldText"),
        description="Text exactly as it stands in the file, once.",
    )
    new_text: str = Field(
        validation_alias=AliasChoices("new_text", "newText"), description="What replaces it."
    )


class PatchArguments(PathArguments):
    """Stretches of a file, all or none."""

    patches: list[Pair] = Field(
        min_length=1, max_length=100, description="The pairs; all are applied, or none."
    )
    version: int | None = Field(None, ge=0, description=_VERSION)


class AppendArguments(PathArguments):
    """An entry for a file's end."""

    entry: str = Field(
        description="Markdown. An episode is “## Title” with lines “- Summary: …” (under ten "
        "words), “- Date: 2026-02-26”, “- Task: …”, “- Findings: …”, “- Lesson: …”."
    )
    summary: str | None = Field(
        None, description="The file's summary line. A line that a person wrote is kept."
    )


# --- reading --------------------------------------------------------------------------------------


def _list(context: ToolContext, asked: NoArguments) -> ToolResult:
    files = [file for file in files_of(context.owner) if context.may_read(file)]
    context.shown(*files)  # by their summary lines
    budget = facts_budget(context.owner)
    told = {"used": f"{budget.used:,}", "most": f"{budget.most:,}"}
    text = index_text(context.owner) + "\n"
    text += _("The fact files take %(used)s of %(most)s bytes together.") % told
    rows = [{"path": one.path, "summary": one.summary, "size": one.size} for one in files]
    return ToolResult(text, data={"files": rows, "used": budget.used, "most": budget.most})


def _read(context: ToolContext, asked: ReadArguments) -> ToolResult:
    file = read_file(context.owner, asked.path)
    if not context.may_read(file):
        told = {"path": file.path}
        return refused("sensitive", _("%(path)s is shown to people only.") % told)
    context.seen[file.path] = file.version
    context.read([file])
    lines = lines_of(file.content)
    first, last = asked.first_line or 1, asked.last_line or len(lines)
    if lines and first > min(last, len(lines)):
        asked_for = {"path": file.path, "n": len(lines), "first": first, "last": last}
        text = _("%(path)s has %(n)d lines; there are none from %(first)d to %(last)d.") % asked_for
        return refused("invalid", text)
    content = "".join(lines[first - 1 : last])
    outside = file.trust not in (Trust.OWNER, Trust.AGENT)
    data = {"content": content, "lines": len(lines), **_of_file(file)}
    return ToolResult(as_data(content) if outside else content, data=data)


def _of_file(file: MemoryFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "version": file.version,
        "size": file.size,
        "summary": file.summary,
        "summary_by": file.summary_by,
        "records": [named(file)],
    }


# --- writing --------------------------------------------------------------------------------------


def _write(context: ToolContext, asked: WriteArguments) -> ToolResult:
    def write(trust: Trust) -> Saved:
        return save_file(
            context.owner,
            asked.path,
            asked.content,
            by=context.by,
            seen=_seen(context, asked),
            source=context.source,
            trust=trust,
        )

    return _saved(context, asked.path, write)


def _patch(context: ToolContext, asked: PatchArguments) -> ToolResult:
    pairs = [(one.old_text, one.new_text) for one in asked.patches]

    def write(trust: Trust) -> Saved:
        saved, _count = patch_file(
            context.owner,
            asked.path,
            pairs,
            by=context.by,
            seen=_seen(context, asked),
            source=context.source,
            trust=trust,
        )
        return saved

    return _saved(context, asked.path, write, applied=len(pairs))


def _append(context: ToolContext, asked: AppendArguments) -> ToolResult:
    def write(trust: Trust) -> Saved:
        return append_to(
            context.owner,
            asked.path,
            asked.entry,
            summary=asked.summary,
            by=context.by,
            source=context.source,
            trust=trust,
        )

    more = {"entry": asked.entry, **({"summary": asked.summary} if asked.summary else {})}
    return _saved(context, asked.path, write, more=more)


def _seen(context: ToolContext, asked: WriteArguments | PatchArguments) -> int | None:
    """Return the version that the caller named, or the one that was read to it."""
    return context.seen.get(asked.path) if asked.version is None else asked.version


class _Held(Exception):
    """The write is not to be stored: its transaction is rolled back."""

    def __init__(self, why: str, saved: Saved) -> None:
        super().__init__(why)
        self.why, self.saved = why, saved


def _saved(
    context: ToolContext,
    path: str,
    write: Callable[[Trust], Saved],
    *,
    more: dict[str, str] | None = None,
    applied: int | None = None,
) -> ToolResult:
    """Carry the write out if the review lets it through; answer what came of it.

    What is held has passed the file's own rules: its budget, locks and lines.
    """
    path = checked_path(path)
    take_in(context.owner)
    before: MemoryFile | None = None
    try:
        with transaction.atomic():
            before = _standing(context, path)
            if before is not None and not context.may_read(before):
                told = {"path": path}
                return refused("sensitive", _("%(path)s is for people only.") % told)
            trust = _trust(context, path, before, write)
            saved = write(trust)
            changed = before is None or saved.file.content != before.content
            after = str(saved.file.content)
            held = why_held(context, "file", target=before, path=path, after=after, trust=trust)
            if held and changed:
                raise _Held(held, saved)
    except FileConflict as exc:
        if before is not None:
            context.shown(before)
        return _conflict(context, exc)
    except _Held as exc:
        after_fields = {"path": path, "content": str(exc.saved.file.content), **(more or {})}
        before_fields = {"content": before.content} if before is not None else {}
        return held_for_person(
            context, "file", exc.why, after=after_fields, before=before_fields, target=before
        )
    context.seen[path] = saved.file.version
    return _told(context, saved, applied)


def _trust(
    context: ToolContext, path: str, before: MemoryFile | None, write: Callable[[Trust], Saved]
) -> Trust:
    """Return how far to believe the write: one of the owner's own words derives from those alone.

    Only the text that came of it tells, so it is tried first, and taken back.
    """
    if context.write_trust != Trust.EXTERNAL or not context.messages:
        return context.write_trust
    with transaction.atomic():
        after = str(write(context.write_trust).file.content)
        transaction.set_rollback(True)
    stood = str(before.content) if before is not None else ""
    return context.believed(is_own=adds_only_own(path, stood, after, context.messages))


def _standing(context: ToolContext, path: str) -> MemoryFile | None:
    """Return the file as it stands, held together with whatever its save will hold."""
    paths = FACTS if is_fact(path) else (path,)
    rows = MemoryFile.objects.of(context.owner).live().filter(path__in=paths).order_by("path")
    held = {row.path: row for row in rows.select_for_update(of=("self",), no_key=True)}
    return held.get(path)


def _conflict(context: ToolContext, exc: FileConflict) -> ToolResult:
    """Answer with the text as it stands, on which the caller's next write is based."""
    context.seen[exc.path] = exc.version
    told = {"version": exc.version}
    shown = _("Version %(version)d, as it stands:") % told
    return ToolResult(f"{exc}\n\n{shown}\n{exc.theirs}", is_error=True, data=exc.as_json())


def _told(context: ToolContext, saved: Saved, applied: int | None) -> ToolResult:
    file = saved.file
    told = {
        "path": file.path,
        "version": file.version,
        "size": size_in_words(file.size),
        "n": applied,
    }
    parts = [_("Saved %(path)s: version %(version)d, %(size)s.") % told]
    if applied is not None:
        parts.append(_("Patches applied: %(n)d.") % told)
    if is_fact(file.path):
        budget = facts_budget(context.owner)
        room = {"used": f"{budget.used:,}", "most": f"{budget.most:,}"}
        parts.append(_("The fact files take %(used)s of %(most)s bytes together.") % room)
    if saved.merged:
        parts.append(_("Somebody had changed other lines meanwhile; both changes stand."))
    parts += saved.warnings
    data = {"success": True, "merged": saved.merged, "warnings": list(saved.warnings)}
    if applied is not None:
        data["applied"] = applied
    return ToolResult(" ".join(parts), data={**data, **_of_file(file)})


TOOLS = (
    MemoryTool(
        "memory_list",
        "List the memory files with a summary and the size of each.",
        NoArguments,
        _list,
    ),
    MemoryTool(
        "memory_read",
        "Read a memory file: facts about the person (facts/user.md), what was learned "
        "(facts/memory.md), or what was done in a month (episodes/YYYY-MM.md).",
        ReadArguments,
        _read,
    ),
    MemoryTool(
        "memory_write",
        "Replace the whole text of a memory file. To change a line use memory_patch. Both fact "
        "files together have at most 15,360 bytes: condense before adding." + _OWN_WORDS,
        WriteArguments,
        _write,
        writes=True,
    ),
    MemoryTool(
        "memory_patch",
        "Change stretches of a memory file: each old text must stand in it exactly once."
        + _OWN_WORDS,
        PatchArguments,
        _patch,
        writes=True,
    ),
    MemoryTool(
        "memory_append",
        "Add an entry at the end of a memory file; a month's file is made by its first entry."
        + _OWN_WORDS,
        AppendArguments,
        _append,
        writes=True,
    ),
)
