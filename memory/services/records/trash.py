"""Trash: the list of deleted records of every kind, restoring many, and emptying it.

Data flow: one union over all kinds of records gives a page of IDs by the time of deletion -> the
last revision of each has its title and who deleted it.  Two queries, however much is in Trash.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import (
    CharField,
    Count,
    OuterRef,
    Q,
    QuerySet,
    RestrictedError,
    Subquery,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Concat
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.errors import retried
from beacon_site.db.keyset import Page, cursor_of, keyset
from beacon_site.text.cleaning import choice_param, one_line, plain, shorten, text_param, uuid_of
from memory.models import (
    ContentItem,
    LibraryDocument,
    Remembered,
    Revision,
    TrashedRows,
    Use,
    User,
    origins,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.remembered import TRASH_DAYS, in_scopes, record_models
from memory.services.records import acts as record_acts
from memory.services.records import history as record_history
from memory.services.records import kinds as trash_along
from memory.services.records import traces
from memory.services.records.kinds import kind_of

PAGE = 50
WHO = ("you", "others")
MAX_SEARCH_LENGTH = 200
# Fields searched in Trash: title and text.
_NAMED = ("title", "name", "key", "path", "url")
_ALONG = ("topicfact", "observation", "note")  # what can go to Trash with a run
_SAYING = ("content", "text", "body", "value")
EMPTY_SECONDS = 10.0  # how long a person waits; the next request continues
Query = Mapping[str, str]  # the page's filters as they are in its URL; invalid ones are ignored
Kinds = Iterable[tuple[str, QuerySet[Any]]]  # rows of each kind of record, with its name


@dataclass(slots=True)
class TrashRow:
    """A record in Trash: what it is, since when, who deleted it, and how long it is kept."""

    record_type: str
    pk: UUID
    trashed_at: datetime
    label: str = ""
    actor: str = ""
    why: str = ""
    along: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Return the row's value in a form that selects it."""
        return f"{self.record_type}:{self.pk}"

    @property
    def days_left(self) -> int:
        """Return how many days it is still kept, rounded up."""
        left = self.purge_at - timezone.now()
        return max(0, -(-left // timedelta(days=1)))

    @property
    def noun(self) -> str:
        return str(kind_of(self.record_type).noun)

    @property
    def purge_at(self) -> datetime:
        return self.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def purge_url(self) -> str:
        """Return the page that deletes it permanently, after its name is typed."""
        own = kind_of(self.record_type).purge_page
        if own:
            return reverse(own, args=[self.pk])
        return reverse("memory:record-purge", args=[self.record_type, self.pk])


def is_narrowed(query: Query) -> bool:
    """Return True if the page's filters can hide records."""
    return bool(_type_sent(query) or text_param(query) or _who_sent(query))


def _type_sent(query: Query) -> str:
    return choice_param(query, "type", record_models())


def _who_sent(query: Query) -> str:
    return choice_param(query, "who", WHO)


def matching_records(user: User, query: Query) -> Kinds:
    """Yield each kind of record with those of the user's that match the page's filters."""
    who = _who_sent(query)
    for name, rows in trashed(user, _type_sent(query)):
        if name in _ALONG and not is_narrowed(query):
            rows = rows.exclude(pk__in=_trashed_with_another(user))
        for word in text_param(query, most=MAX_SEARCH_LENGTH).split():
            rows = rows.filter(_says(rows.model, word))
        yield name, _by_whom(rows, user, who) if who else rows


def selected(user: User, form: QueryDict) -> Kinds | None:
    """Return the records of a bulk action: the selected ones, or all that match the filters.

    None if nothing is selected.
    """
    if "all" in form:
        return matching_records(user, form)
    ids: dict[str, list[UUID]] = {}
    keys = form.getlist("record")[:PAGE]
    for key in keys:
        record_type, _colon, text = key.partition(":")
        if pk := uuid_of(text):
            ids.setdefault(record_type, []).append(pk)
    rows_by_name = trashed(user)
    chosen = ((name, rows.filter(pk__in=ids[name])) for name, rows in rows_by_name if name in ids)
    return chosen if keys else None


def _trashed_with_another(user: User) -> QuerySet[Any]:
    """Return the IDs of records that went to Trash with another, and are restored with it."""
    concat = Concat(Value(TrashedRows.source_of("")), Cast("record_id", CharField()))
    sources = TrashedRows.objects.for_user(user).annotate(told=concat).values("told")
    moved = Revision.objects.for_user(user).filter(source__in=sources, after__has_key="trashed_at")
    return moved.values("record_id")


def count_trashed_with(user: User) -> int:
    """Return how many records went to Trash along with another."""
    parts = [
        rows.filter(pk__in=_trashed_with_another(user)).values("pk")
        for name, rows in trashed(user)
        if name in _ALONG
    ]
    return parts[0].union(*parts[1:], all=True).count() if parts else 0


def _says(model: type[Any], word: str) -> Q:
    """Return the filter for records with the word in their title or text."""
    fields = {field.name: field for field in model._meta.concrete_fields}
    named = [name for name in _NAMED if isinstance(fields.get(name), CharField | TextField)]
    if model is not ContentItem:  # megabytes each
        named += [name for name in _SAYING if isinstance(fields.get(name), TextField)]
    says = Q(source__iexact=word)
    for name in named:
        says |= Q(**{f"{name}__icontains": word})
    return says


def _by_whom(rows: QuerySet[Any], user: User, who: str) -> QuerySet[Any]:
    """Keep what the person deleted last, or what others did."""
    moved = Revision.objects.filter(record_id=OuterRef("pk"), after__has_key="trashed_at")
    last = Subquery(moved.order_by("-id").values("actor")[:1])
    rows = rows.annotate(moved_by=last)
    own = str(user.actor)
    return rows.filter(moved_by=own) if who == "you" else rows.exclude(moved_by=own)


def trashed(user: User, record_type: str = "", *, scopes: Sequence[str] | None = None) -> Kinds:
    """Yield each kind of record with the user's records in Trash.

    Files of the watched folder aren't among them: they stay on disk.  With `scopes`, only those
    that an agent with these scopes can read.
    """
    for name, model in record_models().items():
        if record_type in ("", name):
            rows: QuerySet[Any] = model.objects.for_user(user).in_trash().order_by()
            if scopes is not None:
                rows = _readable(rows, scopes)
            yield name, rows.filter(path="") if model is LibraryDocument else rows


def _readable(rows: Any, scopes: Sequence[str]) -> Any:
    """Keep what `ToolContext.may_read` allows."""
    rows = rows.for_agents()
    has_scope = any(field.name == "scope" for field in rows.model._meta.concrete_fields)
    return rows.filter(in_scopes(scopes)) if has_scope else rows


def page(
    user: User,
    *,
    record_type: str = "",
    cursor: str = "",
    size: int = PAGE,
    scopes: Sequence[str] | None = None,
    query: Query | None = None,
) -> Page:
    """Return one page of Trash, latest first: two queries, and one for what is restored along.

    `scopes` as in `trashed`; `query` filters it for a person's page, which shows what is
    restored along.
    """
    kinds = (
        trashed(user, record_type, scopes=scopes)
        if query is None
        else matching_records(user, query)
    )
    rows_shown = _latest(kinds, size + 1, cursor)
    _name(user, rows_shown[:size])
    if query is not None:
        _add_restored_with(rows_shown[:size])
    last = rows_shown[size - 1] if len(rows_shown) > size else None
    return Page(rows_shown[:size], cursor_of(last.trashed_at, last.pk) if last else None)


def labels(user: User, kinds: Kinds, most: int) -> list[str]:
    """Return what the latest of these records are called."""
    rows = _latest(kinds, most)
    _name(user, rows)
    return [row.label for row in rows]


def _latest(kinds: Kinds, size: int, cursor: str = "") -> list[TrashRow]:
    fields = ("trashed_at", "id", "record_type")
    parts = []
    for name, rows in kinds:
        behind = keyset(rows, by="trashed_at", falling=True, cursor=cursor)
        named = behind.annotate(record_type=Value(name, output_field=CharField()))
        parts.append(named.order_by("-trashed_at", "-id").values(*fields)[:size])
    if not parts:
        return []
    rows_found = parts[0]
    if len(parts) > 1:
        union = parts[0].union(*parts[1:], all=True)
        rows_found = union.order_by("-trashed_at", "-id")[:size]
    return [TrashRow(row["record_type"], row["id"], row["trashed_at"]) for row in rows_found]


def _name(user: User, rows: Iterable[TrashRow]) -> None:
    """Add to each row what its last revision says."""
    by_id = {row.pk: row for row in rows}
    moved = Revision.objects.filter(record_id__in=by_id, after__has_key="trashed_at")
    last = moved.order_by("record_id", "-id").distinct("record_id")
    revisions = list(last.only("record_id", "label", "actor", "reason"))
    named = origins.of(user, (revision.actor for revision in revisions))
    for revision in revisions:
        row = by_id[revision.record_id]
        row.label, row.actor = plain(revision.label), named[revision.actor].words
        # Every deletion has this reason, so it isn't worth showing.
        row.why = "" if revision.reason == _("moved to Trash") else revision.reason


def _add_restored_with(rows: Sequence[TrashRow]) -> None:
    """Add to each row what is restored with it: one query, and what a kind reports itself."""
    by_kind: dict[str, list[Any]] = {}
    for row in rows:
        by_kind.setdefault(row.record_type, []).append(row.pk)
    hung = [(one, ids) for name, ids in by_kind.items() for one in kind_of(name).hanging]
    along: dict[Any, Sequence[str]] = {**trash_along.count_dependents(hung)}
    for name, ids in by_kind.items():
        along |= kind_of(name).along(ids)
    for row in rows:
        row.along = along.get(row.pk, ())


def deletion_summary(record: Remembered) -> list[str]:
    """Return in words what is permanently deleted together with one record."""
    kind, pk = kind_of(record.record_type()), record.pk
    history = Revision.objects.filter(record_type=record.record_type(), record_id=pk).count()
    uses = Use.objects.filter(record_id=pk).count()
    told = [
        ngettext("%(n)d version in its history", "%(n)d versions in its history", history)
        % {"n": history},
        *trash_along.count_dependents((one, [pk]) for one in kind.hanging).get(pk, ()),
        *kind.along([pk]).get(pk, ()),
    ]
    if uses:
        words = ngettext(
            "the usage record from %(n)d prompt", "the usage records from %(n)d prompts", uses
        )
        told.append(words % {"n": uses})
    return told


def counts(kinds: Kinds) -> dict[str, int]:
    """Return how many records of each kind there are, without empty kinds."""
    parts = [
        rows.order_by()
        .annotate(record_type=Value(name, output_field=CharField()))
        .values("record_type")
        .annotate(number=Count("pk"))
        for name, rows in kinds
    ]
    if not parts:
        return {}
    counted = parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]
    return {row["record_type"]: row["number"] for row in counted if row["number"]}


def word() -> str:
    """Return the word to type for emptying Trash."""
    return _("empty")


def empty(
    kinds: Kinds, *, typed: str, by: Actor, seconds: float = EMPTY_SECONDS, older_than: int = 0
) -> Counter[str]:
    """Permanently delete records in Trash, for at most `seconds`: all, or only the older ones.
    Return how many are `gone`, had to be `kept`, or are `left` for the next time.

    `older_than` is in days.  Raises InvalidValue unless `typed` is the word.  Records deleted in
    the meantime stay.
    """
    if one_line(typed).casefold() != word():
        problem = _("That doesn’t match. Type “%(word)s” to confirm.")
        problem %= {"word": word()}
        raise InvalidValue(problem, errors={"word": [problem]})
    until, done = time.monotonic() + seconds, Counter[str]()
    before = timezone.now() - timedelta(days=older_than)
    for _name_of, rows in kinds:
        rows = rows.filter(trashed_at__lte=before)
        # Oldest first: a replaced note goes before the one that replaced it.
        keys = list(rows.order_by("created", "pk").values_list("pk", flat=True))
        for at in range(0, len(keys), traces.AT_ONCE):
            _empty(rows, keys[at : at + traces.AT_ONCE], by, until, done)
    return done


def _empty(
    rows: QuerySet[Any], keys: Sequence[UUID], by: Actor, until: float, done: Counter[str]
) -> None:
    """Purge a few records, whose copies are searched for together."""
    if time.monotonic() > until:
        done["left"] += len(keys)
        return
    with traces.together():
        for pk in keys:
            done["gone" if _purge(rows, pk, by) else "kept"] += 1


def _purge(rows: QuerySet[Any], pk: UUID, by: Actor) -> bool:
    """Purge one record; True if it is gone, also together with another (a fact with its topic)."""
    record = rows.filter(pk=pk).first()
    try:
        if record is not None:
            retried(partial(record.purge, by=by), savepoint=False)
    except (MemoryRefused, RestrictedError):
        return False
    return True


# --- restoring many ---

MAX = 1_000  # of one request
SECONDS = 15.0


def restore_chosen(user: User, kinds: Kinds) -> record_acts.BulkResult:
    """Restore the selected records one by one, within the time limit of a request.

    Newest first: a replacement comes before what it replaced.
    """
    ids = [
        (created, model_name, pk)
        for model_name, rows in kinds
        for created, pk in rows.order_by("-created").values_list("created", "pk")[:MAX]
    ]
    ids.sort(key=lambda one: one[0], reverse=True)
    done = record_acts.BulkResult()

    def restore(row: tuple[Any, str, UUID]) -> None:
        _created, record_type, pk = row
        record = (
            record_models()[record_type].objects.for_user(user).in_trash().filter(pk=pk).first()
        )
        if record is not None:
            _restore(user, record, done)

    done.perform(ids[:MAX], restore, SECONDS)
    done.left += max(0, len(ids) - MAX)
    return done


def _restore(user: User, record: Any, done: record_acts.BulkResult) -> None:
    record.owner, name = user, str(record)
    try:
        with transaction.atomic():
            revision = record_acts.perform("restore", record, by=user.actor)
    except (MemoryRefused, DatabaseError) as exc:
        is_refused = isinstance(exc, MemoryRefused)
        why = str(exc) if is_refused else _("it conflicts with existing records")
        raise MemoryRefused(f"“{shorten(str(record), 60)}”: {why}") from exc
    if revision is not None:
        done.revisions.append(revision.pk)
    if str(record) != name:
        done.renamed.append(renamed(name, record))


def renamed(name: str, record: Remembered) -> str:
    """Return the message about a record that was restored under another name."""
    words = _("The name “%(name)s” is taken, so it was restored as “%(new)s”.")
    return words % {"name": shorten(name, 80), "new": shorten(str(record), 80)}


def undo_change(user: User, ids: Sequence[int]) -> record_acts.BulkResult:
    """Move to Trash again what these revisions restored, except what has changed since."""
    revisions = Revision.objects.for_user(user).filter(pk__in=ids).order_by("-pk")
    undo = partial(record_history.undo, by=user.actor)
    return record_acts.BulkResult().perform(revisions, undo)
