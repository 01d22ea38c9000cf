"""Bringing many records back from the trash at once, and moving them there again.

Each is restored by its kind's own rules, in the order in which it may: a record that another stands
in for comes after it.  What could not come back is told with its reason, and keeps none of the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core import signing
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _

from memory.errors import MemoryRefused
from memory.models import Remembered, Revision, User
from memory.records import acts as record_acts
from memory.records import undoing
from memory.records.kinds import models as record_models
from memory.texts.text import shorten
from memory.trash.page import Chosen

MOST = 1_000  # of one press
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
    left: int = 0  # for which there was no time

    @property
    def key(self) -> str:
        """Return what an undo is asked with: it can be neither guessed nor changed."""
        return signing.dumps(self.revisions, salt=_SALT, compress=True)

    def leave(self, record: Remembered, why: str) -> None:
        """Note that a record stays in the trash."""
        self.stay += 1
        if len(self.problems) < _MOST_TOLD:
            self.problems.append(f"“{shorten(str(record), 60)}”: {why}")


def restore_chosen(user: User, chosen: Chosen, *, seconds: float = SECONDS) -> Restored:
    """Bring back what is chosen, each for itself, for as long as a request may last.

    The newest first: what another stands in for comes after it.
    """
    until, done = time.monotonic() + seconds, Restored()
    ids = [
        (created, model_name, pk)
        for model_name, rows in chosen.rows(user)
        for created, pk in rows.order_by("-created").values_list("created", "pk")[:MOST]
    ]
    ids.sort(key=lambda one: one[0], reverse=True)
    done.left = max(0, len(ids) - MOST)
    for at, (_created, record_type, pk) in enumerate(ids[:MOST]):
        if time.monotonic() > until:
            done.left += len(ids[:MOST]) - at
            break
        record = record_models()[record_type].objects.of(user).in_trash().filter(pk=pk).first()
        if record is not None:
            _restore(user, record, done)
    return done


def _restore(user: User, record: Any, done: Restored) -> None:
    record.owner, name = user, str(record)
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


def renamed(name: str, record: Remembered) -> str:
    """Return what is said of a record that came back under another name."""
    words = _("“%(name)s” is taken by another now, so it came back as “%(new)s”.")
    return words % {"name": shorten(name, 80), "new": shorten(str(record), 80)}


def revisions_of(key: str) -> list[int]:
    """Return the revisions that a key names; none for one that is no key."""
    try:
        ids: list[int] = signing.loads(key, salt=_SALT)
    except signing.BadSignature:
        return []
    return ids


def take_back(user: User, ids: Sequence[int]) -> tuple[int, list[str]]:
    """Move to the trash again what these revisions brought back and nobody has changed since.

    Returns how many were moved, and why others were not.
    """
    moved, problems = 0, []
    for revision in Revision.objects.of(user).filter(pk__in=ids).order_by("-pk"):
        try:
            undoing.undo(revision, by=user.actor)
            moved += 1
        except MemoryRefused as exc:
            problems.append(str(exc))
    return moved, problems[:_MOST_TOLD]
