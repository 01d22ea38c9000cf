"""Apply accepted proposals: to memory files, notes and observations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from beacon_site.text.dates import day_of, zone_of
from beacon_site.text.diff import Merge, merge
from memory.models import MemoryFile, Note, Observation, Proposal, Remembered, Topic, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.models.file_format import checked_path, summary_of
from memory.services.context import identity
from memory.services.files.saving import Act, SaveResult, appending, replacing, write
from memory.services.files.texts import FileConflict
from memory.services.notes import merging
from memory.services.notes import saving as notes
from memory.services.notes.saving import NoteChecks, chain, days_until, usual_stability
from memory.services.observations.saving import Line, checked, remember_lines

# Values of `act` in a proposal's `after`, if it neither creates nor replaces a note.
MERGE, TRASH = "merge", "trash"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of an accepted proposal: the record, and whether changes were merged.

    `others` are records that changed with it: the superseded note, or further observations.
    """

    record: Remembered
    merged: bool = False
    warnings: tuple[str, ...] = ()
    others: tuple[Remembered, ...] = ()


class MergeConflict(MemoryRefused):
    """The target has changed since the proposal, and the two changes can't be merged.

    `base`, `mine` (the proposal's) and `theirs` (the current one) are complete texts; `token` identifies
    the current one, for accepting on top of it.
    """

    def __init__(self, label: str, merge: Merge, *, token: str) -> None:
        super().__init__(
            _(
                "The lines of “%(label)s” that this proposal changes have been edited since the proposal was sent. Nothing was saved. Compare both texts, then save the one you want."
            )
            % {"label": label}
        )
        self.merge = merge
        self.token = token
        self.base = "".join(part.base for part in merge.parts)
        self.mine = "".join(part.mine for part in merge.parts)
        self.theirs = "".join(part.theirs for part in merge.parts)


# A proposal, its edited content, who accepts it, and the token of the text they saw ("" is the one that
# the proposal is based on).
Perform = Callable[[Proposal, Mapping[str, Any], Actor, str], ApplyResult]


def why_of(proposal: Proposal) -> str:
    """Return the reason of an accepted write for the history."""
    params = {"who": proposal.actor, "why": proposal.reason}
    if proposal.reason:
        return _("accepted from %(who)s: %(why)s") % params
    return _("accepted from %(who)s") % params


# --- memory files ---


def _check(proposal: Proposal) -> None:
    checked_path(str(proposal.after.get("path", "")))
    if not isinstance(proposal.after.get("content"), str):
        raise InvalidValue(
            _("A proposal for a memory file must contain the file’s complete new text.")
        )


def _perform(proposal: Proposal, values: Mapping[str, Any], by: Actor, seen: str) -> ApplyResult:
    """Save the complete new text, merged with changes made since; a journal entry is appended.

    Changes that don't overlap are merged, and so are lines that both sides add in one place, since two
    proposals can each add to the end of a file. Two proposals for a new file have no text in common.
    """
    path, content = str(values["path"]), str(values["content"])
    if not seen and content == proposal.after["content"] and values.get("entry"):
        act = replace(_act(proposal, content, by), summary=values.get("summary") or None)
        return _applied(write(proposal.owner, path, appending(str(values["entry"])), act))
    version = int(seen) if seen.isdecimal() else _based_on(proposal, path)
    try:
        return _applied(_save(proposal, path, content, by, version))
    except FileConflict as exc:
        if seen or not version or any(part.base.strip() for part in exc.merge.conflicts):
            raise MergeConflict(exc.path, exc.merge, token=str(exc.version)) from exc
        both = exc.merge.text(dict.fromkeys(range(len(exc.merge.conflicts)), "both"))
        return ApplyResult(_save(proposal, path, both, by, exc.version).file, merged=True)


def _based_on(proposal: Proposal, path: str) -> int:
    """Return the version that the text is based on, or 0 if the file was permanently deleted.

    Raises InvalidValue if a person moved the file to Trash.
    """
    rows = MemoryFile.objects.for_user(proposal.owner).at(path)
    if not proposal.version_seen or rows.live().exists():
        return proposal.version_seen or 0
    if rows.in_trash().exists():
        params = {"path": path}
        raise InvalidValue(
            _(
                "This proposal would change %(path)s, which is in Trash. Restore the file first, or reject the proposal."
            )
            % params
        )
    return 0


def _save(proposal: Proposal, path: str, content: str, by: Actor, version: int) -> SaveResult:
    edit = replacing(content, seen=version)
    return write(proposal.owner, path, edit, _act(proposal, content, by))


