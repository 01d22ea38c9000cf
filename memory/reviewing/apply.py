"""How an accepted proposal is carried out: the same ways in that pages and tools take, as the person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.contexts import identity
from memory.errors import InvalidValue
from memory.models import Note, Observation, Proposal, Topic, Trust, User
from memory.noting import writing as notes
from memory.noting.chain import chain
from memory.noting.checks import NoteChecks, usual_stability
from memory.observing import Line, remember_lines
from memory.observing.lines import checked
from memory.reviewing.files import FILES
from memory.reviewing.types import Applied, Applier, Overtaken, why_of
from memory.texts.merge import merge

__all__ = ["APPLY", "Applied", "Overtaken", "lines_of"]

_MORE = ("stability", "ttl_days", "tags", "confidence", "sensitivity", "evidence", "scope")
_JOB = "job"


# --- notes ----------------------------------------------------------------------------------------


def _check_note(proposal: Proposal) -> None:
    after, checks = proposal.after, NoteChecks()
    checks.content(after.get("content", ""))
    kind = checks.choice("kind", after.get("kind", Note.Kind.LOG), Note.Kind.values)
    fields = {name: checks.one(name, after[name]) for name in _MORE if name in after}
    if proposal.target_id is None:  # else the note that it replaces has the other fields
        usual = {"stability": usual_stability(kind), "ttl_days": None, "confidence": 1.0}
        checks.together({**usual, "evidence": [], "kind": kind, **fields})
    checks.raise_refused()


def _write_note(proposal: Proposal, wanted: Mapping[str, Any], by: Actor, seen: str) -> Applied:
    """Write the note, or let it supersede the one it was proposed for."""
    owner = proposal.owner
    if proposal.target_id is not None:
        return _supersede(proposal, wanted, by, seen)
    kind = str(wanted.get("kind", Note.Kind.LOG))
    if kind == Note.Kind.SOUL:
        content = str(wanted["content"])
        source = proposal.source or None
        standing = identity.active(owner, Note.Kind.SOUL)
        soul = identity.write_soul(owner, content, by=by, why=why_of(proposal), source=source)
        return Applied(soul, others=(standing,) if standing is not None else ())
    note = notes.write_note(
        owner,
        kind,
        str(wanted["content"]),
        by=by,
        source=proposal.source or None,
        topic=_topic(owner, wanted),
        job=str(wanted.get(_JOB, "")),
        **{name: wanted[name] for name in _MORE if name in wanted},
    )
    return Applied(note)


def _supersede(proposal: Proposal, wanted: Mapping[str, Any], by: Actor, seen: str) -> Applied:
    standing = _standing(proposal)
    content, was_merged = str(wanted["content"]), False
    token = f"{standing.pk}:{standing.version}"
    before = str(proposal.before.get("content", ""))
    if standing.content != before and seen != token:
        both = merge(before, content, standing.content)
        if seen or both.conflicts:
            raise Overtaken(str(standing), both, token=token)
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
        return Applied(soul, was_merged, others=(standing,))
    note = notes.supersede(
        standing,
        content,
        by=by,
        expected_version=standing.version,
        why=why_of(proposal),
        source=proposal.source or None,
        **{name: wanted[name] for name in _MORE if name in wanted},
    )
    return Applied(note, was_merged, others=(standing,))


def _standing(proposal: Proposal) -> Note:
    """Return the note that stands now in the chain of the one that the proposal would replace."""
    target = Note.objects.of(proposal.owner).filter(pk=proposal.target_id).first()
    if target is None:
        raise InvalidValue(_("The note that this would replace was deleted for good meanwhile."))
    links = [target] if target.superseded_by_id is None else chain(target)
    for link in links:
        if link.superseded_by_id is None and link.trashed_at is None:
            return link
    raise InvalidValue(
        _("The note that this would replace lies in the trash: restore it first, or reject this.")
    )


def _topic(owner: User, wanted: Mapping[str, Any]) -> Topic | None:
    key = wanted.get("topic_id")
    found: Topic | None = Topic.objects.of(owner).filter(pk=key).first() if key else None
    return found


# --- observations ---------------------------------------------------------------------------------


def lines_of(after: Mapping[str, Any]) -> list[Line]:
    """Return the observations that a proposal holds: `lines`, or one whose fields stand by themselves."""
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


def _remember(proposal: Proposal, wanted: Mapping[str, Any], by: Actor, _seen: str) -> Applied:
    """Store the observations; what its source gave already is from now on the person's word."""
    done = remember_lines(
        proposal.owner,
        lines_of(wanted),
        by=by,
        source=str(wanted.get("source") or proposal.source),
        change_source=proposal.source,
        topic=_topic(proposal.owner, wanted),
        sensitivity=str(wanted.get("sensitivity", "normal")),
        scope=str(wanted.get("scope", "owner")),
    )
    for one in done.observations:
        if one.trust != Trust.OWNER and one.trashed_at is None:
            one.change(by=by, why=why_of(proposal), trust=Trust.OWNER)
    first, *others = [*done.new, *(one for one in done.observations if one not in done.new)]
    return Applied(first, others=tuple(others))


APPLY: dict[str, Applier] = {
    "memoryfile": FILES,
    "note": Applier(_check_note, _write_note),
    "observation": Applier(_check_observations, _remember),
}
