"""Quarantine: the list of quarantined records, the reasons, and releasing or deleting them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Left

from beacon_site.text.cleaning import one_line, uuid_of
from beacon_site.text.injection import injection_reason, instruction_spans
from beacon_site.text.messages import gettext as _
from memory.models import (
    Activity,
    ContentItem,
    Note,
    Observation,
    Revision,
    ScratchpadEntry,
    TopicFact,
    Trust,
    User,
    origins,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.services.records.acts import BulkResult
from memory.services.records.kinds import kind_of


def reason_of(record: Any) -> str:
    """Return why the record is quarantined, or "" if it isn't."""
    if record.trust != Trust.QUARANTINED:
        return ""
    return reason_in(getattr(record, name, "") for name in TEXTS)


def imported_trust(record: Any) -> str:
    """Return the trust of an imported record: quarantined if it tries to instruct an agent."""
    texts = (str(getattr(record, name, "") or "") for name in TEXTS)
    is_listed = isinstance(record, tuple(MODELS.values()))
    return Trust.QUARANTINED if is_listed and any(map(injection_reason, texts)) else Trust.EXTERNAL


def reason_in(texts: Iterable[Any]) -> str:
    """Return why a record with these texts is quarantined."""
    for text in filter(None, texts):
        if smell := injection_reason(str(text)):
            return _("Possible prompt injection: this text %(smell)s.") % {"smell": _(smell)}
    return _("This record is based on something in quarantine, or was imported as quarantined.")


TEXTS = ("title", "content", "text", "key", "value")  # fields of which a record has some
MAX = 1_000  # records per action
MAX_SHOWN = 600  # characters of a text, around the suspicious words
LOOKED_AT = 20_000  # characters of a page that the list searches for the reason
SECONDS = 10.0  # per request; the rest stays in quarantine, and a message says so
MODELS: dict[str, Any] = {
    "note": Note,
    "observation": Observation,
    "contentitem": ContentItem,
    "scratchpadentry": ScratchpadEntry,
    "topicfact": TopicFact,
}
ACTS = ("release", "trash")
_SOURCE = "quarantine:"
_FROM_AGENTS = ("session:", "agent:")


def released_trust(record: Any) -> str:
    """Return the trust of a released record: its writer's, or external."""
    by_agent = record.source.startswith(_FROM_AGENTS) and not isinstance(record, ContentItem)
    return Trust.AGENT if by_agent else Trust.EXTERNAL


# --- the list -------------------------------------------------------------------------------------


class QuarantinedRow(TypedDict):
    record: Any
    type: str
    noun: str
    url: str
    why: str
    pieces: list[tuple[str, bool]]
    origin: origins.Origin | None


def _rows(owner: User, model: Any) -> Any:
    rows = model.objects.for_user(owner).live().filter(trust=Trust.QUARANTINED).order_by()
    return rows.filter(superseded_by=None) if model is Note else rows


def quarantined_by_type(owner: User) -> dict[str, QuerySet[Any]]:
    """Return what is in quarantine, by type."""
    return {name: _rows(owner, model) for name, model in MODELS.items()}


def quarantined_rows(owner: User, pairs: Iterable[tuple[str, str]]) -> dict[str, QuarantinedRow]:
    """Return the records of these types and IDs as a list shows them, by ID: one query per type."""
    by_type: dict[str, list[str]] = {}
    for name, key in pairs:
        by_type.setdefault(name, []).append(key)
    records: list[Any] = []
    for name, ids in by_type.items():
        rows = _without_long(_rows(owner, MODELS[name]).filter(pk__in=ids))
        has_topic = any(f.name == "topic" for f in MODELS[name]._meta.concrete_fields)
        records += rows.select_related("topic") if has_topic else rows
    named = origins.of(owner, [record.source for record in records])
    return {str(record.pk): _row(record, named) for record in records}


