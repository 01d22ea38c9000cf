"""Merging several notes into one summary note, and undoing that.

Data flow: notes -> `proposed` (a model's text, or the texts one after the other) -> `merge`, one
transaction that writes the summary and points the originals at it. Nothing is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone

from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import Message
from beacon_site.text.cleaning import clean, for_prompt, is_visible, shorten
from beacon_site.text.messages import gettext as _
from memory.models import Lock, Note, Sensitivity, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.models.notes import MAX_EVIDENCE, MAX_TAGS
from memory.models.remembered import OWNER_SCOPE, names_excluded, scope_excluding
from memory.services.llm.asking import BudgetReached, MonthMeter, ask_model
from memory.services.notes.saving import NoteChecks, insert, lowest_trust, point_at

MIN, MAX = 2, 20  # notes in one manual merge
_MAX_INPUT_LENGTH = 24_000  # characters of notes that a model is given to merge
_MAX_ANSWER = 4_000
_LOCKS = (Lock.OPEN, Lock.APPEND_ONLY, Lock.READ_ONLY)


@dataclass(frozen=True, slots=True)
class MergedText:
    """Text for a merged note. `warning` says why no model wrote it, if one should have."""

    content: str
    is_by_model: bool = False
    warning: str = ""


def merge(
    owner: User,
    ids: Iterable[Any],
    *,
    by: Actor,
    content: str | None = None,
    versions: Mapping[Any, int] | None = None,
    why: str = "",
    at: datetime | None = None,
    trust: str = Trust.OWNER,
) -> tuple[Note, MergedText]:
    """Merge at least two active notes into one summary note, which supersedes them (R198).

    Return the note, and the text as it was written.

    It has the strictest sensitivity and lock, the union of tags and evidence, and the lowest trust
    and confidence. It is stable, so it stays until deleted (R199). `trust` limits the summary's
    trust to that of who merges. `content` is its text. Without it, a model writes the text, or the
    texts are placed one after the other. Everything is one transaction, so a failure changes
    nothing. Raises InvalidValue, Locked, or StaleWrite if a note was changed since `versions` (by
    ID), or since its text was read.
    """
    at = at or timezone.now()
    keys = _keys(ids)
    known = dict(versions or {})
    written = MergedText(content or "")
    if content is None:
        read = _mergeable(owner, keys, by=by, at=at)
        known = {note.pk: note.version for note in read}
        written = proposed(read, owner=owner)
    checks = NoteChecks()
    text = checks.content(written.content)
    checks.raise_refused()
    with transaction.atomic():
        notes = _mergeable(owner, keys, by=by, at=at, is_held=True)
        for note in notes:
            if known.get(note.pk, note.version) != note.version:
                raise StaleWrite(str(note), current=note.version)
        fields = _joined(notes)
        _check_room(fields)
        merged = Note(owner=owner, content=text, **fields, source=str(by))
        merged.trust = lowest_trust([merged.trust, trust])
        merged.cleaned = tuple(checks.cleaned)
        # The originals point at it first, so that readers never see both.
        for note in notes:
            point_at(note, merged, by=by, why=why or _("merged"), source=str(by))
        insert(merged, by=by)
    return merged, written


def _keys(ids: Iterable[Any]) -> list[uuid.UUID]:
    try:
        keys = list(dict.fromkeys(uuid.UUID(str(key)) for key in ids))
    except ValueError:
        raise _refused(_("This note doesn’t exist.")) from None
    if len(keys) < MIN:
        raise _refused(_("Select at least 2 notes to merge."))
    if len(keys) > MAX:
        params = {"most": MAX, "have": len(keys)}
        raise _refused(
            _("You can merge at most %(most)d notes at once. You selected %(have)d.") % params
        )
    return keys


def mergeable(owner: User, ids: Iterable[Any], *, by: Actor) -> list[Note]:
    """Return the notes that `merge` would merge, oldest first. Raises InvalidValue or Locked."""
    return _mergeable(owner, _keys(ids), by=by, at=timezone.now())


def _refused(problem: str) -> InvalidValue:
    return InvalidValue(problem, errors={"ids": [problem]})


def _mergeable(
    owner: User, keys: Sequence[uuid.UUID], *, by: Actor, at: datetime, is_held: bool = False
) -> list[Note]:
    """Return the notes, oldest first, or raise an error. `is_held` locks their rows."""
    rows = Note.objects.for_user(owner).filter(pk__in=keys).order_by("pk")
    notes = list(rows.select_for_update() if is_held else rows)
    if len(notes) < len(keys):
        raise _refused(_("This note doesn’t exist."))
    for note in notes:
        note.check_may_change(by)
        problem = ""
        if note.kind in Note.IDENTITY:
            problem = _("“%(note)s” can’t be merged because it’s the soul, persona or profile.")
        elif note.trashed_at is not None:
            problem = _("“%(note)s” is in Trash. Restore it first.")
        elif note.superseded_by_id is not None:
            problem = _("“%(note)s” was replaced. Merge the note that replaced it instead.")
        elif note.has_expired(at):
            problem = _("“%(note)s” has expired. Pin it or extend “Expires after” first.")
        if problem:
            raise _refused(problem % {"note": str(note)})
    return sorted(notes, key=lambda note: (note.created, note.pk))


def _joined(notes: Sequence[Note]) -> dict[str, Any]:
    """Return the fields of the note that replaces `notes`."""
    is_sensitive = any(note.sensitivity == Sensitivity.SENSITIVE for note in notes)
    is_permanent = any(note.stability == Note.Stability.PERMANENT for note in notes)
    return {
        "kind": Note.Kind.SUMMARY,
        "stability": Note.Stability.PERMANENT if is_permanent else Note.Stability.STABLE,
        "sensitivity": Sensitivity.SENSITIVE if is_sensitive else Sensitivity.NORMAL,
        "trust": lowest_trust(note.trust for note in notes),
        "confidence": min(note.confidence for note in notes),
        "tags": list(dict.fromkeys(tag for note in notes for tag in note.tags)),
        "evidence": list(dict.fromkeys(entry for note in notes for entry in note.evidence)),
        "scope": _common([note.scope for note in notes]) or _widest([note.scope for note in notes]),
        "job": _common([note.job for note in notes]) or "",
        "topic_id": _common([note.topic_id for note in notes]),
        "pinned": any(note.pinned for note in notes),
        "paused": any(note.paused for note in notes),
        "lock": max((Lock(note.lock) for note in notes), key=_LOCKS.index),
    }


def _check_room(fields: Mapping[str, Any]) -> None:
    """Raise InvalidValue if the notes have more tags or evidence than one note can have."""
    problems = {
        "tags": (
            MAX_TAGS,
            _(
                "Together, these notes have %(have)d tags, but a note can have at most %(most)d. Nothing was merged. Remove some tags, or merge fewer notes."
            ),
        ),
        "evidence": (
            MAX_EVIDENCE,
            _(
                "Together, these notes have %(have)d pieces of evidence, but a note can have at most %(most)d. Nothing was merged. Remove some evidence, or merge fewer notes."
            ),
        ),
    }
    for name, (most, problem) in problems.items():
        if (have := len(fields[name])) > most:
            raise _refused(problem % {"have": have, "most": most})


def _common(values: Sequence[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else None


def _widest(scopes: Sequence[str]) -> str:
    """Return the owner's scope, without the agents that any of these scopes excludes."""
    widest = OWNER_SCOPE
    for name in sorted({name for scope in scopes for name in names_excluded(scope)}):
        widest = scope_excluding(widest, name)
    return widest


