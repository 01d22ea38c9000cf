"""The search index: embeddings, terms and their counts, and the records that recall can find."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Self

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import connection, models, transaction
from django.db.models import Q, prefetch_related_objects
from django.utils import timezone

from beacon_site.text.names import name_terms
from beacon_site.text.terms import quoted, stemmed_as, vector_of
from memory.models.accounts import User
from memory.models.actors import Actor
from memory.models.history import OwnedQuerySet
from memory.models.remembered import Remembered


class RecordRowsQuerySet(OwnedQuerySet):
    """Queries for rows that belong to one record of any type."""

    def about(self, records: Iterable[Any]) -> Any:
        ids = defaultdict(list)
        for record in records:
            ids[record.search_type()].append(record.pk)
        which = models.Q(pk__in=[])
        for record_type, some in ids.items():
            which |= models.Q(record_type=record_type, object_id__in=some)
        return self.filter(which)


_MARK = """
INSERT INTO memory_embeddingdue AS due
       (owner_id, record_type, object_id, tries, needs_local_embedder, not_before, created)
SELECT one.owner_id, one.record_type, one.object_id, 0, false, new.at, new.at
  FROM (SELECT %s::timestamptz AS at) new,
       unnest(%s::bigint[], %s::text[], %s::uuid[]) one (owner_id, record_type, object_id)
    ON CONFLICT (record_type, object_id) DO UPDATE
   SET created = excluded.created, not_before = excluded.not_before, tries = 0, needs_local_embedder = false
"""


class EmbeddingDueQuerySet(RecordRowsQuerySet):
    def mark(self, records: Iterable[Any]) -> None:
        """Queue the records for a new embedding, and delete the old one.

        This runs in the writer's transaction, so that no embedding of outdated text is ever
        searched.
        """
        members = sorted(records, key=lambda record: record.pk)
        rows = [(member.owner_id, member.search_type(), member.pk) for member in members]
        if not rows:
            return
        with connection.cursor() as cursor:
            cursor.execute(_MARK, [timezone.now(), *map(list, zip(*rows, strict=True))])
        # After the mark, where a task that is storing an outdated embedding waits.
        Embedding.objects.about(members).delete()

    def waiting(self) -> Any:
        """Keep the records that an embedder of this Beacon can process."""
        return self.filter(needs_local_embedder=False)


class RealField(models.FloatField):  # type: ignore[type-arg]
    """A four-byte float. Embeddings need no more precision, and there are many of them."""

    def db_type(self, connection: Any) -> str:
        return "real"


class Embedding(models.Model):
    """The embedding of a record by one model, in an ordinary table without any extension."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    model = models.CharField(max_length=120)
    dimensions = models.PositiveIntegerField()
    values = ArrayField(RealField())
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[RecordRowsQuerySet] = RecordRowsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_once")
        ]
        indexes = [
            models.Index(fields=["owner", "model", "record_type"], name="embedding_of_owner")
        ]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id} by {self.model}"


class EmbeddingDue(models.Model):
    """A record whose text changed and that has no current embedding yet. A task processes these.

    `created` is when the text last changed, so that the task knows whether its embedding is still
    current. `needs_local_embedder` marks a sensitive record that waits for an embedder on this machine.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    tries = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now)
    created = models.DateTimeField(default=timezone.now)
    needs_local_embedder = models.BooleanField(default=False)

    objects: ClassVar[EmbeddingDueQuerySet] = EmbeddingDueQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "embeddings due"
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_due_once")
        ]
        indexes = [models.Index(fields=["not_before"], name="embedding_due_next")]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id}"


# --- terms and their counts ---

# Writers of one owner lock the rows of all the owner's spaces in a fixed order. They share the terms
# they count, so without that order a writer of a note and then a finding could deadlock with one
# that writes a finding and then a note.
# NO KEY leaves the key unlocked, which is enough for foreign key checks.
#
# `max_count` and `min_length` bound what a term can add to a score, for exact pruning. They only widen,
# because a bound that is too wide only costs time.
_COUNTED = """
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM added))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents + more.documents, length = space.length + more.length
      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length
              FROM added GROUP BY space_id) more
     WHERE space.id = more.space_id;
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, max_count, min_length)
    SELECT added.space_id, word.lexeme, count(*),
           coalesce(max(cardinality(word.positions)), 1), min(added.length)
      FROM added, unnest(added.words) word GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           max_count = greatest(term.max_count, excluded.max_count),
           min_length = least(term.min_length, excluded.min_length);
    RETURN NULL;
