"""Vectors of what records say, and which records wait for one."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol, Self

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import connection, models, transaction
from django.db.models import Q, prefetch_related_objects
from django.utils import timezone

from beacon_site.text.terms import stemmed_as, vector_of
from memory.core.actors import Actor
from memory.models.accounts import User
from memory.models.history import OwnedQuerySet
from memory.models.remembered import Remembered


class OfRecordsQuerySet(OwnedQuerySet):
    """Rows that each hang on one record of any type."""

    def about(self, records: Iterable[Any]) -> Any:
        """Keep the rows of these records."""
        ids = defaultdict(list)
        for record in records:
            ids[record.search_type()].append(record.pk)
        which = models.Q(pk__in=[])
        for record_type, some in ids.items():
            which |= models.Q(record_type=record_type, object_id__in=some)
        return self.filter(which)


_MARK = """
INSERT INTO memory_embeddingdue AS due
       (owner_id, record_type, object_id, tries, held, not_before, created)
SELECT one.owner_id, one.record_type, one.object_id, 0, false, new.at, new.at
  FROM (SELECT %s::timestamptz AS at) new,
       unnest(%s::bigint[], %s::text[], %s::uuid[]) one (owner_id, record_type, object_id)
    ON CONFLICT (record_type, object_id) DO UPDATE
   SET created = excluded.created, not_before = excluded.not_before, tries = 0, held = false
"""


class EmbeddingDueQuerySet(OfRecordsQuerySet):
    """What waits for a vector."""

    def mark(self, records: Iterable[Any]) -> None:
        """Let the records wait for a vector of what they say now; one they had is taken away.

        In the writer's own transaction: so no vector of words that are gone is ever looked at.
        """
        members = sorted(records, key=lambda record: record.pk)
        rows = [(one.owner_id, one.search_type(), one.pk) for one in members]
        if not rows:
            return
        with connection.cursor() as cursor:
            cursor.execute(_MARK, [timezone.now(), *map(list, zip(*rows, strict=True))])
        # After the mark, at which a task waits that stores a vector of the old words just now.
        Embedding.objects.about(members).delete()

    def waiting(self) -> Any:
        """Keep what an embedder of this Beacon could work off."""
        return self.filter(held=False)


class RealField(models.FloatField):  # type: ignore[type-arg]
    """A four-byte float: a vector's figures need no more, and there are many of them."""

    def db_type(self, connection: Any) -> str:
        """Return Postgres' name of the type."""
        return "real"


class Embedding(models.Model):
    """The vector of one record by one model.  An ordinary table: no extension is needed for it."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    model = models.CharField(max_length=120)
    dimensions = models.PositiveIntegerField()
    values = ArrayField(RealField())
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OfRecordsQuerySet] = OfRecordsQuerySet.as_manager()  # type: ignore[assignment]

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
    """A record whose words changed and that has no vector of them yet; a task works these off.

    `created` is when its words last changed, by which a task knows that what it embedded still
    stands; `held` says that it is sensitive and waits for an embedder on this machine.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    object_id = models.UUIDField()
    tries = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now)
    created = models.DateTimeField(default=timezone.now)
    held = models.BooleanField(default=False)

    objects: ClassVar[EmbeddingDueQuerySet] = EmbeddingDueQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "embeddings due"
        constraints = [
            models.UniqueConstraint(fields=["record_type", "object_id"], name="embedding_due_once")
        ]
        indexes = [models.Index(fields=["not_before"], name="embedding_due_next")]

    def __str__(self) -> str:
        return f"{self.record_type} {self.object_id}"


# --- The search index: what each record says as counted terms, and how often each term occurs ---

# Writers of one owner wait for each other at the rows of all the owner's spaces, in their order: the
# terms they count are shared, and one that writes a note and then a finding would else lock the two
# spaces in another order than one that does the reverse, and Postgres end one of them (a deadlock).
# NO KEY leaves the key alone, which is all that a foreign key's check needs.
#
# `most` and `shortest` bound what a term can add to a score, for exact pruning: they only widen,
# since a bound that is too wide costs time and nothing else.
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
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, most, shortest)
    SELECT added.space_id, word.lexeme, count(*),
           coalesce(max(cardinality(word.positions)), 1), min(added.length)
      FROM added, unnest(added.words) word GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           most = greatest(term.most, excluded.most),
           shortest = least(term.shortest, excluded.shortest);
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