def proposed(notes: Sequence[Note], *, owner: User) -> MergedText:
    """Return text for the merged note: by a model, or else the texts one after the other.

    Sensitive notes are never sent to a model (R222). If the model fails, `warning` says why.
    """
    if any(note.sensitivity == Sensitivity.SENSITIVE for note in notes):
        return MergedText(concatenation(notes))
    try:
        content = _written(notes, owner)
    except (ProviderError, BudgetReached) as exc:
        params = {"why": shorten(str(exc), 300)}
        warning = _(
            "The model couldn’t merge the texts, so they were placed one after the other: %(why)s"
        )
        return MergedText(concatenation(notes), warning=warning % params)
    if content is None:
        return MergedText(concatenation(notes))
    return MergedText(content, is_by_model=True)


def concatenation(notes: Iterable[Note]) -> str:
    """Return the texts, oldest first, without duplicates."""
    return "\n\n".join(dict.fromkeys(note.content.strip() for note in notes))


def _written(notes: Sequence[Note], owner: User) -> str | None:
    """Return a model's summary, or None without a model or if there is too much text for it."""
    if sum(len(note.content) for note in notes) > _MAX_INPUT_LENGTH:
        return None
    shown = [
        {
            "kind": note.kind,
            "day": note.created.date().isoformat(),
            "source": for_prompt(note.source),
            "text": for_prompt(note.content),
        }
        for note in notes
    ]
    answer = ask_model(
        "merge",
        [
            Message("system", render_to_string("prompts/merge_system.txt", {"most": _MAX_ANSWER})),
            Message("user", render_to_string("prompts/merge_user.txt", {"notes": shown})),
        ],
        owner=owner,
        source=f"note:{notes[0].pk}",
        topic=notes[0].topic if _common([note.topic_id for note in notes]) else None,
        max_tokens=1_500,
        meter=MonthMeter(owner),
    )
    if answer is None:
        return None
    text = clean(answer.text)[0].strip()
    if not is_visible(text) or answer.finish_reason == "length":
        raise ProviderNonsense(_("its answer is empty or was cut off"), text=answer.text)
    return text


def unmerge(note: Note, *, by: Actor) -> list[Note]:
    """Undo a merge or a replacement: the originals are restored and `note` moves to Trash.

    Maintenance doesn't merge the originals again after a person's undo. Raises InvalidValue if
    there is nothing to undo, or a newer note replaces `note`.
    """
    problem = ""
    with transaction.atomic():
        held = Note.objects.select_for_update().get(pk=note.pk)
        originals = list(held.supersedes.order_by("created", "id").select_for_update())
        if held.kind in Note.IDENTITY:
            problem = _("To restore the soul, persona or profile, go to Agents or Settings.")
        elif held.superseded_by_id is not None:
            problem = _("A newer note replaces this one. Undo that replacement first.")
        elif not originals:
            problem = _("This note doesn’t replace another one, so there is nothing to undo.")
        if problem:
            raise InvalidValue(problem, errors={"superseded_by": [problem]})
        for original in originals:
            fields: dict[str, Any] = {"superseded_by_id": None}
            if by.is_person and not original.edited_by_person:
                fields["edited_by_person"] = True
            original.change(by=by, why=_("undone"), **fields)
        held.trash(by=by, why=_("undone"))
    note.trashed_at, note.version = held.trashed_at, held.version
    return originals
