"""One act on many records: what it changes of each, and how it is carried out and taken back.

Every act is a BulkAct row first.  It is worked off in batches; each is one transaction that holds
the row, changes its records and notes how far it came, so a second delivery goes on where the
first stopped, and two workers change nothing twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue, MemoryRefused
from memory.models import BulkAct, Note, Observation, Revision, User
from memory.models.base import Lock
from memory.models.history import as_json
from memory.models.notes import LONGEST_TAG, MOST_TAGS
from memory.models.searchable import Recalled
from memory.notes.writing import PINNED, expiry
from memory.records import bulk_words
from memory.records.list import records_wanted
from memory.records.list_query import PAGES, ListQuery
from memory.texts.text import clean, one_line, shorten

BATCH = 500
AT_ONCE = 1_000  # records changed in the request itself; more are a task's
MOST_TICKED = 1_000
LEASE = timedelta(minutes=2)  # after it an act that nobody works on is taken up again
PROGRESS = (
    "state", "total", "done", "left", "problem", "arguments", "lease_until", "finished_at",
)  # fmt: skip
UNFINISHED = (BulkAct.State.WAITING, BulkAct.State.RUNNING)
Fields = dict[str, Any]


# --- what an act changes of one record: {} where there is nothing to change -----------------------


def _pin(record: Any, asked: Mapping[str, Any]) -> Fields:
    return dict(PINNED) if isinstance(record, Note) else {"pinned": True}


def _unpin(record: Any, asked: Mapping[str, Any]) -> Fields:
    if not isinstance(record, Note) or not record.pinned:
        return {"pinned": False}
    return {"pinned": False, "expires_at": expiry(record.ttl_days)}


def _trash(record: Any, asked: Mapping[str, Any]) -> Fields:
    if record.trashed_at is not None:
        return {}
    if isinstance(record, Note) and record.is_standing_identity:
        raise InvalidValue(
            _("the soul, agent and user note that stand are only superseded, under Settings")
        )
    return {"trashed_at": timezone.now()}


def _restore(record: Any, asked: Mapping[str, Any]) -> Fields:
    if (
        isinstance(record, Note)
        and record.kind in Note.IDENTITY
        and record.superseded_by_id is None
    ):
        raise InvalidValue(_("soul, agent and user notes are brought back under Settings"))
    return {"trashed_at": None}


def _tag(record: Any, asked: Mapping[str, Any]) -> Fields:
    if asked["tag"] in record.tags:
        return {}
    if len(record.tags) >= MOST_TAGS:
        raise InvalidValue(_("it has %(most)d tags already") % {"most": MOST_TAGS})
    return {"tags": [*record.tags, asked["tag"]]}


def _untag(record: Any, asked: Mapping[str, Any]) -> Fields:
    return {"tags": [tag for tag in record.tags if tag != asked["tag"]]}


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that can be done to many records."""

    fields: Callable[[Any, Mapping[str, Any]], Fields]
    needs: str = ""  # the argument without which there is nothing to do
    pages: tuple[str, ...] = ("notes", "observations")


ACTS: dict[str, Act] = {
    "pin": Act(_pin),
    "unpin": Act(_unpin),
    "lock": Act(lambda record, asked: {"lock": asked["lock"]}, "lock"),
    "unlock": Act(lambda record, asked: {"lock": Lock.OPEN}),
    "tag": Act(_tag, "tag"),
    "untag": Act(_untag, "tag"),
    "trash": Act(_trash),
    "restore": Act(_restore),
    "categorise": Act(
        lambda record, asked: {"category": asked["category"]}, "category", ("observations",)
    ),
}


# --- asking for one -------------------------------------------------------------------------------


