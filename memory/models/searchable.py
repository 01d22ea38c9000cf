"""Records that are found by their words: the search index follows each of their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.db.models import Q, prefetch_related_objects

from memory.actors import Actor
from memory.models import indexing
from memory.models.base import Remembered
from memory.models.embeddings import Embedding, EmbeddingDue

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
    # what they say (memory.recall.embedding marks them as due for a vector).
    ON_FOLLOW: ClassVar[list[Callable[[list[Any]], object]]] = []

    class Meta:
        abstract = True

    def search_type(self) -> str:
        """Return the type among which the record is ranked, as recall names it."""
        return self.SEARCH_TYPE or self.record_type()

    def search_text(self) -> str:
        """Return what the record says: the content alone, never its category or tags (R76)."""
        raise NotImplementedError

    def search_marks(self) -> indexing.Marks:
        """Return what recall filters by beside the words: each field that this type has."""
        topic_id = getattr(self, "topic_id", None)
        topic = getattr(self, "topic", None) if topic_id else None
        labels = [*getattr(self, "tags", ()), who_of(self.source), topic.title if topic else ""]
        return indexing.Marks(
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
        indexing.index(found)
        for tell in cls.ON_FOLLOW:
            tell(found)

    @classmethod
    def unfollow(cls, records: Iterable[Any]) -> None:
        """Let the records be found no more, neither by their words nor by their meaning."""
        gone = list(records)
        if not gone:  # as at most writes, which would ask for nothing three times
            return
        indexing.unindex(gone)
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
                indexing.index([self])
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
        indexing.index(marked_else)

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
