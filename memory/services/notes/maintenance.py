"""Maintenance of notes: expired ones move to Trash, old volatile ones are merged.

Data flow: `maintain(owner)` -> `prune_expired` -> the old volatile notes, in batches of 2 to 5 of
one sensitivity -> `merging.merge` of each (a model's text, or the texts one after the other) -> a
line in Activity that counts both.

Notes that a person pinned, edited or locked are left unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, ngettext
from memory.models import Activity, Lock, Note, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import MemoryRefused
from memory.models.notes import MAX_CONTENT, NoteQuerySet
from memory.services.notes.merging import merge

logger = structlog.get_logger(__name__)

OLD = timedelta(days=7)  # seed 004: "7-day batch merge"
SOON = timedelta(hours=12)  # notes that expire before the run after next are merged now (R209)
MIN, MAX = 2, 5  # notes per batch
SECONDS = 300.0  # time limit; the rest follows in the next run
_PRUNED_AT_ONCE = 200


@dataclass(slots=True)
class Upkeep:
    """The result of a maintenance run: notes pruned, notes merged into summaries, and problems.

    `is_taken` means that another run was in progress, and `is_unfinished` that some notes remain.
    """

    pruned: int = 0
    merged: int = 0
    summaries: int = 0
    by_model: int = 0
    warnings: list[str] = field(default_factory=list)
    is_taken: bool = False
    is_unfinished: bool = False

    def description(self) -> str:
        """Return the result as text, for a toast and for Activity."""
        if self.is_taken:
            return _("Maintenance of your notes is already running. See Activity for its results.")
        params = {"n": grouped(self.pruned)}
        pruned = ngettext(
            "%(n)s expired note moved to Trash",
            "%(n)s expired notes moved to Trash",
            self.pruned,
        )
        merged = ngettext(
            "%(n)s note was merged into %(sums)s",
            "%(n)s notes were merged into %(sums)s",
            self.merged,
        )
        sums = ngettext("%(n)s summary", "%(n)s summaries", self.summaries)
        more = {"n": grouped(self.merged), "sums": sums % {"n": grouped(self.summaries)}}
        words = f"{pruned % params}; {merged % more}."
        if self.is_unfinished:
            words += " " + _("The remaining notes will be merged next time.")
        return words


def prune_expired(owner: User, *, at: datetime | None = None) -> int:
    """Move the owner's expired notes to Trash and return how many (R197).

    Two concurrent calls share the notes, and neither waits.
    """
    found = Note.objects.for_user(owner).live().expired(at).filter(lock=Lock.OPEN, pinned=False)
    found = found.filter(edited_by_person=False)
    pruned = 0
    while True:
        with transaction.atomic():
            rows = found.order_by("expires_at", "pk").select_for_update(skip_locked=True)
            some = list(rows[:_PRUNED_AT_ONCE])
            for note in some:
                note.trash(by=MAINTENANCE, why=_("expired"))
        pruned += len(some)
        if len(some) < _PRUNED_AT_ONCE:
            return pruned


def old_notes(owner: User | None = None, *, at: datetime | None = None) -> NoteQuerySet:
    """Return all volatile notes that are due to be merged at `at` (R209)."""
    at = at or timezone.now()
    is_old = Q(created__lte=at - OLD) | Q(expires_at__lte=at + SOON)
    found = Note.objects.active(at).filter(is_old, stability=Note.Stability.VOLATILE)
    found = found.filter(pinned=False, paused=False, edited_by_person=False, lock=Lock.OPEN)
    found = found.exclude(kind__in=Note.IDENTITY)
    return found.for_user(owner) if owner is not None else found


def batches(notes: Iterable[Note]) -> Iterator[list[Note]]:
    """Yield batches to merge: 2 to 5 notes of one sensitivity, oldest first.

    Notes of the same topic come first. The remaining notes of all topics are then merged together.
    """
    for _sensitivity, alike in _grouped(notes, "sensitivity"):
        rest: list[Note] = []
        for _topic, of_topic in _grouped(alike, "topic_id"):
            made = list(_chunks(of_topic))
            yield from (chunk for chunk in made if len(chunk) >= MIN)
            rest += [note for chunk in made if len(chunk) < MIN for note in chunk]
        rest.sort(key=lambda note: (note.created, note.pk))
        yield from (chunk for chunk in _chunks(rest) if len(chunk) >= MIN)


def _grouped(notes: Iterable[Note], name: str) -> Iterator[tuple[str, list[Note]]]:
    def key(note: Note) -> str:
        return str(getattr(note, name))

    ordered = sorted(notes, key=lambda note: (key(note), note.created, note.pk))
    return ((value, list(group)) for value, group in groupby(ordered, key=key))


def _chunks(notes: list[Note]) -> Iterator[list[Note]]:
    """Yield up to 5 notes at a time whose texts fit into one note.

    6 notes become 4 and 2, so that no single note remains.
    """
    start = 0
    while start < len(notes):
        left = len(notes) - start
        most = MAX - 1 if left == MAX + 1 else MAX
        size = 0
        chunk: list[Note] = []
        for note in notes[start : start + most]:
            size += len(note.content.encode()) + 2
            if chunk and size > MAX_CONTENT:
                break
            chunk.append(note)
        yield chunk
        start += len(chunk)


def maintain(
    owner: User,
    *,
    by: Actor = MAINTENANCE,
    seconds: float = SECONDS,
) -> Upkeep:
    """Prune and merge the owner's notes, and log it in Activity. Safe to call concurrently.

    `by` is who started it. The notes are changed by the maintenance actor, which can't change notes
    that a person locked.
    """
    at = timezone.now()
    ends = time.monotonic() + seconds
    done = Upkeep()
    with advisory_lock(LockId.NOTE_MAINTENANCE, owner.pk) as is_mine:
        if not is_mine:
            return Upkeep(is_taken=True)
        done.pruned = prune_expired(owner, at=at)
        for batch in batches(old_notes(owner, at=at)):
            if time.monotonic() > ends:
                done.is_unfinished = True
                break
            _merge(owner, batch, at, done)
    if done.pruned or done.merged or done.warnings or by.is_person:
        Activity.log(
            owner,
            by,
            "notes-maintained",
            label=done.description(),
            warning=bool(done.warnings),
            pruned=done.pruned,
            merged=done.merged,
            summaries=done.summaries,
            by_model=done.by_model,
            why=" ".join(dict.fromkeys(done.warnings)),
        )
    return done


def _merge(owner: User, batch: list[Note], at: datetime, done: Upkeep) -> None:
    """Merge one batch. If a note was changed in the meantime, the batch is left for the next run."""
    try:
        _note, text = merge(
            owner,
            [note.pk for note in batch],
            by=MAINTENANCE,
            why=_("merged by maintenance"),
            at=at,
        )
    except MemoryRefused as exc:
        logger.info("notes not merged", owner=owner.pk, why=str(exc))
        return
    done.merged += len(batch)
    done.summaries += 1
    done.by_model += text.is_by_model
    if text.warning:
        done.warnings.append(text.warning)


def owners_in_need() -> list[Any]:
    """Return the IDs of the owners with notes to prune or merge."""
    expired = Note.objects.live().expired().filter(edited_by_person=False, lock=Lock.OPEN)
    found = {*expired.values_list("owner_id", flat=True)}
    return sorted(found | {*old_notes().values_list("owner_id", flat=True)})
