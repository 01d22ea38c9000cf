"""The trash: everything of a person that was moved there, of every kind, and emptying it.

Data flow: one union over all kinds of records gives a page of ids by the moment of trashing -> the
last revision of each says what it is called and who moved it.  Two queries, whatever lies there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.core import signing
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
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.errors import retried
from beacon_site.db.keyset import Page, cursor_of, keyset
from beacon_site.text.cleaning import one_line, plain, shorten
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import (
    ContentItem,
    LibraryDocument,
    PutAway,
    Remembered,
    Revision,
    Use,
    User,
    origins,
)
from memory.models.remembered import TRASH_DAYS
from memory.records import acts as record_acts
from memory.records import kinds as trash_along
from memory.records import traces, undo
from memory.records.kinds import kind_of
from memory.records.kinds import models as record_models

PAGE = 50
WHO = ("you", "others")
LONGEST_SEARCH = 200
# Fields by which a record in the trash is found: what it is called, and what it says.
_NAMED = ("title", "name", "key", "path", "url")
_ALONG = ("topicfact", "observation", "note")  # what may go to the trash with a run
_SAYING = ("content", "text", "body", "value")
EMPTY_SECONDS = 10.0  # how long a person waits; what is left then, the next press takes


@dataclass(slots=True)
class TrashRow:
    """One record in the trash: what it is, since when, by whom, and until when it is kept."""

    record_type: str
    pk: UUID
    trashed_at: datetime
    label: str = ""
    actor: str = ""
    why: str = ""
    along: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Return how the row is named in a form that ticks it."""
        return f"{self.record_type}:{self.pk}"

    @property
    def days_left(self) -> int:
        """Return how many days it is kept still, begun ones counted."""
        left = self.gone_at - timezone.now()
        return max(0, -(-left // timedelta(days=1)))

    @property
    def noun(self) -> str:
        """Return what a record of its kind is called."""
        return str(kind_of(self.record_type).noun)

    @property
    def gone_at(self) -> datetime:
        """Return when it is deleted for good."""
        return self.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def purge_url(self) -> str:
        """Return the page that deletes it for good, once its name is typed."""
        own = kind_of(self.record_type).purge_page
        if own:
            return reverse(own, args=[self.pk])
        return reverse("memory:record-purge", args=[self.record_type, self.pk])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address of the trash asks for; what cannot be is left out."""

    record_type: str = ""
    words: str = ""
    who: str = ""

    @classmethod
    def of(cls, query: Any) -> Wanted:
        """Read it from an address's query."""
        kind, who = query.get("type", ""), query.get("who", "")
        words = one_line(query.get("q", "").replace("\x00", ""))[:LONGEST_SEARCH]
        kinds = record_models()
        return cls(kind if kind in kinds else "", words, who if who in WHO else "")

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is left out."""
        return bool(self.record_type or self.words or self.who)


def found(user: User, wanted: Wanted) -> Iterator[tuple[str, QuerySet[Any]]]:
    """Yield each kind of records with those of the user's trash that are asked for."""
    for name, rows in trashed(user, wanted.record_type):
        if not wanted.is_narrowed and name in _ALONG:
            rows = rows.exclude(pk__in=_went_along(user))
        for word in wanted.words.split():
            rows = rows.filter(_says(rows.model, word))
        yield name, _by_whom(rows, user, wanted.who) if wanted.who else rows


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an act on many is of: the ticked ones, else all that the page's filters match."""

    wanted: Wanted = Wanted()
    keys: Sequence[str] = ()

    @classmethod
    def of(cls, query: Any) -> Chosen | None:
        """Read it from a form; None where nothing is chosen."""
        if "all" in query:
            return cls(Wanted.of(query))
        keys = query.getlist("record")[:PAGE]
        return cls(keys=keys) if keys else None

    def rows(self, user: User) -> Iterator[tuple[str, QuerySet[Any]]]:
        """Yield each kind of records with those of the user's that are chosen."""
        if not self.keys:
            yield from found(user, self.wanted)
            return
        ids: dict[str, list[UUID]] = {}
        for key in self.keys:
            record_type, _colon, pk = key.partition(":")
            try:
                ids.setdefault(record_type, []).append(UUID(pk))
            except ValueError:
                continue
        for name, rows in trashed(user):
            if name in ids:
                yield name, rows.filter(pk__in=ids[name])


def _went_along(user: User) -> QuerySet[Any]:
    """Return the ids of records that went to the trash with another, and come back with it."""
    told = Concat(Value(PutAway.source_of("")), Cast("record_id", CharField()))
    sources = PutAway.objects.of(user).annotate(told=told).values("told")
    moved = Revision.objects.of(user).filter(source__in=sources, after__has_key="trashed_at")
    return moved.values("record_id")


def number_along(user: User) -> int:
    """Return how many records in the trash went there with another."""
    parts = [
        rows.filter(pk__in=_went_along(user)).values("pk")
        for name, rows in trashed(user)
        if name in _ALONG
    ]
    return parts[0].union(*parts[1:], all=True).count() if parts else 0


def _says(model: type[Any], word: str) -> Q:
    """Return what keeps the records in whose name or words the word stands."""
    fields = {field.name: field for field in model._meta.concrete_fields}
    named = [name for name in _NAMED if isinstance(fields.get(name), CharField | TextField)]
    if model is not ContentItem:  # megabytes each
        named += [name for name in _SAYING if isinstance(fields.get(name), TextField)]
    says = Q(source__iexact=word)
    for name in named:
        says |= Q(**{f"{name}__icontains": word})
    return says


def _by_whom(rows: QuerySet[Any], user: User, who: str) -> QuerySet[Any]:
    """Keep what the person moved there last, or what anybody else did."""
    moved = Revision.objects.filter(record_id=OuterRef("pk"), after__has_key="trashed_at")
    last = Subquery(moved.order_by("-id").values("actor")[:1])
    rows = rows.annotate(moved_by=last)
    own = str(user.actor)
    return rows.filter(moved_by=own) if who == "you" else rows.exclude(moved_by=own)


def trashed(
    user: User, record_type: str = "", *, scopes: Sequence[str] | None = None
) -> Iterator[tuple[str, QuerySet[Any]]]:
    """Yield each kind of records with those of the user's that lie in the trash.

    A file of the watched folder is none of them: it lies where it lies.  With `scopes` they are
    those that an agent of these scopes may read.
    """
    for name, model in record_models().items():
        if record_type in ("", name):
            rows: QuerySet[Any] = model.objects.of(user).in_trash().order_by()
            if scopes is not None:
                rows = _readable(rows, scopes)
            yield name, rows.filter(path="") if model is LibraryDocument else rows


def _readable(rows: Any, scopes: Sequence[str]) -> Any:
    """Keep what `ToolContext.may_read` lets through."""
    rows = rows.for_agents()
    has_scope = any(field.name == "scope" for field in rows.model._meta.concrete_fields)
    return rows.filter(scope__in=scopes) if has_scope else rows


def page(
    user: User,
    *,
    record_type: str = "",
    cursor: str = "",
    size: int = PAGE,
    scopes: Sequence[str] | None = None,
    wanted: Wanted | None = None,
) -> Page:
    """Return one page of the trash, the latest first: two queries, and what comes along.

    `scopes` as in `trashed`; `wanted` narrows it for a person's page, which tells what comes along.
    """
    fields = ("trashed_at", "id", "record_type")
    parts = []
    kinds = found(user, wanted) if wanted else trashed(user, record_type, scopes=scopes)
    for name, rows in kinds:
        behind = keyset(rows, by="trashed_at", falling=True, cursor=cursor)
        named = behind.annotate(record_type=Value(name, output_field=CharField()))
        parts.append(named.order_by("-trashed_at", "-id").values(*fields)[: size + 1])
    if not parts:
        return Page([], None)
    if len(parts) == 1:
        rows_found = list(parts[0])
    else:
        union = parts[0].union(*parts[1:], all=True)
        rows_found = list(union.order_by("-trashed_at", "-id")[: size + 1])
    rows_shown = [TrashRow(row["record_type"], row["id"], row["trashed_at"]) for row in rows_found]
    _name(user, rows_shown[:size])
    if wanted:
        _tell_along(rows_shown[:size])
    last = rows_shown[size - 1] if len(rows_found) > size else None
    return Page(rows_shown[:size], cursor_of(last.trashed_at, last.pk) if last else None)


def _name(user: User, rows: Iterable[TrashRow]) -> None:
    """Give each row what its last revision knows of it."""
    by_id = {row.pk: row for row in rows}
    moved = Revision.objects.filter(record_id__in=by_id, after__has_key="trashed_at")
    last = moved.order_by("record_id", "-id").distinct("record_id")
    revisions = list(last.only("record_id", "label", "actor", "reason"))
    named = origins.of(user, (revision.actor for revision in revisions))
    for revision in revisions:
        row = by_id[revision.record_id]
        row.label, row.actor = plain(revision.label), named[revision.actor].words
        # What every move says of itself is no reason.
        row.why = "" if revision.reason == _("moved to Trash") else revision.reason


def _tell_along(rows: Sequence[TrashRow]) -> None:
    """Give each row what comes along with it: one query, and what a kind tells by itself."""
    by_kind: dict[str, list[Any]] = {}
    for row in rows:
        by_kind.setdefault(row.record_type, []).append(row.pk)
    hung = [(one, ids) for name, ids in by_kind.items() for one in kind_of(name).hanging]
    along: dict[Any, Sequence[str]] = {**trash_along.count_dependents(hung)}
    for name, ids in by_kind.items():
        along |= kind_of(name).along(ids)
    for row in rows:
        row.along = along.get(row.pk, ())


def what_goes(record: Remembered) -> list[str]:
    """Return in words what is deleted with one record for good, beside itself."""
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
        words = ngettext("that it entered %(n)d prompt", "that it entered %(n)d prompts", uses)
        told.append(words % {"n": uses})
    return told


def counts(user: User, chosen: Chosen | None = None) -> dict[str, int]:
    """Return how many records of each kind lie in the trash, of kinds of which there are any.

    With `chosen` only those are counted.
    """
    parts = [
        rows.order_by()
        .annotate(record_type=Value(name, output_field=CharField()))
        .values("record_type")
        .annotate(number=Count("pk"))
        for name, rows in (chosen.rows(user) if chosen else trashed(user))
    ]
    if not parts:
        return {}
    counted = parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]
    return {row["record_type"]: row["number"] for row in counted if row["number"]}


@dataclass(slots=True)
class Emptied:
    """What came of emptying the trash: how many are gone, how many could not go, how many wait."""

    gone: int = 0
    kept: int = 0
    left: int = 0


def word() -> str:
    """Return the word that is typed to empty the trash."""
    return _("empty")


def empty(
    user: User,
    *,
    typed: str,
    by: Actor,
    seconds: float = EMPTY_SECONDS,
    older_than: int = 0,
    chosen: Chosen | None = None,
) -> Emptied:
    """Delete what lies in the trash for good, for at most `seconds`; all, or what is chosen or older.

    `older_than` is in days.  Raises InvalidValue unless `typed` is the word.  What is moved there meanwhile stays.
    """
    if one_line(typed).casefold() != word():
        problem = _("That doesn’t match. Type “%(word)s” to confirm.")
        problem %= {"word": word()}
        raise InvalidValue(problem, errors={"word": [problem]})
    until, done = time.monotonic() + seconds, Emptied()
    before = timezone.now() - timedelta(days=older_than)
    for _name_of, rows in chosen.rows(user) if chosen else trashed(user):
        rows = rows.filter(trashed_at__lte=before)
        # The oldest first: a note that was superseded goes before the one that replaced it.
        keys = list(rows.order_by("created", "pk").values_list("pk", flat=True))
        for at in range(0, len(keys), traces.AT_ONCE):
            _empty(rows, keys[at : at + traces.AT_ONCE], by, until, done)
    return done


def _empty(
    rows: QuerySet[Any], keys: Sequence[UUID], by: Actor, until: float, done: Emptied
) -> None:
    """Purge a few records, for which copies are looked for together."""
    if time.monotonic() > until:
        done.left += len(keys)
        return
    with traces.together():
        for pk in keys:
            if _purge(rows, pk, by):
                done.gone += 1
            else:
                done.kept += 1


def _purge(rows: QuerySet[Any], pk: UUID, by: Actor) -> bool:
    """Purge one record; True if it is gone, also with another (a fact with its topic)."""
    record = rows.filter(pk=pk).first()
    try:
        if record is not None:
            retried(partial(record.purge, by=by), savepoint=False)
    except (MemoryRefused, RestrictedError):
        return False
    return True


# --- Bringing many records back from the trash at once, and moving them there again ---

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
            undo.undo(revision, by=user.actor)
            moved += 1
        except MemoryRefused as exc:
            problems.append(str(exc))
    return moved, problems[:_MOST_TOLD]