def _act(proposal: Proposal, content: str, by: Actor) -> Act:
    """The agent wrote the summary line, unless the person edited it in Review."""
    is_edited = summary_of(content) != summary_of(str(proposal.after["content"]))
    line_by = MemoryFile.SummaryBy.PERSON if is_edited else MemoryFile.SummaryBy.AGENT
    return Act(by, why_of(proposal), proposal.source, summary_by=line_by)


def _applied(saved: SaveResult) -> ApplyResult:
    return ApplyResult(saved.file, saved.merged, saved.warnings)


_MORE = ("stability", "ttl_days", "tags", "confidence", "sensitivity", "evidence", "scope")
_JOB = "job"


# --- notes ----------------------------------------------------------------------------------------


def _check_note(proposal: Proposal) -> None:
    after, checks = proposal.after, NoteChecks()
    checks.content(after.get("content", ""))
    kind = checks.choice("kind", after.get("kind", Note.Kind.LOG), Note.Kind.values)
    fields = {name: checks.one(name, after[name]) for name in _MORE if name in after}
    if after.get("act") == MERGE:
        _merged_versions(after)
    elif proposal.target_id is None:
        usual = {"stability": usual_stability(kind), "ttl_days": None, "confidence": 1.0}
        checks.together({**usual, "evidence": [], "kind": kind, **fields})
    elif "kind" in proposal.before:
        target = Note.objects.for_user(proposal.owner).filter(pk=proposal.target_id).first()
        if target is not None:
            stands = target.snapshot(*notes.FIELDS)
            checks.together({**stands, "kind": kind, **fields}, is_pinned=target.pinned)
    checks.raise_refused()


def _write_note(proposal: Proposal, values: Mapping[str, Any], by: Actor, seen: str) -> ApplyResult:
    """Create the note, supersede the one it was proposed for, or merge or trash notes."""
    owner = proposal.owner
    if values.get("act") == MERGE:
        return _merge(proposal, values, by)
    if values.get("act") == TRASH:
        return _trash(proposal, by)
    if proposal.target_id is not None:
        return _supersede(proposal, values, by, seen)
    kind = str(values.get("kind", Note.Kind.LOG))
    if kind == Note.Kind.SOUL:
        content = str(values["content"])
        source = proposal.source or None
        standing = identity.active(owner, Note.Kind.SOUL)
        soul = identity.write_soul(owner, content, by=by, why=why_of(proposal), source=source)
        return ApplyResult(soul, others=(standing,) if standing is not None else ())
    note = notes.write_note(
        owner,
        kind,
        str(values["content"]),
        by=by,
        source=proposal.source or None,
        topic=_topic(owner, values),
        job=str(values.get(_JOB, "")),
        until=_until(owner, values),
        **{name: values[name] for name in _MORE if name in values},
    )
    return ApplyResult(note)


def _until(owner: User, values: Mapping[str, Any]) -> date | None:
    """Return the last day on which the note is valid, if it was proposed with one.

    Raises InvalidValue if the day has passed.
    """
    day = day_of(str(values.get("until", "")))
    if day is not None and days_until(day, zone_of(owner.time_zone)) < 1:
        problem = _("This note was valid until %(day)s, which has passed. Reject the proposal.")
        raise InvalidValue(problem % {"day": day.isoformat()})
    return day


def _supersede(proposal: Proposal, values: Mapping[str, Any], by: Actor, seen: str) -> ApplyResult:
    standing = _current_note(proposal)
    content, was_merged = str(values["content"]), False
    token = f"{standing.pk}:{standing.version}"
    before = str(proposal.before.get("content", ""))
    if standing.content != before and seen != token:
        both = merge(before, content, standing.content)
        if seen or both.conflicts:
            raise MergeConflict(str(standing), both, token=token)
        content, was_merged = both.text(), True
    if standing.kind == Note.Kind.SOUL:
        soul = identity.write_soul(
            proposal.owner,
            content,
            by=by,
            why=why_of(proposal),
            expected=standing.pk,
            source=proposal.source or None,
        )
        return ApplyResult(soul, was_merged, others=(standing,))
    fields = {name: values[name] for name in _MORE if name in values}
    if "kind" in proposal.before and values.get("kind") != proposal.before["kind"]:
        fields["kind"] = values["kind"]
    note = notes.supersede(
        standing,
        content,
        by=by,
        expected_version=standing.version,
        why=why_of(proposal),
        source=proposal.source or None,
        **fields,
    )
    return ApplyResult(note, was_merged, others=(standing,))


