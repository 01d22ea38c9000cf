"""Records that are found by their words: the search index follows each of their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

from django.db import transaction

from memory.actors import Actor
from memory.models.base import Remembered
from memory.recall import bm25


class Recalled(Remembered):
    """A remembered record that recall finds.

    It is indexed in the transaction that writes it, so a search sees what stands in the row, and
    a rollback leaves nothing.  `SAID` names the fields whose change changes what is found.
    """

    SAID: ClassVar[tuple[str, ...]] = ("content",)

    # Called in the transaction of a change, with the records that are to be found from now on by
    # what they say (memory.embedding marks them as due for a vector).
    ON_FOLLOW: ClassVar[list[Callable[[list[Any]], object]]] = []

    class Meta:
        abstract = True

    def search_type(self) -> str:
        """Return the type among which the record is ranked, as recall names it."""
        return self.record_type()

    def search_text(self) -> str:
        """Return what the record says: the content alone, never its category or tags (R76)."""
        raise NotImplementedError

    def is_found(self) -> bool:
        """Whether recall may find the record; one in the trash is not indexed."""
        return self.trashed_at is None

    @classmethod
    def follow(cls, records: Iterable[Recalled]) -> None:
        """Let the search index say what the records say now, in the caller's transaction."""
        members = list(records)
        found = [record for record in members if record.is_found()]
        bm25.unindex([record for record in members if not record.is_found()])
        bm25.index(found)
        for tell in cls.ON_FOLLOW:
            tell(found)

    def change(self, **kwargs: Any) -> Self:
        """Change the record as Remembered.change does; recall finds the new words at once."""
        with transaction.atomic():
            was_said, was_found = self._said(), self.is_found()
            changed = super().change(**kwargs)
            if self._said() != was_said or self.is_found() != was_found:
                self.follow([self])
        return changed

    @classmethod
    def change_many(cls, wanted: Sequence[tuple[Self, dict[str, Any]]], **kwargs: Any) -> None:
        """Change the records as Remembered.change_many does; the index follows those it must."""
        were = [(record, record._said(), record.is_found()) for record, _fields in wanted]
        super().change_many(wanted, **kwargs)
        cls.follow(
            record
            for record, said, found in were
            if record._said() != said or record.is_found() != found
        )

    def _said(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.SAID)

    def purge(self, *, by: Actor) -> None:
        """Delete the record for good, also from the search index."""
        with transaction.atomic():
            bm25.unindex([one for one in self.purged_with() if isinstance(one, Recalled)])
            super().purge(by=by)
