"""A record's history: each change in words, a comparison of any two versions, undo and restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import DataError, IntegrityError, models, transaction
from django.utils import formats, timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.keyset import Page, page_of
from beacon_site.text import diff as text_diff
from memory.models import LibraryDocument, Remembered, Revision, User, origins
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.history import as_json
from memory.models.remembered import Lock, record_models
from memory.services.records.kinds import kind_of

PAGE = 25
# A page of large texts with changes on every line would be megabytes, so longer diffs are cut.
MAX_DIFFED, MAX_ROWS, MAX_COMPARED, MAX_FIRST = 200_000, 120, 2_000, 4_000
# The field with a record's text; for types not listed here it is `content`.
SAYS = {"topicfact": "text", "scratchpadentry": "value", "librarydocument": "text"}
# Fields that the history leaves out, since they follow from others.
_QUIET = {"blame", "chain", "digest", "edited_by_person", "key", "updated", "near_duplicate_of_id"}


@dataclass(slots=True)
class Change:
    """One revision for people: who made it and why, what it did, and which words it changed."""

    revision: Revision
    who: str
    via: origins.Origin | None = None
    said: list[str] = field(default_factory=list)
    words: tuple[str, str] | None = None  # before and after, if they changed
    rows: list[text_diff.Row] = field(default_factory=list)
    is_cut: bool = False
    first_words: str = ""
    is_now: bool = False
    bytes: int | None = None  # by which a file's text grew, if it changed

    @property
    def before(self) -> int:
        """Return the number of the previous version."""
        return self.revision.version - 1

    @property
    def why(self) -> str:
        """Return the given reason, unless `said` has the same words."""
        return "" if self.revision.reason in self.said else self.revision.reason


def revisions_of(record: Remembered) -> Any:
    rows = Revision.objects.for_user(record.owner)
    return rows.filter(record_type=record.record_type(), record_id=record.pk).order_by("-id")


def history_of(record: Remembered, *, cursor: str = "", size: int = PAGE) -> Page:
    """Return the changes of `record`, the latest first: two to four queries."""
    page = page_of(revisions_of(record), by="created", falling=True, cursor=cursor, size=size)
    places = origins.of(record.owner, (revision.source for revision in page.rows))
    changes = [_change(record, revision, places) for revision in page.rows]
    left = MAX_DIFFED
    for change in changes:
        if change.words is None:
            continue
        old, new = change.words
        left -= len(old) + len(new)
        rows = text_diff.folded(text_diff.plain_diff(old, new)) if left >= 0 else []
        change.rows, change.is_cut = rows[:MAX_ROWS], left < 0 or len(rows) > MAX_ROWS
    return Page(changes, page.next_cursor)


def who(owner: User, actor: str) -> str:
    """Return an actor's readable name."""
    return origins.of(owner, [actor])[actor].words if actor else _("no one")


def writers_since(record: Remembered, version: int) -> str:
    """Return who changed the record after `version`, from its latest changes."""
    later = revisions_of(record).filter(version__gt=version).values_list("actor", flat=True)
    return ", ".join(dict.fromkeys(who(record.owner, actor) for actor in later[:10]))


def _change(record: Remembered, revision: Revision, places: Mapping[str, origins.Origin]) -> Change:
    says = SAYS.get(revision.record_type, "content")
    change = Change(revision, who(record.owner, revision.actor), places.get(revision.source))
    change.is_now = revision.version == record.version
    if change.via is not None and change.via.text == revision.actor:
        change.via = None
    if not revision.before:
        change.said = [_("created")]
        first = str(revision.after.get(says, ""))
        change.first_words, change.is_cut = first[:MAX_FIRST], len(first) > MAX_FIRST
        return change
    changed = {n for n, value in revision.after.items() if revision.before.get(n) != value}
    if says in changed:
        change.words = str(revision.before.get(says) or ""), str(revision.after.get(says) or "")
        change.said.append(_("text changed"))
    change.said += describe_change(record, revision.before, revision.after, changed - {says})
    return change


def describe_change(
    record: Remembered, before: Mapping[str, Any], after: Mapping[str, Any], changed: Iterable[str]
) -> list[str]:
    """Describe what a revision did besides changing the text."""
    values = {
        "trashed_at": lambda old, new: _("moved to Trash") if new else _("restored from Trash"),
        "pinned": lambda old, new: _("pinned") if new else _("unpinned"),
        "paused": lambda old, new: _("paused") if new else _("resumed"),
        "superseded_by_id": lambda old, new: _("replaced") if new else _("current again"),
        "expires_at": _expiry,
        "tags": _tags,
        "evidence": _entries,
        "lock": _lock,
        "section_locks": _sections,
    }
    texts = []
    for name in sorted(set(changed) - _QUIET):
        old, new = before.get(name), after.get(name)
        tell = values.get(name)
        texts.append(tell(old, new) if tell else _moved(record, name, old, new))
    return texts