def _without_long(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Load only the beginning of page texts, which can be megabytes."""
    if rows.model is not ContentItem:
        return rows
    short: QuerySet[Any] = rows.annotate(begins=Left("content", LOOKED_AT)).defer("content")
    return short


def _row(record: Any, named: Mapping[str, origins.Origin]) -> QuarantinedRow:
    kind = kind_of(record.record_type())
    if isinstance(record, ContentItem):
        text = getattr(record, "begins", "")
        why = (
            reason_in([record.title, text]) if record.size <= len(text) else _of_long(record, text)
        )
    else:
        texts = (getattr(record, name, "") for name in ("content", "text", "value"))
        text, why = next(filter(None, texts), ""), reason_of(record)
    return {
        "record": record,
        "type": record.record_type(),
        "noun": str(kind.noun),
        "url": record.get_absolute_url(),
        "why": why,
        "pieces": _pieces(one_line(str(text))),
        "origin": named.get(record.source),
    }


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Return the text around the first suspicious words, in pieces that say whether they are."""
    spans = instruction_spans(text)
    first = spans[0][0] if spans else 0
    begin = max(0, min(first - MAX_SHOWN // 3, len(text) - MAX_SHOWN))
    if begin:
        begin = text.find(" ", begin, first) + 1 or begin
    end = min(len(text), begin + MAX_SHOWN)
    found, at = [("…", False)] if begin else [], begin
    for start, stop in spans:
        if start < end:
            found += [(text[at:start], False), (text[start : min(stop, end)], True)]
            at = min(stop, end)
    return [*found, (text[at:end], False), ("…" if end < len(text) else "", False)]


def _of_long(record: ContentItem, begins: str) -> str:
    smell = injection_reason(record.title) or injection_reason(begins)
    if smell:
        return _("Possible prompt injection: this text %(smell)s.") % {"smell": _(smell)}
    return _("The suspicious passage is further down in this text. Open the item to see it.")


# --- actions --------------------------------------------------------------------------------------


def chosen(owner: User, names: Sequence[str]) -> list[Any]:
    """Return the quarantined records that a form names as `type:id`."""
    by_type: dict[str, list[uuid.UUID]] = {}
    for one in names[:MAX]:
        name, _colon, key = one.partition(":")
        if pk := uuid_of(key):
            by_type.setdefault(name, []).append(pk)
    results: list[Any] = []
    for name, keys in by_type.items():
        if name in MODELS:
            results += _without_long(_rows(owner, MODELS[name]).filter(pk__in=keys))
    return results


def everything(owner: User) -> list[Any]:
    """Return all quarantined records, up to the limit of one action."""
    results: list[Any] = []
    for model in MODELS.values():
        results += _without_long(_rows(owner, model))[: MAX - len(results)]
    return results


def act(
    owner: User, records: Sequence[Any], name: str, *, by: Actor, seconds: float = SECONDS
) -> BulkResult:
    """Release the records or move them to Trash, one by one within the time limit of a request.

    A released record gets the trust of its source.
    """
    if not by.is_person or name not in ACTS:
        raise InvalidValue(_("Only a person can release or delete what’s in quarantine."))
    done = BulkResult(uuid.uuid4())
    fields: dict[str, Any] = {"by": by, "source": f"{_SOURCE}{done.key}"}

    def perform(record: Any) -> None:
        with transaction.atomic():
            if name == "trash":
                record.trash(why=_("moved from quarantine to Trash"), **fields)
            else:
                why = _("released from quarantine")
                record.change(why=why, trust=released_trust(record), **fields)

    done.perform(records, perform, seconds)
    if done.done:
        kind = "quarantine-released" if name == "release" else "quarantine-trashed"
        Activity.log(owner, by, kind, label=str(done.done), number=done.done)
    return done


def undo_change(owner: User, key: uuid.UUID, *, by: Actor, seconds: float = SECONDS) -> BulkResult:
    """Undo one action for the records that haven't changed since.

    This stops at the time limit of a request; a second call continues with the rest.
    """
    changes = Revision.objects.for_user(owner).filter(source=f"{_SOURCE}{key}").order_by("-id")
    records: dict[Any, Any] = {}
    for name, model in MODELS.items():
        ids = [one.record_id for one in changes if one.record_type == name]
        records |= _without_long(model.objects.for_user(owner)).in_bulk(ids)
    same = [
        (change, record)
        for change in changes
        if (record := records.get(change.record_id)) and record.version == change.version
    ]

    def put_back(row: tuple[Revision, Any]) -> None:
        change, record = row
        with transaction.atomic():
            if "trashed_at" in change.after:
                record.restore(by=by)
            else:
                record.change(by=by, why=_("returned to quarantine"), trust=Trust.QUARANTINED)

    return BulkResult(key).perform(same, put_back, seconds)