def ask(
    user: User,
    page: str,
    act: str,
    *,
    ids: Sequence[Any] = (),
    query: str | None = None,
    arguments: Mapping[str, str] | None = None,
) -> BulkAct:
    """Store what is to be done, to the records of `ids` or to all that the list's `query` matches.

    Raises InvalidValue for an act, argument or choice that cannot be.
    """
    if page not in PAGES or act not in ACTS or page not in ACTS[act].pages:
        raise InvalidValue(_("There is no such act on this list."))
    if query is None and not ids:
        raise InvalidValue(_("Nothing was done: tick the records it is meant for first."))
    if len(ids) > MOST_TICKED:
        raise InvalidValue(_("At most %(most)d records can be ticked.") % {"most": MOST_TICKED})
    kept: dict[str, Any] = _checked(ACTS[act].needs, arguments or {})
    if query is None:
        kept["ids"] = [str(key) for key in ids]
    return BulkAct.objects.create(owner=user, page=page, act=act, query=query or "", arguments=kept)


def ask_undo(act: BulkAct) -> BulkAct:
    """Store that an act is to be taken back.  Raises MemoryRefused if that was asked or it runs."""
    with transaction.atomic():
        held = BulkAct.objects.select_for_update().get(pk=act.pk)
        if held.state in UNFINISHED:
            raise MemoryRefused(_("It is still being done; take it back when it is finished."))
        if held.state == BulkAct.State.UNDONE or held.act == bulk_words.UNDO:
            raise MemoryRefused(_("There is nothing left to take back."))
        BulkAct.objects.filter(pk=held.pk).update(state=BulkAct.State.UNDONE)
        undo: BulkAct = BulkAct.objects.create(
            owner=held.owner,
            page=held.page,
            act=bulk_words.UNDO,
            arguments={"of": str(held.pk), "act": held.act},
            total=held.done,
        )
    return undo


