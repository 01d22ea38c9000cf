"""Bringing many records back from the trash at once, and moving them there again.

Each is restored by its kind's own rules, in the order in which it may: a record that another stands
in for comes after it.  What could not come back is told with its reason, and keeps none of the others.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core import signing
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _

from memory import record_acts, undoing
from memory.errors import MemoryRefused
from memory.models import Remembered, Revision, User
from memory.record_kinds import models as record_models
from memory.text import shorten

MOST = 50  # of one press: what a page shows
SECONDS = 15.0
_SALT = "trash-restored"
_MOST_TOLD = 3


@dataclass(slots=True)
class Restored:
    """What came of it: the revisions by which records came back, new names, and why others stay."""

    revisions: list[int] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stay: int = 0

    @property
    def key(self) -> str:
        """Return what an undo is asked with: it can be neither guessed nor changed."""
        return signing.dumps(self.revisions, salt=_SALT, compress=True)

    def leave(self, record: Remembered, why: str) -> None:
        """Note that a record stays in the trash."""
        self.stay += 1
        if len(self.problems) < _MOST_TOLD:
            self.problems.append(f"“{shorten(str(record), 60)}”: {why}")


def records_of(user: User, keys: Iterable[str]) -> list[Remembered]:
    """Return the user's trashed records that a form ticked as `type:id`; others are left out."""
    wanted: dict[str, list[uuid.UUID]] = {}
    for key in list(keys)[:MOST]:
        record_type, _colon, pk = key.partition(":")
        try:
            wanted.setdefault(record_type, []).append(uuid.UUID(pk))
        except ValueError:
            continue
    found: list[Remembered] = []
    for record_type, ids in wanted.items():
        model = record_models().get(record_type)
        if model is not None:
            found += model.objects.of(user).in_trash().filter(pk__in=ids)
    return sorted(found, key=lambda record: record.created, reverse=True)


def restore_many(user: User, records: Sequence[Any], *, seconds: float = SECONDS) -> Restored:
    """Bring the records back, each for itself, for as long as a request may last."""
    until, done = time.monotonic() + seconds, Restored()
    for record in records:
        record.owner, name = user, str(record)
        if time.monotonic() > until:
            done.leave(record, _("there was no time for it: restore it by itself"))
            continue
        try:
            with transaction.atomic():
                revision = record_acts.carry_out("restore", record, by=user.actor)
        except MemoryRefused as exc:
            done.leave(record, str(exc))
        except DatabaseError:
            done.leave(record, _("that does not fit what else is there now"))
        else:
            if revision is not None:
                done.revisions.append(revision.pk)
            if str(record) != name:
                done.renamed.append(renamed(name, record))
    return done


def renamed(name: str, record: Remembered) -> str:
    """Return what is said of a record that came back under another name."""
    words = _("“%(name)s” is taken by another now, so it came back as “%(new)s”.")
    return words % {"name": shorten(name, 80), "new": shorten(str(record), 80)}


def take_back(user: User, key: str) -> tuple[int, list[str]]:
    """Move to the trash again what `restore_many` brought back and nobody has changed since.

    Returns how many were moved, and why others were not.  A key that is none moves nothing.
    """
    try:
        ids = signing.loads(key, salt=_SALT)
    except signing.BadSignature:
        return 0, []
    moved, problems = 0, []
    for revision in Revision.objects.of(user).filter(pk__in=ids).order_by("-pk"):
        try:
            undoing.undo(revision, by=user.actor)
            moved += 1
        except MemoryRefused as exc:
            problems.append(str(exc))
    return moved, problems[:_MOST_TOLD]
