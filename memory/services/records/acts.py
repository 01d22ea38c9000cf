"""Actions on one record of any type: pin, lock, confirm, trash, restore and purge.

An action that changes something adds one revision, which can be undone (`memory.services.records.history`).
`BulkResult` performs an action on many rows within the time limit of a request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _lazy

from beacon_site.db.errors import retried
from beacon_site.text.cleaning import one_line, shorten
from beacon_site.text.messages import gettext as _
from memory.models import Note, Observation, Remembered, Revision, Trust
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.remembered import Lock
from memory.services.notes import saving as notes
from memory.services.records.kinds import kind_of

MAX_REASONS = 3  # reasons in one message
STATE = ("pinned", "paused", "lock")  # of notes and observations; an edit can set them, too
TYPED_WORDS = 4  # of a record without a name: the words to type before a purge


@dataclass(frozen=True, slots=True)
class Act:
    """An action and its message; `said` can depend on the record before the action."""

    do: Callable[[Any, Actor, str], object]
    said: Callable[[Any], str | Promise]


@dataclass(slots=True)
class BulkResult:
    """The result of one action on many rows; `key` identifies the action for an undo.

    There was no time for `left` rows, and `apart` rows need their own decision. `revisions` are those
    that restored records, and `renamed` says which got new names.
    """

    key: Any = None
    done: int = 0
    left: int = 0
    apart: int = 0
    problems: list[str] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Return the first reasons why rows weren't changed, each once."""
        return list(dict.fromkeys(self.problems))[:MAX_REASONS]

    @property
    def why(self) -> str:
        return " ".join(self.reasons)

    def perform(
        self,
        rows: Collection[Any],
        act: Callable[[Any], object],
        seconds: float = math.inf,
        name: Callable[[Any], str] | None = None,
        skipped: type[MemoryRefused] | tuple[()] = (),
    ) -> BulkResult:
        """Act on each row until the time is over. `name` tells to which row a problem belongs.

        A row that raises `skipped` doesn't count: another window was faster.
        """
        ends = time.monotonic() + seconds
        for place, row in enumerate(rows):
            if time.monotonic() > ends:
                self.left = len(rows) - place
                break
            try:
                act(row)
            except skipped:
                continue
            except MemoryRefused as exc:
                self.problems.append(f"{name(row)}: {exc}" if name else str(exc))
            else:
                self.done += 1
        return self


def _pin(record: Any, by: Actor, _value: str) -> None:
    if isinstance(record, Note):
        notes.pin(record, by=by)
    else:
        record.change(by=by, why=_("pinned"), pinned=True)


def _unpin(record: Any, by: Actor, _value: str) -> None:
    if isinstance(record, Note):
        notes.unpin(record, by=by)
    else:
        record.change(by=by, why=_("unpinned"), pinned=False)


def _pause(record: Any, by: Actor, _value: str) -> None:
    check_may_be_paused(record)
    record.change(by=by, why=_("paused"), paused=True)


def check_may_be_paused(record: Any) -> None:
    """Raise InvalidValue for the soul, agent and user notes, and for kinds that can't be paused."""
    if not hasattr(record, "paused"):
        raise InvalidValue(_("Only notes and observations can be paused."))
    if getattr(record, "kind", "") in Note.IDENTITY:
        raise InvalidValue(
            _(
                "Every context begins with the soul, persona and profile, so they can’t be paused. Edit them under Agents or Settings."
            )
        )


def _resume(record: Any, by: Actor, _value: str) -> None:
    record.change(by=by, why=_("resumed"), paused=False)


def _lock(record: Any, by: Actor, value: str) -> None:
    lock = value or Lock.READ_ONLY
    if lock not in Lock.values:
        problem = _("“%(value)s” isn’t a valid lock. Choose one of: %(known)s.")
        raise InvalidValue(problem % {"value": value[:40], "known": ", ".join(Lock.values)})
    # Topic facts have their own rule: people can pin at most eight.
    if hasattr(record, "set_lock"):
        record.set_lock(lock, by=by)
    else:
        message = _("unlocked") if lock == Lock.OPEN else _("locked")
        record.change(by=by, why=message, lock=lock)