def _merged_versions(after: Mapping[str, Any]) -> dict[UUID, int]:
    """Return the notes of a proposed merge, each with the version that the agent saw."""
    try:
        versions = {UUID(str(key)): int(version) for key, version in after["versions"].items()}
    except (KeyError, AttributeError, TypeError, ValueError):
        versions = {}
    if len(versions) < merging.MIN:
        raise InvalidValue(_("A proposed merge must list at least two notes and their versions."))
    return versions


def _merge(proposal: Proposal, values: Mapping[str, Any], by: Actor) -> ApplyResult:
    versions = _merged_versions(values)
    try:
        merged, _proposal = merging.merge(
            proposal.owner,
            versions,
            by=by,
            content=str(values["content"]),
            versions=versions,
            why=why_of(proposal),
        )
    except StaleWrite as exc:
        problem = _(
            "One of these notes changed after the merge was proposed. Nothing was merged. Reject the proposal, or merge the notes yourself."
        )
        raise InvalidValue(problem) from exc
    return ApplyResult(merged, others=tuple(merged.supersedes.all()))


def _trash(proposal: Proposal, by: Actor) -> ApplyResult:
    """Move the note to Trash. Raises InvalidValue if its text has changed."""
    target = Note.objects.for_user(proposal.owner).live().filter(pk=proposal.target_id).first()
    if target is None or target.content != proposal.before.get("content"):
        raise InvalidValue(
            _(
                "The note has changed since the proposal, or it’s already in Trash. Nothing was changed. Reject the proposal, or move the note to Trash yourself."
            )
        )
    target.trash(by=by, why=why_of(proposal))
    return ApplyResult(target)


def _current_note(proposal: Proposal) -> Note:
    """Return the current note in the chain of the one that the proposal would replace."""
    target = Note.objects.for_user(proposal.owner).filter(pk=proposal.target_id).first()
    if target is None:
        raise InvalidValue(
            _(
                "The note that this proposal would replace was permanently deleted. Reject the proposal."
            )
        )
    links = [target] if target.superseded_by_id is None else chain(target)
    for link in links:
        if link.superseded_by_id is None and link.trashed_at is None:
            return link
    raise InvalidValue(
        _(
            "The note that this proposal would replace is in Trash. Restore it first, or reject the proposal."
        )
    )


def _topic(owner: User, values: Mapping[str, Any]) -> Topic | None:
    key = values.get("topic_id")
    return Topic.objects.for_user(owner).filter(pk=key).first() if key else None


# --- observations ---------------------------------------------------------------------------------


def lines_of(after: Mapping[str, Any]) -> list[Line]:
    """Return the proposed observations: `lines`, or a single one with its fields at the top level."""
    rows: Iterable[Mapping[str, Any]] = after.get("lines") or [after]
    return [
        Line(
            category=str(row.get("category", Observation.Category.FINDING)),
            content=str(row.get("content", "")),
            tags=tuple(map(str, row.get("tags", ()))),
            step_name=str(row.get("step_name", "")),
            step_type=str(row.get("step_type", "")),
        )
        for row in rows
    ]


def _check_observations(proposal: Proposal) -> None:
    checked(lines_of(proposal.after))


def _remember(proposal: Proposal, values: Mapping[str, Any], by: Actor, _seen: str) -> ApplyResult:
    """Store the observations; those that the source already recorded get the person's trust."""
    done = remember_lines(
        proposal.owner,
        lines_of(values),
        by=by,
        source=str(values.get("source") or proposal.source),
        change_source=proposal.source,
        topic=_topic(proposal.owner, values),
        sensitivity=str(values.get("sensitivity", "normal")),
        scope=str(values.get("scope", "owner")),
    )
    for one in done.observations:
        if one.trust != Trust.OWNER and one.trashed_at is None:
            one.change(by=by, why=why_of(proposal), trust=Trust.OWNER)
    first, *others = [
        *done.new,
        *(observation for observation in done.observations if observation not in done.new),
    ]
    return ApplyResult(first, others=tuple(others))


# Store a proposal of each record type, as the person's own.
APPLY: dict[str, Perform] = {
    "memoryfile": _perform,
    "note": _write_note,
    "observation": _remember,
}
# Raise InvalidValue or LimitReached for what could never be stored, so that the agent learns it at once.
CHECKS: dict[str, Callable[[Proposal], None]] = {
    "memoryfile": _check,
    "note": _check_note,
    "observation": _check_observations,
}