def _moved(record: Remembered, name: str, old: Any, new: Any) -> str:
    values = {"field": field_words(record, [name])[0]}
    values |= {"old": readable_value(record, name, old), "new": readable_value(record, name, new)}
    if old in (None, ""):
        return _("%(field)s set to %(new)s") % values
    return _("%(field)s changed from %(old)s to %(new)s") % values


def readable_value(record: Remembered, name: str, value: Any) -> str:
    """Return a field's stored value in readable form."""
    if value is None or value == "":
        return _("none")
    if isinstance(value, list):
        return ", ".join(map(str, value)) or _("none")
    column = next((f for f in record._meta.concrete_fields if f.attname == name), None)
    choices = dict(column.flatchoices) if column is not None else {}
    return str(choices.get(value, value))


def _expiry(_old: Any, new: Any) -> str:
    moment = parse_datetime(new) if isinstance(new, str) else None
    if moment is None:
        return _("no longer expires")
    day = formats.date_format(timezone.localtime(moment), "j M Y")
    return _("expires on %(day)s") % {"day": day}


def _tags(old: Any, new: Any) -> str:
    gone = [tag for tag in old or [] if tag not in (new or [])]
    come = [tag for tag in new or [] if tag not in (old or [])]
    added = ngettext("added the tag %(tags)s", "added the tags %(tags)s", len(come))
    removed = ngettext("removed the tag %(tags)s", "removed the tags %(tags)s", len(gone))
    parts = [
        words % {"tags": ", ".join(_("“%(tag)s”") % {"tag": tag} for tag in tags)}
        for words, tags in ((added, come), (removed, gone))
        if tags
    ]
    return ", ".join(parts) or _("tags reordered")


def _entries(old: Any, new: Any) -> str:
    return _("number of evidence entries changed from %(old)d to %(new)d") % {
        "old": len(old or []),
        "new": len(new or []),
    }


def _lock(_old: Any, new: Any) -> str:
    return _("unlocked") if new == Lock.OPEN else _("locked: %(lock)s") % {"lock": Lock(new).label}


def _sections(old: Any, new: Any) -> str:
    """List the sections that were locked or unlocked, each by its path of headings."""
    parts = [
        words % {"section": " › ".join(path)}
        for words, these, others in (
            (_("locked the section “%(section)s”"), new or [], old or []),
            (_("unlocked “%(section)s”"), old or [], new or []),
        )
        for path in these
        if path not in others
    ]
    return ", ".join(parts) or _("section locks reordered")


# --- comparison ---------------------------------------------------------------------------------------


def fields_at(record: Remembered, version: int) -> dict[str, Any]:
    """Return the revised fields at `version` as JSON."""
    return {**record.as_json(), **state_at(record, version)}


def compare(record: Remembered, older: int, newer: int, *, whole: bool = False) -> dict[str, Any]:
    """Compare two versions: a diff of their text, and the other differences in words.

    Without `whole`, unchanged lines are collapsed.
    """
    says = SAYS.get(record.record_type(), "content")
    before, after = fields_at(record, older), fields_at(record, newer)
    rows = text_diff.plain_diff(str(before.get(says) or ""), str(after.get(says) or ""))
    changed = {name for name in after if before.get(name) != after[name]} - {says}
    texts = describe_change(record, before, after, changed)
    rows = rows if whole else text_diff.folded(rows)
    has_same_words = all(row.kind in ("same", "gap") for row in rows)
    return {
        "older": older,
        "newer": newer,
        "rows": rows[:MAX_COMPARED],
        "rows_left": max(0, len(rows) - MAX_COMPARED),
        "said": texts,
        "has_same_words": has_same_words,
        "is_alike": has_same_words and not texts,
    }


def words_at(record: Remembered, version: int) -> str:
    says = SAYS.get(record.record_type(), "content")
    return str(fields_at(record, version).get(says) or "")


# --- undo one change, or restore an earlier version; both add a new revision ---

TRASHED = "trashed_at"
# Fields that no change sets, though a revision in a hand-edited archive can name any.
_NEVER_SET = frozenset({"id", "owner", "owner_id", "version", "created", "updated"})


class Gone(MemoryRefused):
    """The record of a revision was permanently deleted."""


class ChangedSince(MemoryRefused):
    """The changed fields have been changed again, so this change can't be undone by itself."""


def record_of(revision: Revision, *, for_update: bool = False) -> Remembered:
    """Return the record of a revision.  Raises Gone if it was permanently deleted."""
    model = record_models().get(revision.record_type)
    rows = model.objects.filter(owner=revision.owner_id, pk=revision.record_id) if model else None
    if rows is not None and for_update:
        rows = rows.select_for_update(of=("self",), no_key=True)
    record: Remembered | None = rows.first() if rows is not None else None
    if record is None:
        raise Gone(_("“%(label)s” was permanently deleted.") % {"label": revision.label})
    return record