"""

_DISCOUNTED = """
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM gone))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents - less.documents, length = space.length - less.length
      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length
              FROM gone GROUP BY space_id) less
     WHERE space.id = less.space_id;
    UPDATE memory_searchterm term SET documents = term.documents - less.documents
      FROM (SELECT gone.space_id, word.lexeme, count(*) AS documents
              FROM gone, unnest(gone.words) word GROUP BY 1, 2) less
     WHERE term.space_id = less.space_id AND term.lexeme = less.lexeme;
    RETURN NULL;
"""

# An entry's other columns change more often than its words, and then there is nothing to count.
_RECOUNTED = """
    IF NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id, space_id)
                    WHERE gone.words <> added.words OR gone.length <> added.length)
       AND NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id)
                        WHERE gone.space_id <> added.space_id) THEN
        RETURN NULL;
    END IF;
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM gone
                                      UNION SELECT space_id FROM added))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents + change.documents, length = space.length + change.length
      FROM (SELECT space_id, sum(one) AS documents, sum(length) AS length
              FROM (SELECT space_id, -1 AS one, -length AS length FROM gone
                    UNION ALL SELECT space_id, 1, length FROM added) both_
             GROUP BY space_id) change
     WHERE space.id = change.space_id;
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, max_count, min_length)
    SELECT space_id, lexeme, sum(one), max(max_count), min(length)
      FROM (SELECT gone.space_id, word.lexeme, -1 AS one, 1 AS max_count, gone.length
              FROM gone, unnest(gone.words) word
            UNION ALL
            SELECT added.space_id, word.lexeme, 1, coalesce(cardinality(word.positions), 1),
                   added.length
              FROM added, unnest(added.words) word) both_
     GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           max_count = greatest(term.max_count, excluded.max_count),
           min_length = least(term.min_length, excluded.min_length)
     WHERE excluded.documents <> 0 OR excluded.max_count > term.max_count
        OR excluded.min_length < term.min_length;
    RETURN NULL;
