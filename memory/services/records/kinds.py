"""The types of records: their names, their special rules, and what is trashed and restored with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, IntegerField, Model, Value
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from memory.models import Message, Remembered, Section, SnapshotItem
from memory.models.actors import Actor
from memory.models.remembered import record_models
from memory.services.content.items import relate
from memory.services.files import section_restore
from memory.services.files.saving import restore_state as put_file_back
from memory.services.notes.saving import check_put_back

Along = Mapping[Any, Sequence[str]]


# Rows that reference a record: their model, the foreign key, and an ngettext_lazy with %(n)s that
# counts them, for which the stubs have no type.
Dependents = tuple[type[Model], str, Any]


def count_dependents(wanted: Iterable[tuple[Dependents, Sequence[Any]]]) -> dict[Any, list[str]]:
    """Return the dependent rows of each record, by ID and in words; one query for all kinds."""
    pairs = list(wanted)
    parts = [
        model._default_manager.filter(**{f"{path}__in": ids})
        .order_by()
        .values(path)
        .annotate(
            on=F(path),
            place=Value(place, output_field=IntegerField()),
            number=Count("pk"),
        )
        .values("on", "place", "number")
        for place, ((model, path, _many), ids) in enumerate(pairs)
    ]
    found: dict[Any, list[str]] = {}
    if parts:
        rows = parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]
        for row in sorted(rows, key=lambda row: row["place"]):
            (_model, _path, many), _ids = pairs[row["place"]]
            words = str(many % {"n": row["number"]})
            found.setdefault(row["on"], []).append(words)
    return found


# --- kinds ---

Move = Callable[[Any, Actor], object]
PutBack = Callable[[Any, dict[str, Any], Actor, str], object]


def _trash(record: Remembered, by: Actor) -> None:
    record.trash(by=by)


def _restore(record: Remembered, by: Actor) -> None:
    record.restore(by=by)


def _nothing_more(record: Remembered) -> dict[str, Any]:
    return {}


def _none_along(ids: Sequence[Any]) -> Along:
    return {}


def _restore_fields(record: Remembered, fields: dict[str, Any], by: Actor, why: str) -> None:
    record.change(by=by, why=why, **fields)


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The names of a type of record, and its special rules.

    `restore_state` restores field values (never
    `trashed_at`).  All rules raise MemoryRefused if they forbid something.  `more` returns fields that are
    in revisions but not in the row (a topic's settings).  `purge_page` names the page for permanent
    deletion if it isn't the usual one; it takes the ID.  `many` counts records: "3 notes".  `derived`
    fields follow from others, so a change of only those doesn't count.  `hanging` is trashed and restored
    with a record, and `along` describes, by ID, what else is.  `stays` says what a purge leaves elsewhere.
    """

    noun: str | Promise
    trash: Move = _trash
    restore: Move = _restore
    restore_state: PutBack = _restore_fields
    more: Callable[[Any], dict[str, Any]] = _nothing_more
    purge_page: str = ""
    many: Any = None  # an ngettext_lazy with %(n)s, for which the stubs have no type
    derived: tuple[str, ...] = ()
    hanging: tuple[Dependents, ...] = ()
    along: Callable[[Sequence[Any]], Along] = _none_along
    stays: str | Promise = ""


def _document_back(document: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore the text as an edit, which updates its size, then the other fields."""
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
    """Restore the text with its digest, which identifies duplicates."""
    if "content" in fields:
        fields = fields | {"digest": observation.digest_of(fields["content"])}
    observation.change(by=by, why=why, **fields)


def _note_back(note: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore a note by its own rules; a person's restore counts as a person's edit."""
    check_put_back(note, fields, by=by)
    if "content" in fields and by.is_person:
        fields = fields | {"edited_by_person": True}
    note.change(by=by, why=why, **fields)


def _relations(item: Any) -> dict[str, Any]:
    return {"related_to": sorted(str(key) for key in item.related_to.values_list("pk", flat=True))}


def _content_back(item: Any, fields: dict[str, Any], by: Actor, why: str) -> None:
    """Restore an item, and its relations by their own rules."""
    fields = dict(fields)
    related = fields.pop("related_to", None)
    if fields:
        item.change(by=by, why=why, **fields)
    if related is not None:
        relate(item, related, by=by, why=why)


_ITEMS = ngettext_lazy("%(n)s item", "%(n)s items", "n")
_SECTIONS = ngettext_lazy("%(n)s section", "%(n)s sections", "n")
_MESSAGES = ngettext_lazy("%(n)s message", "%(n)s messages", "n")
_KINDS: dict[str, RecordKind] = {
    "note": RecordKind(
        _("note"), restore_state=_note_back, many=ngettext_lazy("%(n)s note", "%(n)s notes", "n")
    ),
    "observation": RecordKind(
        _("observation"),
        restore_state=_observation_back,
        many=ngettext_lazy("%(n)s observation", "%(n)s observations", "n"),
    ),
    "scratchpadentry": RecordKind(
        _("scratchpad entry"),
        many=ngettext_lazy("%(n)s scratchpad entry", "%(n)s scratchpad entries", "n"),
    ),
    "librarydocument": RecordKind(
        _("library document"),
        restore_state=_document_back,
        many=ngettext_lazy("%(n)s library document", "%(n)s library documents", "n"),
    ),
    "contentitem": RecordKind(
        _("content item"),
        restore_state=_content_back,
        more=_relations,
        many=ngettext_lazy("%(n)s content item", "%(n)s content items", "n"),
    ),
    "snapshot": RecordKind(
        _("snapshot"),
        many=ngettext_lazy("%(n)s snapshot", "%(n)s snapshots", "n"),
        hanging=((SnapshotItem, "snapshot", _ITEMS),),
    ),
    "memoryfile": RecordKind(
        _("memory file"),
        restore_state=put_file_back,
        many=ngettext_lazy("%(n)s memory file", "%(n)s memory files", "n"),
        derived=("summary", "summary_by", "size", "blame"),
        hanging=((Section, "file", _SECTIONS),),
    ),
    "fileentry": RecordKind(
        _("file entry"),
        trash=section_restore.trash,
        restore=section_restore.restore,
        many=ngettext_lazy("%(n)s file entry", "%(n)s file entries", "n"),
        stays=_("Older versions of the file show [purged] in place of this entry."),
    ),
    "session": RecordKind(
        _("conversation"),
        many=ngettext_lazy("%(n)s conversation", "%(n)s conversations", "n"),
        hanging=((Message, "session", _MESSAGES),),
    ),
}


def register(record_type: str, kind: RecordKind) -> None:
    _KINDS[record_type] = kind


def kind_of(record_type: str) -> RecordKind:
    """Return the kind of a record type, or the default for an unknown one."""
    model = record_models().get(record_type)
    known = _KINDS.get(record_type)
    return known or RecordKind(str(model._meta.verbose_name) if model else record_type)


def count_label(record_type: str, number: int) -> str:
    """Return a number of records in words: "3 notes"."""
    kind = kind_of(record_type)
    return str(kind.many % {"n": number}) if kind.many else f"{number} × {kind.noun}"


def nouns() -> dict[str, str]:
    """Return the record types with their names, sorted by name."""
    named = {record_type: str(kind_of(record_type).noun) for record_type in record_models()}
    return dict(sorted(named.items(), key=lambda item: item[1]))