# An entry's other columns change more often than its words: then there is nothing to count.
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
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, most, shortest)
    SELECT space_id, lexeme, sum(one), max(most), min(length)
      FROM (SELECT gone.space_id, word.lexeme, -1 AS one, 1 AS most, gone.length
              FROM gone, unnest(gone.words) word
            UNION ALL
            SELECT added.space_id, word.lexeme, 1, coalesce(cardinality(word.positions), 1),
                   added.length
              FROM added, unnest(added.words) word) both_
     GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           most = greatest(term.most, excluded.most),
           shortest = least(term.shortest, excluded.shortest)
     WHERE excluded.documents <> 0 OR excluded.most > term.most
        OR excluded.shortest < term.shortest;
    RETURN NULL;
"""


class SearchSpace(models.Model):
    """Records that are ranked among each other: one owner's, of one type.

    `documents` and `length` (terms counted, all documents together) are BM25's N and N x avgdl;
    `language` is the one as which its words were stemmed.
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


class SearchEntry(models.Model):
    """What one record says, as counted terms; `length` is how many are counted.

    The other columns are what recall filters by most: beside the words they cost no look at the
    record.  `until` is when it expires, `stands` whether nothing superseded it; trust and
    sensitivity are here because every recall of an agent leaves some of both out.
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
    stands = models.BooleanField(default=True)
    trust = models.CharField(max_length=12, default="owner")
    sensitivity = models.CharField(max_length=10, default="normal")

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
                fields=["space"], condition=models.Q(stands=False), name="search_entry_superseded"
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="counted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Insert,
                referencing=pgtrigger.Referencing(new="added"),
                func=_COUNTED,
            ),
            pgtrigger.Trigger(
                name="discounted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Delete,
                referencing=pgtrigger.Referencing(old="gone"),
                func=_DISCOUNTED,
            ),
            pgtrigger.Trigger(
                name="recounted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Update,
                referencing=pgtrigger.Referencing(old="gone", new="added"),
                func=_RECOUNTED,
            ),
        ]

    def __str__(self) -> str:
        return str(self.record_id)


class SearchTerm(models.Model):
    """In how many documents of its space a term occurs: BM25's document frequency.

    `most` is how often at most it occurs in one of them, `shortest` the length of none less.
    """

    pk = models.CompositePrimaryKey("space_id", "lexeme")
    space = models.ForeignKey(SearchSpace, models.CASCADE, related_name="terms", db_index=False)
    lexeme = models.TextField(db_collation="C")
    documents = models.IntegerField()
    most = models.SmallIntegerField(default=255)
    shortest = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.lexeme


# --- indexing ---

MOST_BYTES = 4_000_000  # of the terms that one statement brings


class Searchable(Protocol):
    """A record that can be found by its words; `search_marks()`, where it has it, gives its Marks."""

    pk: Any
    owner_id: Any

    def search_type(self) -> str:
        """Return the type among which it is ranked, most often `record_type()`."""
        ...

    def search_text(self) -> str:
        """Return what it says: the content alone, never its category or labels (R76)."""
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """What the index knows of a record besides its words, to filter by.

    `labels` are who said it, its tags and its topic's title: only `lexical` looks at them.
    """

    labels: str = ""
    kind: str = ""
    topic_id: uuid.UUID | None = None
    created: datetime | None = None
    until: datetime | None = None
    stands: bool = True
    trust: str = "owner"
    sensitivity: str = "normal"


# Each column as an array: a thousand records are one statement of few parameters, and its
# triggers count them once.
_COLUMNS = {
    "record_id": "uuid", "length": "int", "words": "text", "kind": "text", "topic_id": "uuid",
    "created": "timestamptz", "until": "timestamptz", "stands": "boolean",
    "trust": "text", "sensitivity": "text",
}  # fmt: skip
_NAMES = ", ".join(_COLUMNS)
_VALUES = _NAMES.replace("words", "words::tsvector")
_ARRAYS = ", ".join(f"%s::{kind}[]" for kind in _COLUMNS.values())
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name != "record_id")
_INDEX = (
    f"INSERT INTO memory_searchentry (space_id, {_NAMES}) "  # noqa: S608  our own names  # nosec B608
    f"SELECT %s, {_VALUES} FROM unnest({_ARRAYS}) AS new ({_NAMES}) "
    f"ON CONFLICT (space_id, record_id) DO UPDATE SET {_CHANGES}"
)


def index(records: Iterable[Searchable]) -> None:
    """Make the records findable by what they say now, those that were before included."""
    for space, members in _by_space(records):
        rows: list[list[Any]] = []
        room = MOST_BYTES
        for record in {record.pk: record for record in members}.values():
            row = _row(space, record)
            rows.append(row)
            room -= len(row[2])
            if room < 0:
                _store(space, rows)
                rows, room = [], MOST_BYTES
        _store(space, rows)


def _store(space: SearchSpace, rows: list[list[Any]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_INDEX, [space.pk, *columns])


def _row(space: SearchSpace, record: Searchable) -> list[Any]:
    """Return the columns of a record's entry, in the order of _COLUMNS."""
    told = getattr(record, "search_marks", None)  # asked of each: a protocol's check takes longer
    marks: Marks = told() if told else Marks()
    words, length = vector_of(record.search_text(), marks.labels, space.language)
    created = marks.created or timezone.now()
    return [
        record.pk, length, words, marks.kind, marks.topic_id, created, marks.until, marks.stands,
        marks.trust, marks.sensitivity,
    ]  # fmt: skip