def _accept(record: Any, by: Actor, _value: str) -> None:
    """Confirm the record, which gives it a person's trust."""
    record.change(by=by, why=_("marked as verified"), trust=Trust.OWNER)


def _pinned_words(record: Any) -> str | Promise:
    if getattr(record, "expires_at", None):
        return _lazy("Pinned. It no longer expires, and maintenance won’t change it.")
    return _lazy("Pinned. Maintenance won’t change it.")


def _unpinned_words(record: Any) -> str | Promise:
    if getattr(record, "ttl_days", None):
        return _lazy("Unpinned. Its expiry period starts over now.")
    return _lazy("Unpinned.")


ACTS: dict[str, Act] = {
    "trash": Act(
        lambda record, by, _value: kind_of(record.record_type()).trash(record, by),
        lambda _record: _lazy("Moved to Trash for 30 days."),
    ),
    "restore": Act(
        lambda record, by, _value: kind_of(record.record_type()).restore(record, by),
        lambda _record: _lazy("Restored from Trash."),
    ),
    "pin": Act(_pin, _pinned_words),
    "unpin": Act(_unpin, _unpinned_words),
    "pause": Act(
        _pause,
        lambda _record: _lazy(
            "Paused. Agents can’t see it, and no prompt includes it. To find it, search for is:paused."
        ),
    ),
    "resume": Act(_resume, lambda _record: _lazy("Resumed. Agents can see it again.")),
    "lock": Act(_lock, lambda _record: _lazy("Locked. Only you can edit it now.")),
    "unlock": Act(
        lambda record, by, _value: _lock(record, by, Lock.OPEN), lambda _record: _lazy("Unlocked.")
    ),
    "accept": Act(
        _accept, lambda _record: _lazy("Verified. It’s now trusted as if you had written it.")
    ),
}


def set_state(
    record: Note | Observation, *, by: Actor, pinned: bool, paused: bool, lock: str
) -> None:
    """Pin, pause and lock the record as given. What doesn't change anything isn't done."""
    if pinned != record.pinned:
        perform("pin" if pinned else "unpin", record, by=by)
    if paused != record.paused:
        perform("pause" if paused else "resume", record, by=by)
    if lock != record.lock:
        perform("lock", record, by=by, value=lock)


def perform(name: str, record: Remembered, *, by: Actor, value: str = "") -> Revision | None:
    """Run one of ACTS and return its revision, or None if nothing changed.

    Raises MemoryRefused with the reason if the record's rules forbid it.
    """
    version = record.version
    retried(lambda: ACTS[name].do(record, by, value), savepoint=False)
    rows = Revision.objects.filter(
        record_type=record.record_type(), record_id=record.pk, version__gt=version
    )
    return rows.order_by("-id").first()


def typed_name(record: Remembered) -> str:
    """Return what a person types to delete the record permanently: its name, else its first words."""
    words = [word for word in one_line(str(record)).rstrip("…").split(" ") if word not in "·›"]
    return shorten(" ".join(words[:TYPED_WORDS]), 60).rstrip("…")


def purge(record: Remembered, *, typed: str, by: Actor) -> None:
    """Delete a trashed record permanently.  Raises InvalidValue unless `typed` is its name."""
    if record.trashed_at is None:
        raise InvalidValue(_("Only items in Trash can be deleted permanently."))
    name = typed_name(record)
    if one_line(typed) != name:
        problem = _("That doesn’t match. Type “%(name)s” to confirm.")
        raise InvalidValue(problem % {"name": name}, errors={"name": [problem % {"name": name}]})
    retried(lambda: record.purge(by=by), savepoint=False)
