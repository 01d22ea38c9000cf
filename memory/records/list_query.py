"""What the address of a list of records asks for: words, operators and the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memory.models import Note, Observation
from memory.models.searchable import Recalled
from memory.recall.operators import MOST_TEXT, Question, parse
from memory.texts.text import clean, one_line

NEWEST, OLDEST, CHANGED, EXPIRES, BEST = "newest", "oldest", "changed", "expires", "best"
SORTS: dict[str, tuple[str, bool, Promise]] = {
    NEWEST: ("created", True, _("Newest")),
    OLDEST: ("created", False, _("Oldest")),
    CHANGED: ("updated", True, _("Last changed")),
    EXPIRES: ("expires_at", False, _("Expires first")),
    BEST: ("", True, _("Best match")),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind of record that has a list page; `page` is its word in addresses and saved views."""

    page: str
    model: type[Recalled]
    facet: str  # the field that says of what kind a record is
    sorts: tuple[str, ...]

    @property
    def type(self) -> str:
        """Return the type's name in history and in the addresses of acts."""
        return self.model.record_type()


NOTES = Listed("notes", Note, "kind", (NEWEST, OLDEST, CHANGED, EXPIRES))
OBSERVATIONS = Listed("observations", Observation, "category", (NEWEST, OLDEST, CHANGED))
PAGES = {listed.page: listed for listed in (NOTES, OBSERVATIONS)}
BY_TYPE = {listed.type: listed for listed in PAGES.values()}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list's address asks for."""

    listed: Listed
    text: str
    asked_sort: str
    question: Question

    @classmethod
    def of(cls, listed: Listed, query: Mapping[str, str]) -> ListQuery:
        """Read it from an address's query; what cannot be read is left out."""
        text = one_line(clean(query.get("q", ""))[0])[: MOST_TEXT + 1]
        sort = query.get("sort", "")
        known = sort in listed.sorts or sort == BEST
        return cls(listed, text, sort if known else "", parse(text))

    @property
    def states(self) -> frozenset[str]:
        """Return what `is:` asks for, not negated."""
        asked = (
            one.values for one in self.question.filters if one.field == "is" and not one.negated
        )
        return frozenset(value for values in asked for value in values)

    @property
    def is_trash(self) -> bool:
        """Whether the list shows the trash."""
        return "trashed" in self.states

    @property
    def sort(self) -> str:
        """Return the order: as asked, else the best match first where there are words."""
        ranked = bool(self.question.words) and not self.is_trash
        if self.asked_sort == BEST or not self.asked_sort:
            return BEST if ranked else NEWEST
        return self.asked_sort

    @property
    def is_narrowed(self) -> bool:
        """Whether records may be missing from the list because of what was asked."""
        return self.question.has_words or bool(self.question.filters)

    @property
    def query(self) -> str:
        """Return the query string that asks for the same, without the page."""
        return query_of(self.text, self.asked_sort)


def query_of(text: str, sort: str = "") -> str:
    """Return the query string that asks for `text` in this order."""
    return urlencode({name: value for name, value in (("q", text), ("sort", sort)) if value})