"""


class SearchSpace(models.Model):
    """Records that are ranked together: one owner's, of one type.

    `documents` and `length` (counted terms in all documents) are BM25's N and N x avgdl. `language`
    is the language used for stemming.
    """

    id = models.AutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    language = models.CharField(max_length=8, default="en")
    documents = models.BigIntegerField(default=0)
    length = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[SearchSpace]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "record_type"], name="search_space_once_an_owner_and_type"
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_type} of {self.owner_id}"


def after_statement(
    name: str, operation: pgtrigger.Operation, func: str, **rows: str
) -> pgtrigger.Trigger:
    """Return a trigger that runs once for each statement, with its old and new rows."""
    return pgtrigger.Trigger(
        name=name,
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=operation,
        referencing=pgtrigger.Referencing(**rows),
        func=func,
    )


class SearchEntry(models.Model):
    """The counted terms of a record. `length` is their number.

    The other columns are recall's most frequent filters, stored here so that it doesn't need to
    load the record. `until` is its expiry and `is_current` whether it isn't superseded. Trust,
    sensitivity and `paused` are here because every recall by an agent filters by them.
    """

    id = models.BigAutoField(primary_key=True)
    space = models.ForeignKey(SearchSpace, models.CASCADE, related_name="entries", db_index=False)
    record_id = models.UUIDField()
    length = models.PositiveIntegerField()
    words = SearchVectorField()
    kind = models.CharField(max_length=12, blank=True)
    topic_id = models.UUIDField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(null=True, blank=True)
    is_current = models.BooleanField(default=True)
    trust = models.CharField(max_length=12, default="owner")
    sensitivity = models.CharField(max_length=10, default="normal")
    paused = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "search entries"
        constraints = [
            models.UniqueConstraint(
                fields=["space", "record_id"], name="search_entry_once_a_record"
            )
        ]
        indexes = [
            GinIndex(fields=["words"], name="search_entry_words", fastupdate=False),
            models.Index(
                fields=["space"],
                condition=models.Q(is_current=False),
                name="search_entry_superseded",
            ),
            # for a search as of a date, which subtracts what is newer
            models.Index(fields=["space", "created"], name="search_entry_created"),
        ]
        triggers = [
            after_statement("counted", pgtrigger.Insert, _COUNTED, new="added"),
            after_statement("discounted", pgtrigger.Delete, _DISCOUNTED, old="gone"),
            after_statement("recounted", pgtrigger.Update, _RECOUNTED, old="gone", new="added"),
        ]

    def __str__(self) -> str:
        return str(self.record_id)


class SearchTerm(models.Model):
    """In how many documents of its space a term occurs: BM25's document frequency.

    `max_count` is its highest count in one document, and `min_length` the length of the shortest document
    with it.
    """

    pk = models.CompositePrimaryKey("space_id", "lexeme")
    space = models.ForeignKey(SearchSpace, models.CASCADE, related_name="terms", db_index=False)
    lexeme = models.TextField(db_collation="C")
    documents = models.IntegerField()
    max_count = models.SmallIntegerField(default=255)
    min_length = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.lexeme


# --- indexing ---

MAX_BYTES = 4_000_000  # of the terms in one statement
MAX_CACHED = 2_000  # characters of a text whose words are cached


class Searchable(Protocol):
    """A record that can be found by its text. If it has `search_marks()`, that returns its Marks."""

    pk: Any
    owner_id: Any

    def search_type(self) -> str:
        """Return the type it is ranked in, usually `record_type()`."""
        ...

    def search_text(self) -> str:
        """Return the content, never the category or labels (R76)."""
        ...


@dataclass(frozen=True, slots=True)
class FilterFields:
    """The fields of a record that the index filters by.

    `labels` are its author, tags and topic title. Only `lexical` uses them.
    """

    labels: str = ""
    kind: str = ""
    topic_id: uuid.UUID | None = None
    created: datetime | None = None
    until: datetime | None = None
    is_current: bool = True
    trust: str = "owner"
    sensitivity: str = "normal"
    paused: bool = False


# Each column is an array, so a thousand records are one statement with few parameters, and its
# triggers run once.
COLUMNS = {
    "record_id": "uuid", "length": "int", "words": "text", "kind": "text", "topic_id": "uuid",
    "created": "timestamptz", "until": "timestamptz", "is_current": "boolean",
    "trust": "text", "sensitivity": "text", "paused": "boolean",
}  # fmt: skip
_NAMES = ", ".join(COLUMNS)
_VALUES = _NAMES.replace("words", "words::tsvector")
_ARRAYS = ", ".join(f"%s::{kind}[]" for kind in COLUMNS.values())
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "record_id")
_INDEX = (
    f"INSERT INTO memory_searchentry (space_id, {_NAMES}) "  # noqa: S608  our own names  # nosec B608
    f"SELECT %s, {_VALUES} FROM unnest({_ARRAYS}) AS new ({_NAMES}) "
    f"ON CONFLICT (space_id, record_id) DO UPDATE SET {_CHANGES}"
)


def index(records: Iterable[Searchable]) -> None:
    """Index the current text of the records, whether or not they were indexed before."""
    for space, members in _by_space(records):
        rows: list[list[Any]] = []
        room = MAX_BYTES
        for record in {record.pk: record for record in members}.values():
            row = entry_of(space, record)
            rows.append(row)
            room -= len(row[2])
            if room < 0:
                _store(space, rows)
                rows, room = [], MAX_BYTES
        _store(space, rows)


def _store(space: SearchSpace, rows: list[list[Any]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_INDEX, [space.pk, *columns])


def entry_of(space: SearchSpace, record: Searchable) -> list[Any]:
    """Return the columns of a record's entry, in the order of COLUMNS."""
    told = getattr(
        record, "search_marks", None
    )  # checked on each record, since a protocol's isinstance check is slower
    marks: FilterFields = told() if told else FilterFields()
    text = record.search_text()
    is_short = len(text) <= MAX_CACHED
    indexed = _words_of if is_short else _words_of.__wrapped__
    words, length = indexed(text, marks.labels, space.language, isinstance(record, Recalled))
    created = marks.created or timezone.now()
    return [
        record.pk, length, words, marks.kind, marks.topic_id, created, marks.until, marks.is_current,
        marks.trust, marks.sensitivity, marks.paused,
    ]  # fmt: skip


# A search as of a date indexes the earlier text of all records that have changed since, in each
# request. With this, a search of 5,000 notes of which 200 had changed took 236 ms instead of 344.
@lru_cache(maxsize=2_000)
def _words_of(text: str, labels: str, language: str, with_names: bool) -> tuple[str, int]:
    """Return the words of an entry and their number."""
    words, length = vector_of(text, labels, language)
    if with_names:
        words = " ".join([words, *map(quoted, name_terms(text, language))])
    return words, length


