"""What accepting a proposal would do now: it is carried out as `accept` does it, and rolled back.

Nothing is worked out a second way, so a preview and its acceptance cannot differ: merges, limits,
locks and kinds of proposals that come later are in it by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import MemoryRefused
from memory.models import Observation, Proposal, Remembered, Revision
from memory.reviewing import review
from memory.reviewing.types import Overtaken

LONGEST_WAIT_MS = 300  # for a row that someone else writes right now
_TEXTS = ("content", "text", "value", "title")


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one record: `act` is create, change, replace, merge, trash, restore or vouch.

    `before` and `after` are its whole text, of a merge `before` is that of all merged notes; to
    vouch leaves the text and makes it the person's own.
    `category` is that of an observation.
    """

    record_type: str
    act: str
    label: str
    before: str
    after: str
    category: str = ""

    @property
    def shown_before(self) -> str:
        """Return the text before, as a diff shows it."""
        return self._named(self.before)

    @property
    def shown_after(self) -> str:
        """Return the text after, as a diff shows it."""
        return self._named(self.after)

    def _named(self, text: str) -> str:
        return f"{self.category}: {text}" if self.category and text else text


@dataclass(frozen=True, slots=True)
class Preview:
    """What accepting would store; or the conflict, or the reason why nothing could be stored."""

    changes: tuple[Change, ...] = ()
    is_merged: bool = False
    warnings: tuple[str, ...] = ()
    conflict: Overtaken | None = None
    problem: str = ""

    @property
    def changes_nothing(self) -> bool:
        """Whether all that it would write is there already."""
        return not (self.changes or self.conflict or self.problem)


def preview(
    proposal: Proposal, *, by: Actor, after: Mapping[str, Any] | None = None, seen: str = ""
) -> Preview:
    """Return what `review.accept` with the same arguments would do now; nothing is stored."""
    wanted = {**proposal.after, **(after or {})}
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('lock_timeout', %s, true)", [f"{LONGEST_WAIT_MS}ms"]
                )
            last = Revision.objects.aggregate(last=Max("id"))["last"] or 0
            applied = review.carry_out(proposal, wanted, by, seen)
            found = changes_since(last, [applied.record, *applied.others], by)
            transaction.set_rollback(True)
    except Overtaken as exc:
        return Preview(conflict=exc)
    except MemoryRefused as exc:
        return Preview(problem=str(exc))
    except OperationalError:
        words = _("Someone is changing this right now. Reload the page to see what accepting does.")
        return Preview(problem=words)
    return Preview(tuple(found), applied.merged, tuple(map(str, applied.warnings)))


def changes_since(last: int, records: Sequence[Remembered], by: Actor) -> list[Change]:
    """Return what became of the records in the revisions after `last`, each once, in order."""
    if not records:
        return []
    made = Revision.objects.filter(
        owner_id=records[0].owner_id,
        record_id__in=[record.pk for record in records],
        id__gt=last,
        actor=str(by),
    )
    by_record: dict[Any, list[Revision]] = {}
    for revision in made.order_by("id"):
        by_record.setdefault(revision.record_id, []).append(revision)
    replaced = _replaced(by_record, records)
    gone = {older.pk for olders in replaced.values() for older in olders}
    changes = []
    for record in records:
        revisions = by_record.pop(record.pk, [])
        if revisions and record.pk not in gone:
            changes.append(_change(record, revisions, replaced.get(str(record.pk), [])))
    return changes


def _replaced(
    by_record: Mapping[Any, Sequence[Revision]], records: Sequence[Remembered]
) -> dict[str, list[Remembered]]:
    """Return which records each new one replaces, by the new one's key; a merge replaces several."""
    found: dict[str, list[Remembered]] = {}
    for record in records:
        for revision in by_record.get(record.pk, ()):
            if key := revision.after.get("superseded_by_id"):
                found.setdefault(str(key), []).append(record)
    return found


def _change(
    record: Remembered,
    revisions: Sequence[Revision],
    olders: Sequence[Remembered],
) -> Change:
    before, after = _text_of(revisions[0].before, record), _text_of(revisions[-1].after, record)
    act = "change"
    if olders:
        act = "replace" if len(olders) == 1 else "merge"
        before = "\n\n".join(_text_of({}, older) for older in olders)
    elif revisions[0].version == 1:
        act, before = "create", ""
    elif "trashed_at" in revisions[-1].after:
        act = "trash" if revisions[-1].after["trashed_at"] else "restore"
        after = "" if act == "trash" else after
    elif before == after:
        act = "vouch"
    category = record.get_category_display() if isinstance(record, Observation) else ""
    return Change(record.record_type(), act, str(record), before, after, category)


def _text_of(fields: Mapping[str, Any], record: Remembered) -> str:
    """Return the record's text among a revision's fields, else as the record has it."""
    for name in _TEXTS:
        if hasattr(record, name):
            return str(fields.get(name, getattr(record, name)))
    return ""
