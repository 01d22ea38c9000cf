"""Taking back how a conflict was settled: both sides stand as they were, and the pair waits again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.conflicts.resolve import MODELS, AlreadyResolved, held, held_sides
from memory.errors import MemoryRefused
from memory.models import Activity, Conflict, Note, Revision, TopicFact, User
from memory.models.history import as_json
from memory.notes import merging
from memory.records import undoing


@dataclass(slots=True)
class TakenBack:
    """How many conflicts are open again, and why others are not."""

    number: int = 0
    problems: list[str] = field(default_factory=list)


def take_back_of(owner: User, at: datetime, *, by: Actor) -> TakenBack:
    """Open again what the person settled in one act, at that moment, and take back what it did."""
    rows = Conflict.objects.of(owner).filter(settled_at=at, settled_by=str(by))
    done = TakenBack()
    for row in rows.exclude(settled_how=Conflict.How.GONE).order_by("-created", "-pk"):
        row.owner = owner
        try:
            take_back(row, by=by)
        except AlreadyResolved:
            continue  # another window was quicker
        except MemoryRefused as exc:
            done.problems.append(str(exc))
        else:
            done.number += 1
    return done


def take_back(conflict: Conflict, *, by: Actor) -> None:
    """Restore both sides and reopen the conflict.

    Raises AlreadyResolved if it is already open or settled itself, and what undoing raises if a side
    was changed since.  Nothing is changed in these cases.
    """
    with transaction.atomic():
        held_sides(conflict)
        row = held(conflict)
        pair = Conflict.objects.of(row.owner).between(row.left_id, row.right_id)
        if pair.open().exists() or row.settled_how == Conflict.How.GONE:
            # This conflict or a later one of the same pair is already open.
            raise AlreadyResolved(_("This conflict is already open. Nothing was changed."))
        _undo_all(row, by)
        for side in ("left", "right"):
            model = MODELS[getattr(row, f"{side}_type")]
            rows = model.objects.of(row.owner).filter(pk=getattr(row, f"{side}_id"))
            version = rows.values_list("version", flat=True).first()
            setattr(row, f"{side}_version", version or getattr(row, f"{side}_version"))
        row.open_again()
        row.save(update_fields=["left_version", "right_version"])
        Activity.log(row.owner, by, "conflict-reopened", subject=row, label=str(row))
    conflict.refresh_from_db()


def _undo_all(row: Conflict, by: Actor) -> None:
    """Undo each change that the resolution made, the last first."""
    changes: list[Revision] = []
    for record_type, key, version in row.results:
        mine = Revision.objects.of(row.owner).filter(record_type=record_type, record_id=key)
        changes += mine.filter(version=version).order_by("id")[:1]
    made = next((one for one in changes if not one.before), None)
    if made is not None:
        merged = undoing.record_of(made, for_update=True)
        if isinstance(merged, Note):
            merging.unmerge(merged, by=by)
            return
    for change in reversed(changes):
        if change.record_type == TopicFact.record_type():
            _undo_fact(change, by)
        else:
            undoing.undo(change, by=by)


def _undo_fact(change: Revision, by: Actor) -> None:
    """Put a fact back as it was, with its trust and whose it was; its list takes it in again."""
    fact = undoing.record_of(change, for_update=True)
    if not isinstance(fact, TopicFact) or as_json(fact.snapshot(*change.after)) != change.after:
        told = {"label": change.label}
        raise undoing.ChangedSince(
            _("“%(label)s” was changed again since: put it back from its history.") % told
        )
    columns = {column.name: column for column in fact._meta.concrete_fields}
    fields = {name: columns[name].to_python(value) for name, value in change.before.items()}
    if fields.get("state") == TopicFact.State.CURRENT:
        fact.unstrike(by=by)
    fields.setdefault("trust", fact.trust)
    fact.change(by=by, why=_("a settled conflict was taken back"), **fields)
