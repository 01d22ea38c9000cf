"""What goes to the trash with a record and comes back with it: a topic's runs, a file's sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.db.models import Count, F, IntegerField, Model, Value
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from memory.content.services import relate
from memory.core.actors import Actor
from memory.files import section_restore
from memory.files.services import put_back as put_file_back
from memory.models import Message, Remembered, Section, SnapshotItem
from memory.notes.services import check_put_back

Along = Mapping[Any, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Hanging:
    """Rows that hang on a record by a foreign key, and how they are counted in words."""

    model: type[Model]
    path: str
    many: Any  # an ngettext_lazy of %(n)s; the stubs know no type for it


def count_dependents(wanted: Iterable[tuple[Hanging, Sequence[Any]]]) -> dict[Any, list[str]]:
    """Return, by the records' ids, how much hangs on each, in words: one query for all kinds."""
    asked = list(wanted)
    parts = [
        hanging.model._default_manager.filter(**{f"{hanging.path}__in": ids})
        .order_by()
        .values(hanging.path)
        .annotate(
            on=F(hanging.path),
            place=Value(place, output_field=IntegerField()),
            number=Count("pk"),
        )
        .values("on", "place", "number")
        for place, (hanging, ids) in enumerate(asked)
    ]
    found: dict[Any, list[str]] = {}
    if parts:
        rows = parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]
        for row in sorted(rows, key=lambda row: row["place"]):
            words = str(asked[row["place"]][0].many % {"n": row["number"]})
            found.setdefault(row["on"], []).append(words)
    return found


# --- kinds ---

Move = Callable[[Any, Actor], object]
Address = Callable[[Any], str]
PutBack = Callable[[Any, dict[str, Any], Actor, str], object]


def _trash(record: Remembered, by: Actor) -> None:
    record.trash(by=by)


def _restore(record: Remembered, by: Actor) -> None:
    record.restore(by=by)


def _nothing_more(record: Remembered) -> dict[str, Any]:
    return {}


def _none_along(ids: Sequence[Any]) -> Along:
    return {}


def _address(record: Any) -> str:
    """Return the record's page; a type without pages leads to the trash or nowhere."""
    return record.get_absolute_url() if hasattr(record, "get_absolute_url") else ""


def _put_back(record: Remembered, fields: dict[str, Any], by: Actor, why: str) -> None:
    record.change(by=by, why=why, **fields)


@dataclass(frozen=True, slots=True)
class RecordKind:
    """What a type of record is called, and the acts that have rules of their own.

    `address` gives the page of a record outside the trash, empty where there is none.
    `put_back` sets fields (never `trashed_at`) to what they were; all acts raise MemoryRefused
    where the record's rules forbid them.  `more` gives fields that revisions hold though the row
    does not (a topic's settings).  `purge_page` names the page that deletes one for good, by its id
    alone, if it is another than every record's.  `many` counts them: "3 notes".  `derived` are fields
    that follow from the others, so that a change of them alone is none.  `hanging` is what goes to
    the trash with a record and comes back with it; `along` tells, by id and in words, what else does.
    `stays` says what a deletion for good leaves elsewhere.
    """

    noun: str | Promise
    trash: Move = _trash
    restore: Move = _restore
    put_back: PutBack = _put_back
    more: Callable[[Any], dict[str, Any]] = _nothing_more
    address: Address = _address
    purge_page: str = ""
    many: Any = None  # an ngettext_lazy of %(n)s; the stubs know no type for it
    derived: tuple[str, ...] = ()
    hanging: tuple[Hanging, ...] = ()
    along: Callable[[Sequence[Any]], Along] = _none_along
    stays: str | Promise = ""


