"""The scratchpad's list: entries of one scope by prefix or search, with what each holds in short."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, Func, IntegerField, QuerySet, TextField, Value
from django.db.models.functions import Left, Substr
from django.utils.translation import gettext as _

from memory import origins
from memory.errors import InvalidValue
from memory.models import Revision, ScratchpadEntry, User
from memory.models.base import OWNER_SCOPE
from memory.paging import Page, page_of
from memory.scratchpads import entries as scratchpad

PAGE = 50
BEGINNING = 1_200  # characters of a value in the list
MOST_CHIPS = 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the list's address asks for; what cannot be is left out."""

    words: str = ""
    prefix: str = ""
    scope: str = OWNER_SCOPE

    @classmethod
    def of(cls, query: Any) -> Wanted:
        """Read it from an address's query."""
        scope = query.get("scope", "")
        try:
            scope = scratchpad.checked_scope(scope)
        except InvalidValue:
            scope = OWNER_SCOPE
        return cls(
            words=query.get("q", "").replace("\x00", "").strip()[:200],
            prefix=query.get("prefix", "").replace("\x00", "")[:200],
            scope=scope,
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether entries may be missing because of what was asked."""
        return bool(self.words or self.prefix)

    def address(self, prefix: str) -> str:
        """Return the query string of the same scope under another prefix."""
        asked = {"scope": self.scope if self.scope != OWNER_SCOPE else "", "prefix": prefix}
        return urlencode({name: value for name, value in asked.items() if value})

    @property
    def trail(self) -> list[tuple[str, str]]:
        """Return the prefix part by part, each with the query string that leads there."""
        found, at = [], ""
        for part in _parts(self.prefix):
            at += part
            found.append((part, self.address(at)))
        return found


def _parts(prefix: str) -> list[str]:
    parts, start = [], 0
    for place, char in enumerate(prefix, start=1):
        if char in SEPARATORS or place == len(prefix):
            parts.append(prefix[start:place])
            start = place
    return parts


SEPARATORS = "/:."


@dataclass(frozen=True, slots=True)
class Chip:
    """A part of keys that several have in common, and the query string that lists them."""

    part: str
    number: int
    address: str


@dataclass(slots=True)
class EntryRow:
    """One entry: its value in short, as JSON where it is JSON, and who changed it last."""

    entry: Any
    shown: str
    is_json: bool
    is_cut: bool
    actor: str = ""


def entries_wanted(user: User, wanted: Wanted) -> QuerySet[Any]:
    """Return the entries that the address asks for, in no order."""
    rows = scratchpad.entries(user, wanted.prefix, scope=wanted.scope)
    if wanted.words:
        found = scratchpad.search(user, wanted.words, scope=wanted.scope)
        rows = rows.filter(pk__in=found.order_by().values("pk"))
    return rows.order_by()


def page(user: User, wanted: Wanted, *, cursor: str = "") -> Page:
    """Return one page of rows: two queries."""
    rows = entries_wanted(user, wanted).defer("value")
    rows = rows.annotate(
        beginning=Left("value", BEGINNING),
        size=Func("value", function="octet_length", output_field=IntegerField()),
    )
    found = page_of(rows, by="key", falling=False, cursor=cursor, size=PAGE)
    return Page(_rows(user, found.rows), found.next_cursor)


def _rows(user: User, entries: Sequence[Any]) -> list[EntryRow]:
    found = _last_actors(entry.pk for entry in entries)
    actors = {entry.pk: found.get(entry.pk, entry.source) for entry in entries}
    named = origins.of(user, actors.values())
    rows = []
    for entry in entries:
        is_cut = len(entry.beginning) == BEGINNING
        shown, is_json = (entry.beginning, False) if is_cut else as_json(entry.beginning)
        who = named.get(actors[entry.pk])
        rows.append(EntryRow(entry, shown, is_json, is_cut, who.words if who else _("nobody")))
    return rows


def as_json(value: str) -> tuple[str, bool]:
    """Return a value laid out and True if it is a JSON object or list, else as it is and False."""
    if not value.lstrip().startswith(("{", "[")):
        return value, False
    try:
        parsed = json.loads(value)
        return json.dumps(parsed, ensure_ascii=False, indent=2), True
    except (ValueError, RecursionError):
        return value, False


def _last_actors(ids: Iterable[Any]) -> dict[Any, str]:
    changes = Revision.objects.filter(record_id__in=list(ids)).order_by("record_id", "-id")
    return dict(changes.distinct("record_id").values_list("record_id", "actor"))


def chips(user: User, wanted: Wanted) -> list[Chip]:
    """Return the next parts of the keys under the prefix that end at one of SEPARATORS: a query."""
    rest = Substr(F("key"), len(wanted.prefix) + 1)
    part = Func(
        rest,
        Value(f"^[^{SEPARATORS}]*[{SEPARATORS}]"),
        function="substring",
        output_field=TextField(),
    )
    rows = scratchpad.entries(user, wanted.prefix, scope=wanted.scope).order_by()
    parted = rows.annotate(part=part).exclude(part=None).values("part")
    found = parted.annotate(number=Count("pk")).order_by("part")[:MOST_CHIPS]
    return [
        Chip(one["part"], one["number"], wanted.address(wanted.prefix + one["part"]))
        for one in found
    ]


def scopes(user: User, wanted: Wanted) -> list[str]:
    """Return the scopes in which there is anything, the owner's own first: one query."""
    used = ScratchpadEntry.objects.of(user).live().order_by()
    names = set(used.values_list("scope", flat=True).distinct()[:200]) | {wanted.scope}
    return [OWNER_SCOPE, *sorted(names - {OWNER_SCOPE})]