def undo(revision: Revision, *, by: Actor) -> Remembered:
    """Undo one change and return the record; a record that it created is trashed.

    Other fields keep their present values.  Raises ChangedSince if a field was changed again, Gone for
    a purged record, and what the record's own rules raise.
    """
    with transaction.atomic():
        record = record_of(revision, for_update=True)
        _check_follows_no_file(record)
        if not revision.before:
            _not_changed_since(record, {TRASHED: None})
            kind_of(revision.record_type).trash(record, by)
            return record
        _not_changed_since(record, revision.after)
        why = _("undid version %(version)d") % {"version": revision.version}
        _set_to_revision(record, revision.before, by, why)
    return record


def restore_to(revision: Revision, *, by: Actor) -> Remembered:
    """Restore the record to its state at `revision`, also from Trash, and return it.

    Raises Gone for a purged record, and what the record's own rules raise.
    """
    with transaction.atomic():
        record = record_of(revision, for_update=True)
        _check_follows_no_file(record)
        why = _("restored version %(version)d") % {"version": revision.version}
        _set_to_revision(record, state_at(record, revision.version), by, why)
    return record


def _check_follows_no_file(record: Remembered) -> None:
    """Raise InvalidValue for a document of the watched folder: its text is that of its file."""
    if isinstance(record, LibraryDocument) and record.path:
        raise InvalidValue(
            _("This change to “%(label)s” can’t be undone.") % {"label": str(record)}
        )


def state_at(record: Remembered, version: int) -> dict[str, Any]:
    """Return the fields that changed after `version`, with their values at that time as JSON."""
    later = Revision.objects.filter(
        record_type=record.record_type(), record_id=record.pk, version__gt=version
    )
    state: dict[str, Any] = {}
    for before in later.order_by("-version", "-id").values_list("before", flat=True):
        state |= before
    return state


def _not_changed_since(record: Remembered, after: dict[str, Any]) -> None:
    now, derived = _now(record, after), kind_of(record.record_type()).derived
    names = [name for name in now if now[name] != after[name] and name not in derived]
    if names == [TRASHED] and record.trashed_at is not None:
        raise ChangedSince(_("“%(label)s” is already in Trash.") % {"label": record})
    if names:
        raise ChangedSince(
            _(
                "“%(label)s” has changed since then (%(fields)s), so this change can’t be undone on its own. You can restore an earlier version from its history."
            )
            % {"label": record, "fields": ", ".join(field_words(record, names))}
        )


def _now(record: Remembered, names: Iterable[str]) -> dict[str, Any]:
    """Return the present values of the fields as JSON."""
    fields = record._meta.concrete_fields
    keys = {name: field.attname for field in fields for name in (field.name, field.attname)}
    row = {name: getattr(record, key) for name, key in keys.items()}
    state = row | kind_of(record.record_type()).more(record)
    return as_json({name: state[name] for name in names if name in state})


def field_words(record: Remembered | type[Remembered], names: list[str]) -> list[str]:
    named = {field.attname: str(field.verbose_name) for field in record._meta.concrete_fields}
    return [named.get(name, name.replace("_", " ")) for name in names]


def _set_to_revision(record: Remembered, state: dict[str, Any], by: Actor, why: str) -> None:
    """Set the fields to a revision's values, by the rules of the record's kind."""
    kind, label = kind_of(record.record_type()), str(record)
    if _NEVER_SET.intersection(state):
        params = {"label": label}
        raise InvalidValue(_("This change to “%(label)s” can’t be undone.") % params)
    values = {name: _python(record, name, value) for name, value in state.items()}
    try:
        with transaction.atomic():
            if TRASHED in values:
                move = kind.restore if values.pop(TRASHED) is None else kind.trash
                move(record, by)
            now = _now(record, values)
            fields = {name: values[name] for name in values if now.get(name) != state[name]}
            if fields:
                kind.restore_state(record, fields, by, why)
    except (IntegrityError, DataError) as exc:
        raise InvalidValue(
            _(
                "“%(label)s” can’t be restored to that version because it conflicts with something that exists now. Nothing was changed. Edit it instead."
            )
            % {"label": label}
        ) from exc


def _python(record: Remembered, name: str, value: Any) -> Any:
    """Convert a field's stored JSON to its value; a link to a deleted record can't be restored."""
    field = next((f for f in record._meta.concrete_fields if name in (f.name, f.attname)), None)
    if field is None or value is None:
        return value
    if isinstance(field, models.ForeignKey):
        rows: Any = field.related_model._default_manager.all()
        # A revision from an archive can name another owner's record.
        mine = rows.for_user(record.owner) if hasattr(rows, "for_user") else rows
        if not mine.filter(pk=value).exists():
            raise Gone(
                _(
                    "That version of “%(label)s” can’t be restored because it refers to something that was permanently deleted."
                )
                % {"label": record}
            )
        return field.target_field.to_python(value)
    return field.to_python(value)