def _document_back(document: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Put words back as an edit does, which counts its bytes; other fields as they are."""
    if fields.keys() & {"title", "text"}:
        words = {"title": document.title, "text": document.text} | fields
        document.rewrite(
            title=words["title"],
            text=words["text"],
            by=by,
            expected_version=document.version,
            why=why,
        )
    else:
        document.change(by=by, why=why, **fields)


def _observation_back(observation: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Put words back with their digest, by which the same again is known."""
    if "content" in fields:
        fields = fields | {"digest": observation.digest_of(fields["content"])}
    observation.change(by=by, why=why, **fields)


def _note_back(note: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Put a note back by its own rules; what a person restored is a person's edit (decision 9)."""
    check_put_back(note, fields, by=by)
    if "content" in fields and by.is_person:
        fields = fields | {"edited_by_person": True}
    note.change(by=by, why=why, **fields)


def _relations(item: Any) -> dict[str, Any]:
    return {"related_to": sorted(str(key) for key in item.related_to.values_list("pk", flat=True))}


def _content_back(item: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Put an item back, and what it is related to by the rules of relations."""
    fields = dict(fields)
    related = fields.pop("related_to", None)
    if fields:
        item.change(by=by, why=why, **fields)
    if related is not None:
        relate(item, related, by=by, why=why)


def _scratchpad_address(entry: Any) -> str:
    asked = urlencode({"scope": entry.scope, "q": entry.key})
    return f"{reverse('memory:scratchpad')}?{asked}"


_ITEMS = ngettext_lazy("%(n)s item", "%(n)s items", "n")
_SECTIONS = ngettext_lazy("%(n)s section", "%(n)s sections", "n")
_ENTRIES = ngettext_lazy("%(n)s section in Trash", "%(n)s sections in Trash", "n")
_MESSAGES = ngettext_lazy("%(n)s message", "%(n)s messages", "n")
_KINDS: dict[str, RecordKind] = {
    "note": RecordKind(
        _("note"), put_back=_note_back, many=ngettext_lazy("%(n)s note", "%(n)s notes", "n")
    ),
    "observation": RecordKind(
        _("observation"),
        put_back=_observation_back,
        many=ngettext_lazy("%(n)s observation", "%(n)s observations", "n"),
    ),
    "scratchpadentry": RecordKind(
        _("scratchpad entry"),
        address=_scratchpad_address,
        many=ngettext_lazy("%(n)s scratchpad entry", "%(n)s scratchpad entries", "n"),
    ),
    "librarydocument": RecordKind(
        _("library document"),
        put_back=_document_back,
        many=ngettext_lazy("%(n)s library document", "%(n)s library documents", "n"),
    ),
    "contentitem": RecordKind(
        _("content item"),
        put_back=_content_back,
        more=_relations,
        many=ngettext_lazy("%(n)s content item", "%(n)s content items", "n"),
    ),
    "snapshot": RecordKind(
        _("snapshot"),
        many=ngettext_lazy("%(n)s snapshot", "%(n)s snapshots", "n"),
        hanging=(Hanging(SnapshotItem, "snapshot", _ITEMS),),
    ),
    "memoryfile": RecordKind(
        _("memory file"),
        put_back=put_file_back,
        many=ngettext_lazy("%(n)s memory file", "%(n)s memory files", "n"),
        derived=("summary", "summary_by", "size", "blame"),
        hanging=(Hanging(Section, "file", _SECTIONS),),
    ),
    "fileentry": RecordKind(
        _("file entry"),
        trash=section_restore.trash,
        restore=section_restore.restore,
        many=ngettext_lazy("%(n)s file entry", "%(n)s file entries", "n"),
        stays=_("Older versions of its file show [purged] in its place."),
    ),
    "session": RecordKind(
        _("session"),
        many=ngettext_lazy("%(n)s session", "%(n)s sessions", "n"),
        hanging=(Hanging(Message, "session", _MESSAGES),),
    ),
}


def register(record_type: str, kind: RecordKind) -> None:
    """Say how records of a type are named and moved."""
    _KINDS[record_type] = kind


@cache  # a page of Activity asks three hundred times
def models() -> Mapping[str, type[Remembered]]:
    """Return every model of remembered records by its record type; parts of others are none."""
    found = (model for model in apps.get_models() if issubclass(model, Remembered))
    return MappingProxyType({one.record_type(): one for one in found if not one.IS_PART})


def kind_of(record_type: str) -> RecordKind:
    """Return the kind of a record type; of one that is not known, what holds for all."""
    model = models().get(record_type)
    known = _KINDS.get(record_type)
    return known or RecordKind(str(model._meta.verbose_name) if model else record_type)


def number_in_words(record_type: str, number: int) -> str:
    """Return how many records of a type there are, in words: "3 notes"."""
    kind = kind_of(record_type)
    return str(kind.many % {"n": number}) if kind.many else f"{number} × {kind.noun}"


def nouns() -> dict[str, str]:
    """Return the types of records with their names, by name."""
    named = {record_type: str(kind_of(record_type).noun) for record_type in models()}
    return dict(sorted(named.items(), key=lambda item: item[1]))
