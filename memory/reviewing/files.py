"""How an accepted proposal for a memory file is carried out, whatever became of the file meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.file_texts.paths import checked_path
from memory.file_texts.summaries import summary_of
from memory.files.errors import FileConflict
from memory.files.services import Saved, append_to, save_file
from memory.models import MemoryFile, Proposal
from memory.reviewing.types import Applied, Applier, Overtaken, why_of


def _check(proposal: Proposal) -> None:
    checked_path(str(proposal.after.get("path", "")))
    if not isinstance(proposal.after.get("content"), str):
        raise InvalidValue(_("A proposal for a memory file holds its whole new text."))


def _carry_out(proposal: Proposal, wanted: Mapping[str, Any], by: Actor, seen: str) -> Applied:
    """Store the whole new text on the version it was based on; an entry is appended to what stands.

    Changes that do not overlap go together, and so do lines that both sides put into one place:
    two proposals may each add to the end of one file.
    """
    is_as_proposed = wanted["content"] == proposal.after["content"]
    if not seen and is_as_proposed and wanted.get("entry"):
        return _applied(_append(proposal, wanted, by))
    version = int(seen) if seen.isdecimal() else _based_on(proposal, str(wanted["path"]))
    try:
        return _applied(_save(proposal, wanted, by, str(wanted["content"]), version))
    except FileConflict as exc:
        if seen or any(part.base.strip() for part in exc.merge.conflicts):
            raise Overtaken(exc.path, exc.merge, token=str(exc.version)) from exc
        both = exc.merge.text(dict.fromkeys(range(len(exc.merge.conflicts)), "both"))
        return Applied(_save(proposal, wanted, by, both, exc.version).file, merged=True)


def _based_on(proposal: Proposal, path: str) -> int:
    """Return the version that the whole text was made from; 0 where the file is gone for good.

    Raises InvalidValue for a file in the trash: a person put it there.
    """
    rows = MemoryFile.objects.of(proposal.owner).at(path)
    if not proposal.version_seen or rows.live().exists():
        return proposal.version_seen or 0
    if rows.in_trash().exists():
        told = {"path": path}
        raise InvalidValue(
            _(
                "%(path)s, which this would change, lies in the trash: restore it first, or reject "
                "this proposal."
            )
            % told
        )
    return 0


def _append(proposal: Proposal, wanted: Mapping[str, Any], by: Actor) -> Saved:
    return append_to(
        proposal.owner,
        str(wanted["path"]),
        str(wanted["entry"]),
        summary=wanted.get("summary") or None,
        summary_by=MemoryFile.SummaryBy.AGENT,
        by=by,
        why=why_of(proposal),
        source=proposal.source,
    )


def _save(
    proposal: Proposal, wanted: Mapping[str, Any], by: Actor, content: str, version: int
) -> Saved:
    return save_file(
        proposal.owner,
        str(wanted["path"]),
        content,
        summary_by=_summary_by(proposal, content),
        by=by,
        seen=version,
        why=why_of(proposal),
        source=proposal.source,
    )


def _summary_by(proposal: Proposal, content: str) -> str:
    """Return whose summary line is saved: the agent's, unless the person edited it in review."""
    proposed = summary_of(str(proposal.after["content"]))
    is_edited = summary_of(content) != proposed
    by = MemoryFile.SummaryBy
    return by.PERSON if is_edited else by.AGENT


def _applied(saved: Saved) -> Applied:
    return Applied(saved.file, saved.merged, saved.warnings)


FILES = Applier(_check, _carry_out)