def mark(records: Iterable[Any], *, trust: str, sensitivity: str) -> None:
    """Update the filter fields of records in the index, when their text hasn't changed.

    A file's sections take the file's fields. Counting all their terms again would take a hundred
    times as long.
    """
    for space, members in _by_space(records):
        entries = SearchEntry.objects.filter(
            space=space, record_id__in=[record.pk for record in members]
        )
        entries.exclude(trust=trust, sensitivity=sensitivity).update(
            trust=trust, sensitivity=sensitivity
        )


def unindex(records: Iterable[Searchable]) -> None:
    """Remove the records from the index. Records that aren't in it are ignored."""
    for space, members in _by_space(records):
        ids = [record.pk for record in members]
        SearchEntry.objects.filter(space=space, record_id__in=ids).delete()


def _by_space(records: Iterable[Searchable]) -> list[tuple[SearchSpace, list[Searchable]]]:
    """Group the records by space, in the order in which writers lock the spaces."""
    groups: dict[tuple[Any, str], list[Searchable]] = defaultdict(list)
    for record in records:
        groups[record.owner_id, record.search_type()].append(record)
    known = {pair: _space(*pair) for pair in groups}
    if missing := [pair for pair, space in known.items() if space is None]:
        _create_spaces(missing)
        known |= {pair: _space(*pair) for pair in missing}
    spaces = [(space, groups[pair]) for pair, space in known.items() if space is not None]
    return sorted(spaces, key=lambda pair: pair[0].pk)


def _create_spaces(missing: Iterable[tuple[Any, str]]) -> None:
    """Create spaces of owners and record types, unless another writer just did.

    First, it waits for other writers of these owners. Otherwise, one of them could wait for the new
    space while this transaction waits for a space that the other one has locked.
    """
    kinds: dict[Any, list[str]] = defaultdict(list)
    for owner_id, kind in missing:
        kinds[owner_id].append(kind)
    with transaction.atomic():
        for owner_id in sorted(kinds):
            others = SearchSpace.objects.filter(owner_id=owner_id).order_by("pk")
            users = User.objects.filter(pk=owner_id)
            if not others.exists():
                users = users.select_for_update(no_key=True)
            language = stemmed_as(users.values_list("language", flat=True).first() or "")
            list(others.select_for_update(no_key=True).values_list("pk"))
            SearchSpace.objects.bulk_create(
                [
                    SearchSpace(owner_id=owner_id, record_type=kind, language=language)
                    for kind in sorted(kinds[owner_id])
                ],
                ignore_conflicts=True,
            )


def _space(owner_id: Any, kind: str) -> SearchSpace | None:
    return SearchSpace.objects.filter(owner_id=owner_id, record_type=kind).first()


# --- records that recall finds ---

_KINDS = ("kind", "category", "state")  # text of a note, an observation or a topic fact
_MARKED = ("trust", "sensitivity", "paused")


def list_indexes(name: str, kind: str) -> list[models.Index]:
    """Return the indexes that keep a long list fast with any filter and order.

    Common values use the list's order. Rare values have their own index.
    """
    order = ["-created", "-id"]
    live = Q(trashed_at=None)
    marked = Q(pinned=True) | Q(paused=True) | ~Q(lock="open") | Q(sensitivity="sensitive")
    return [
        models.Index(fields=["owner", *order], name=f"{name}_of_owner", condition=live),
        models.Index(fields=["owner", kind, *order], name=f"{name}_of_{kind}", condition=live),
        models.Index(fields=["owner", "trust", *order], name=f"{name}_of_trust", condition=live),
        models.Index(fields=["owner", "-updated", "-id"], name=f"{name}_changed", condition=live),
        models.Index(
            fields=["owner", "source", "-created"],
            name=f"{name}_by_source",
            opclasses=["int8_ops", "varchar_pattern_ops", "timestamptz_ops"],  # for run:*
        ),
        models.Index(fields=["owner", *order], name=f"{name}_marked", condition=marked),
        models.Index(fields=["owner", *order], name=f"{name}_in_trash", condition=~live),
    ]


