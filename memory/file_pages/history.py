"""The history of a memory file: its changes as people read them, and any two versions of its text.

Data flow: a page of revisions by id -> what each says without its text -> words for who, why, by
which run and how many bytes.  Two versions: their texts, one query each -> rows of a diff.  The
list of 2,000 versions of the largest file never loads a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, Func, JSONField
from django.utils.translation import gettext as _

from memory import origins
from memory.files.joining import content_at
from memory.models import MemoryFile, Revision
from memory.paging import page_of
from memory.records import history as record_history
from memory.texts import diff as text_diff

PAGE = 25
MOST_ROWS = 2_000  # of a diff on a page
_TEXT = {"content", "summary", "size", "blame"}  # what a save works out; the size says the rest


@dataclass(frozen=True, slots=True)
class Change:
    """One revision as people read it: who, by way of what, why, and how many bytes it cost."""

    revision: Revision
    who: str
    via: origins.Origin | None
    said: list[str] = field(default_factory=list)
    bytes: int | None = None  # None: the text stayed as it was
    is_now: bool = False

    @property
    def version(self) -> int:
        """Return the version that the change made."""
        return int(self.revision.version)

    @property
    def before(self) -> int:
        """Return the version before, 0 if there was none."""
        return self.version - 1

    @property
    def why(self) -> str:
        """Return the reason that was given, unless what it did says the same."""
        return "" if self.revision.reason in self.said else self.revision.reason

    @property
    def grew(self) -> bool:
        """Whether the text became longer."""
        return (self.bytes or 0) > 0


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A part of a history, the latest first, and the cursor of the next part."""

    changes: list[Change]
    next_cursor: str | None


class _WithoutText(Func):
    """What a revision holds of a file's fields, but for its text, which may be 256 KiB."""

    template = "(%(expressions)s - 'content' - 'blame')"
    output_field = JSONField()


def history_of(file: MemoryFile, *, cursor: str = "", size: int = PAGE) -> ChangePage:
    """Return the changes of `file`, the latest first: two queries, and those for the places."""
    known = record_history.revisions_of(file).only("id", "created")
    page = page_of(known, by="created", falling=True, cursor=cursor, size=size)
    return ChangePage(changes_of(file, [one.pk for one in page.rows]), page.next_cursor)


def changes_of(file: MemoryFile, ids: Sequence[int]) -> list[Change]:
    """Return these changes of `file` in words, in the order of `ids`."""
    told = Revision.objects.of(file.owner).filter(pk__in=ids).defer("before", "after")
    found = {
        one.pk: one
        for one in told.annotate(
            was=_WithoutText(F("before")),
            became=_WithoutText(F("after")),
        )
    }
    revisions = [found[pk] for pk in ids if pk in found]
    named = named_of(file, revisions)
    return [_change(file, one, named) for one in revisions]


def named_of(file: MemoryFile, revisions: Iterable[Revision]) -> dict[str, origins.Origin]:
    """Return what the actors and sources of revisions mean."""
    return origins.of(file.owner, {text for one in revisions for text in (one.actor, one.source)})


def via_of(revision: Revision, named: Mapping[str, origins.Origin]) -> origins.Origin | None:
    """Return by way of what a change was made, where that is another than who made it."""
    return named.get(revision.source) if revision.source != revision.actor else None


def _change(file: MemoryFile, revision: Any, named: Mapping[str, origins.Origin]) -> Change:
    was, became = revision.was, revision.became
    said, size = [_("first written")], became.get("size", 0)
    if was:
        size = became["size"] - was["size"] if {"size"} <= was.keys() & became.keys() else None
        changed = {name for name, value in became.items() if was.get(name) != value}
        said = record_history.said_of(file, was, became, changed - _TEXT)
    return Change(
        revision,
        named[revision.actor].words if revision.actor else _("nobody"),
        via_of(revision, named),
        said,
        size,
        is_now=revision.version == file.version,
    )


# --- two versions against each other ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """What a comparison's address asks for; what it cannot mean is as if it did not stand there."""

    older: int = 0
    newer: int = 0
    is_side_by_side: bool = False
    is_by_words: bool = True
    is_whole: bool = False

    @classmethod
    def of(cls, query: Any, newest: int) -> Asked:
        """Read it from an address's query; without two versions it is the last change."""
        ends = [query.get(name, "") for name in ("from", "to")]
        numbers = [int(one) for one in ends if one.isascii() and one.isdigit() and len(one) < 9]
        older, newer = (min(numbers), max(numbers)) if len(numbers) == 2 else (0, 0)
        if not 1 <= older <= newer <= newest:
            older, newer = max(1, newest - 1), newest
        return cls(
            older,
            newer,
            is_side_by_side=query.get("view") == "side",
            is_by_words=query.get("view") != "lines",
            is_whole=query.get("show") == "all",
        )

    @property
    def before(self) -> int:
        """Return the version before the older one."""
        return self.older - 1

    @property
    def after(self) -> int:
        """Return the version after the newer one."""
        return self.newer + 1

    @property
    def view(self) -> str:
        """Return the view's name in the address."""
        return "side" if self.is_side_by_side else "words" if self.is_by_words else "lines"


Columns = list[tuple[text_diff.Row | None, text_diff.Row | None]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a file's text: the rows of the diff, and who made the newer one, and why."""

    asked: Asked
    rows: list[text_diff.Row]
    columns: Columns
    rows_left: int
    lines: int
    bytes: int
    last: Change | None

    @property
    def is_alike(self) -> bool:
        """Whether both versions have the same text."""
        return self.lines == 0


def compare(file: MemoryFile, asked: Asked) -> Comparison:
    """Hold two versions against each other; unchanged runs are gaps unless all is asked for."""
    before, after = (content_at(file, one) or "" for one in (asked.older, asked.newer))
    rows = text_diff.diff(before, after)
    lines = sum(row.kind != "same" for row in rows)
    rows = rows if asked.is_whole else text_diff.folded(rows)
    left = max(0, len(rows) - MOST_ROWS)
    rows = rows[:MOST_ROWS]
    columns = text_diff.sided(rows) if asked.is_side_by_side else []
    size = len(after.encode()) - len(before.encode())
    return Comparison(asked, rows, columns, left, lines, size, _maker(file, asked.newer))


def _maker(file: MemoryFile, version: int) -> Change | None:
    found = record_history.revisions_of(file).filter(version=version)
    ids = list(found.values_list("pk", flat=True)[:1])
    return next(iter(changes_of(file, ids)), None)