def _checked(needs: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the argument that an act needs.  Raises InvalidValue, in words."""
    if not needs:
        return {}
    value = one_line(clean(arguments.get(needs, ""))[0])
    if needs == "tag":
        if not value or len(value) > LONGEST_TAG:
            raise InvalidValue(
                _("Write the tag, of 1 to %(most)d characters, into its field first.")
                % {"most": LONGEST_TAG}
            )
    elif needs == "lock":
        value = value or Lock.READ_ONLY
        if value not in Lock.values:
            raise InvalidValue(_("There is no such lock."))
    elif value not in Observation.Category.values:
        raise InvalidValue(_("Choose the category first."))
    return {needs: value}


# --- carrying it out ------------------------------------------------------------------------------


def carry_out(pk: uuid.UUID | str, *, seconds: float = 600.0) -> BulkAct | None:
    """Work the act off for at most `seconds`, and return it; None if somebody else works on it.

    Safe to be called twice.  What is left when the time is over, the tick takes up again.
    """
    until = time.monotonic() + seconds
    while True:
        with transaction.atomic():
            held = BulkAct.objects.select_for_update(skip_locked=True).filter(pk=pk)
            act: BulkAct | None = held.first()
            if act is None:
                return None
            if act.state not in UNFINISHED:
                return act
            _batch(act)
            act.save(update_fields=PROGRESS)
        if act.state not in UNFINISHED or time.monotonic() > until:
            return act


def to_be_taken_up() -> list[uuid.UUID]:
    """Return the acts on which nobody works, oldest first."""
    free = Q(lease_until=None) | Q(lease_until__lt=timezone.now())
    waiting = BulkAct.objects.filter(free, state__in=UNFINISHED).order_by("created")
    return list(waiting.values_list("pk", flat=True)[:50])


def give_up(pk: uuid.UUID | str, why: str) -> None:
    """Mark an act that cannot go on as failed; what it did stays done, and can be taken back."""
    BulkAct.objects.filter(pk=pk, state__in=UNFINISHED).update(
        state=BulkAct.State.FAILED, problem=why, finished_at=timezone.now()
    )


def is_large(act: BulkAct) -> bool:
    """Whether the act is for a task: it means more records than a request may change."""
    if act.act == bulk_words.UNDO:
        return (act.total or 0) > AT_ONCE
    if "ids" in act.arguments:
        return False
    return int(_meant(act).order_by()[: AT_ONCE + 1].count()) > AT_ONCE


def _batch(act: BulkAct) -> None:
    """Do the next BATCH records, and note on the act how far it came."""
    act.state, act.lease_until = BulkAct.State.RUNNING, timezone.now() + LEASE
    if act.total is None:
        act.total = _meant(act).count()
    wanted, last = _undoings(act) if act.act == bulk_words.UNDO else _doings(act)
    if wanted:
        _write(act, wanted)
    if last:
        act.arguments["last"] = last
    else:
        act.state, act.finished_at = BulkAct.State.DONE, timezone.now()


def _meant(act: BulkAct) -> QuerySet[Any]:
    """Return the records that the act means; what was written after it was asked for is not."""
    listed = PAGES[act.page]
    if "ids" in act.arguments:
        mine: QuerySet[Any] = listed.model.objects.of(act.owner)
        return mine.filter(pk__in=act.arguments["ids"])
    wanted = ListQuery.of(listed, QueryDict(act.query).dict())
    return records_wanted(act.owner, wanted).filter(created__lte=act.before)


def _doings(act: BulkAct) -> tuple[list[tuple[Any, Fields]], str]:
    """Return the next records with what is to change of each, and the last key; "" at the end."""
    rest = _meant(act)
    if last := act.arguments.get("last"):
        rest = rest.filter(pk__gt=last)
    keys = list(rest.order_by("pk").values_list("pk", flat=True)[:BATCH])
    wanted = []
    for record in _held(act, keys):
        try:
            fields = ACTS[act.act].fields(record, act.arguments)
        except MemoryRefused as exc:
            _leave(act, record, str(exc))
            continue
        changed = {name: v for name, v in fields.items() if getattr(record, name) != v}
        if changed:
            wanted.append((record, changed))
        else:
            act.left += 1  # it is so already
    return wanted, str(keys[-1]) if len(keys) == BATCH else ""


def _undoings(act: BulkAct) -> tuple[list[tuple[Any, Fields]], str]:
    """Return the records that the act to be undone changed and nobody since, as they were."""
    changes = Revision.objects.of(act.owner).filter(source=f"bulk:{act.arguments['of']}")
    changes = changes.filter(id__gt=act.arguments.get("last", 0)).order_by("id")[:BATCH]
    found = list(changes)
    held = {record.pk: record for record in _held(act, [one.record_id for one in found])}
    wanted = []
    for change in found:
        record = held.get(change.record_id)
        now = as_json(record.snapshot(*change.after)) if record else None
        if record is None or now != change.after:
            _leave(act, record or change.label, _("changed meanwhile, it was left as it is"))
            continue
        meta = record._meta
        fields = {n: meta.get_field(n).to_python(v) for n, v in change.before.items()}
        wanted.append((record, fields))
    return wanted, str(found[-1].pk) if len(found) == BATCH else ""


def _held(act: BulkAct, keys: Sequence[Any]) -> list[Any]:
    model: Any = PAGES[act.page].model
    records = model.objects.of(act.owner).filter(pk__in=keys).order_by("pk")
    return list(records.select_for_update(no_key=True))


def _write(act: BulkAct, wanted: Sequence[tuple[Any, Fields]]) -> None:
    """Change the records together; where the database refuses one, each by itself."""
    model: type[Recalled] = PAGES[act.page].model
    told: dict[str, Any] = {
        "by": Actor.person(act.owner),
        "why": bulk_words.reason_of(act.act),
        "source": f"bulk:{act.pk}",
    }
    try:
        with transaction.atomic():
            model.change_many(wanted, **told)
    except IntegrityError:
        for record, fields in wanted:
            record.refresh_from_db()
            try:
                with transaction.atomic():
                    model.change_many([(record, fields)], **told)
            except IntegrityError:
                _leave(act, record, _("the same words stand in the list already"))
            else:
                act.done += 1
    else:
        act.done += len(wanted)


def _leave(act: BulkAct, record: Any, why: str) -> None:
    act.left += 1
    if act.problem.count("\n") < 2:
        line = f"“{shorten(str(record), 60)}”: {why}"
        act.problem = f"{act.problem}\n{line}".strip()