class Recalled(Remembered):
    """A record that recall finds.

    It is indexed in the transaction that writes it, so searches always see the stored text and a
    rollback leaves nothing. `SAID` names the fields that affect search.
    """

    SAID: ClassVar[tuple[str, ...]] = ("content",)
    SEARCH_TYPE: ClassVar[str] = ""  # the type's name in recall, if not the model's name

    # Called in the transaction of a change with the records to be indexed
    # (memory.services.search.embedding queues them for an embedding).
    ON_FOLLOW: ClassVar[list[Callable[[list[Any]], object]]] = []

    class Meta:
        abstract = True

    def search_type(self) -> str:
        """Return the type in which the record is ranked, as recall names it."""
        return self.SEARCH_TYPE or self.record_type()

    def search_text(self) -> str:
        """Return the content, never the category or tags (R76)."""
        raise NotImplementedError

    def search_marks(self) -> FilterFields:
        topic_id = getattr(self, "topic_id", None)
        topic = getattr(self, "topic", None) if topic_id else None
        labels = [*getattr(self, "tags", ()), who_of(self.source), topic.title if topic else ""]
        return FilterFields(
            labels=" ".join(labels),
            kind=next(filter(None, (getattr(self, name, "") for name in _KINDS)), ""),
            topic_id=topic_id,
            created=self.created,
            until=getattr(self, "expires_at", None),
            is_current=getattr(self, "superseded_by_id", None) is None,
            trust=self.trust,
            sensitivity=self.sensitivity,
            paused=getattr(self, "paused", False),
        )

    def is_found(self) -> bool:
        """Return True if recall can find the record. Records in Trash aren't indexed."""
        return self.trashed_at is None

    @classmethod
    def follow(cls, records: Iterable[Recalled]) -> None:
        """Index the records' current text, in the caller's transaction."""
        members = list(records)
        found = [record for record in members if record.is_found()]
        cls.unfollow([record for record in members if not record.is_found()])
        if found and hasattr(cls, "topic"):
            prefetch_related_objects(found, "topic")  # its title is a label
        index(found)
        for tell in cls.ON_FOLLOW:
            tell(found)

    @classmethod
    def unfollow(cls, records: Iterable[Any]) -> None:
        """Remove the records from full-text and semantic search."""
        gone = list(records)
        if not gone:  # as for most writes, which would otherwise send three needless queries
            return
        unindex(gone)
        # This waits for a task that is storing their embeddings, which are then deleted as well.
        EmbeddingDue.objects.about(gone).delete()
        Embedding.objects.about(gone).delete()

    def change(self, **kwargs: Any) -> Self:
        """Change the record as Remembered.change does. Recall finds the new text immediately."""
        with transaction.atomic():
            was_said, was_found, was_marked = (
                self._searched_fields(),
                self.is_found(),
                self._marks(),
            )
            changed = super().change(**kwargs)
            if self._searched_fields() != was_said or self.is_found() != was_found:
                self.follow([self])
            elif self.is_found() and self._marks() != was_marked:
                index([self])
        return changed

    @classmethod
    def change_many(cls, wanted: Sequence[tuple[Self, dict[str, Any]]], **kwargs: Any) -> None:
        """Change the records as Remembered.change_many does, and update the index where needed."""
        were = [
            (one, one._searched_fields(), one.is_found(), one._marks()) for one, _fields in wanted
        ]
        super().change_many(wanted, **kwargs)
        said_else, marked_else = [], []
        for record, said, found, marks in were:
            if record._searched_fields() != said or record.is_found() != found:
                said_else.append(record)
            elif record.is_found() and record._marks() != marks:
                marked_else.append(record)
        cls.follow(said_else)
        index(marked_else)

    def _searched_fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.SAID)

    def _marks(self) -> tuple[Any, ...]:
        """Return the fields that `search_marks()` uses. The topic itself updates its title."""
        names = ("tags", "source", "topic_id", "expires_at", "superseded_by_id", *_MARKED, *_KINDS)
        return tuple(getattr(self, name, None) for name in names)

    def purge(self, *, by: Actor) -> None:
        """Delete the record permanently, also from the search index."""
        with transaction.atomic():
            self.unfollow([one for one in self.purged_with() if isinstance(one, Recalled)])
            super().purge(by=by)


def who_of(source: str) -> str:
    """Return the name in a source: `human:alice` and `agent:claude` have one, `run:12` doesn't."""
    kind, _colon, name = source.partition(":")
    return name if kind in ("human", "agent", "import") else ""