def mark(records: Iterable[Any], *, trust: str, sensitivity: str) -> None:
    """Let the index say how far the records are believed, where their words stay as they are.

    A file's sections take the file's: to count all their terms anew would take a hundred times
    as long.
    """
    for space, members in _by_space(records):
        entries = SearchEntry.objects.filter(
            space=space, record_id__in=[record.pk for record in members]
        )
        entries.exclude(trust=trust, sensitivity=sensitivity).update(
            trust=trust, sensitivity=sensitivity
        )


def unindex(records: Iterable[Searchable]) -> None:
    """Make the records unfindable; those that were so already do not matter."""
    for space, members in _by_space(records):
        ids = [record.pk for record in members]
        SearchEntry.objects.filter(space=space, record_id__in=ids).delete()


def _by_space(records: Iterable[Searchable]) -> list[tuple[SearchSpace, list[Searchable]]]:
    """Group the records by space, spaces in the order in which their writers wait."""
    groups: dict[tuple[Any, str], list[Searchable]] = defaultdict(list)
    for record in records:
        groups[record.owner_id, record.search_type()].append(record)
    known = {pair: _space(*pair) for pair in groups}
    if missing := [pair for pair, space in known.items() if space is None]:
        languages = dict(
            User.objects.filter(pk__in={owner for owner, _kind in missing}).values_list(
                "pk", "language"
            )
        )
        SearchSpace.objects.bulk_create(
            [
                SearchSpace(
                    owner_id=owner, record_type=kind, language=stemmed_as(languages.get(owner, ""))
                )
                for owner, kind in missing
            ],
            ignore_conflicts=True,
        )
        known |= {pair: _space(*pair) for pair in missing}
    spaces = [(space, groups[pair]) for pair, space in known.items() if space is not None]
    return sorted(spaces, key=lambda pair: pair[0].pk)


def _space(owner_id: Any, kind: str) -> SearchSpace | None:
    return SearchSpace.objects.filter(owner_id=owner_id, record_type=kind).first()


# --- Records that are found by their words: the search index follows each of their changes ---

_KINDS = ("kind", "category", "state")  # of a note, an observation, a topic fact
_MARKED = ("trust", "sensitivity")


def list_indexes(name: str, kind: str) -> list[models.Index]:
    """Return the indexes by which a list of many stays quick, whatever narrows or sorts it.

    What most records are is walked in the order of the list; what few are has an index of its own.
    """
    order = ["-created", "-id"]
    live = Q(trashed_at=None)
    marked = Q(pinned=True) | ~Q(lock="open") | Q(sensitivity="sensitive")
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
    """A remembered record that recall finds.

    It is indexed in the transaction that writes it, so a search sees what stands in the row, and
    a rollback leaves nothing.  `SAID` names the fields whose change changes what is found.
    """

    SAID: ClassVar[tuple[str, ...]] = ("content",)
    SEARCH_TYPE: ClassVar[str] = ""  # as recall names the type, if not by the model's name

    # Called in the transaction of a change, with the records that are to be found from now on by
    # what they say (memory.search.embedding marks them as due for a vector).
    ON_FOLLOW: ClassVar[list[Callable[[list[Any]], object]]] = []

    class Meta:
        abstract = True

    def search_type(self) -> str:
        """Return the type among which the record is ranked, as recall names it."""
        return self.SEARCH_TYPE or self.record_type()

    def search_text(self) -> str:
        """Return what the record says: the content alone, never its category or tags (R76)."""
        raise NotImplementedError

    def search_marks(self) -> Marks:
        """Return what recall filters by beside the words: each field that this type has."""
        topic_id = getattr(self, "topic_id", None)
        topic = getattr(self, "topic", None) if topic_id else None
        labels = [*getattr(self, "tags", ()), who_of(self.source), topic.title if topic else ""]
        return Marks(
            labels=" ".join(labels),
            kind=next(filter(None, (getattr(self, name, "") for name in _KINDS)), ""),
            topic_id=topic_id,
            created=self.created,
            until=getattr(self, "expires_at", None),
            stands=getattr(self, "superseded_by_id", None) is None,
            trust=self.trust,
            sensitivity=self.sensitivity,
        )

    def is_found(self) -> bool:
        """Whether recall may find the record; one in the trash is not indexed."""
        return self.trashed_at is None

    @classmethod
    def follow(cls, records: Iterable[Recalled]) -> None:
        """Let the search index say what the records say now, in the caller's transaction."""
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
        """Let the records be found no more, neither by their words nor by their meaning."""
        gone = list(records)
        if not gone:  # as at most writes, which would ask for nothing three times
            return
        unindex(gone)
        Embedding.objects.about(gone).delete()
        EmbeddingDue.objects.about(gone).delete()

    def change(self, **kwargs: Any) -> Self:
        """Change the record as Remembered.change does; recall finds the new words at once."""
        with transaction.atomic():
            was_said, was_found, was_marked = self._said(), self.is_found(), self._marks()
            changed = super().change(**kwargs)
            if self._said() != was_said or self.is_found() != was_found:
                self.follow([self])
            elif self.is_found() and self._marks() != was_marked:
                index([self])
        return changed

    @classmethod
    def change_many(cls, wanted: Sequence[tuple[Self, dict[str, Any]]], **kwargs: Any) -> None:
        """Change the records as Remembered.change_many does; the index follows those it must."""
        were = [(one, one._said(), one.is_found(), one._marks()) for one, _fields in wanted]
        super().change_many(wanted, **kwargs)
        said_else, marked_else = [], []
        for record, said, found, marks in were:
            if record._said() != said or record.is_found() != found:
                said_else.append(record)
            elif record.is_found() and record._marks() != marks:
                marked_else.append(record)
        cls.follow(said_else)
        index(marked_else)

    def _said(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.SAID)

    def _marks(self) -> tuple[Any, ...]:
        """Return the fields that `search_marks()` is made of; the topic's title is told by it."""
        names = ("tags", "source", "topic_id", "expires_at", "superseded_by_id", *_MARKED, *_KINDS)
        return tuple(getattr(self, name, None) for name in names)

    def purge(self, *, by: Actor) -> None:
        """Delete the record for good, also from the search index."""
        with transaction.atomic():
            self.unfollow([one for one in self.purged_with() if isinstance(one, Recalled)])
            super().purge(by=by)


def who_of(source: str) -> str:
    """Return the name in a source: `human:alice` and `agent:claude` have one, `run:12` has none."""
    kind, _colon, name = source.partition(":")
    return name if kind in ("human", "agent", "import") else ""
