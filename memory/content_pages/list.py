"""The list of content items: what its address asks for, and the page of rows that answers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.db.models.functions import Left
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory import origins
from memory.models import ContentItem, User
from memory.models.content import ContentQuerySet
from memory.paging import Page, page_of
from memory.texts.days import day_of
from memory.texts.text import clean, one_line, shorten

PAGE = 50
BEGINNING = 400  # characters of a content that are read for its first line
MOST_SCOPES = 200
# The orders: by which field, whether falling, and in words; the first is usual.
SORTS = {
    "newest": ("created", True, gettext_lazy("newest first")),
    "oldest": ("created", False, gettext_lazy("oldest first")),
    "largest": ("size", True, gettext_lazy("largest first")),
}
MOST_COUNTED = 1_000  # beyond it the list says "more than"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the list's address asks for; what it cannot mean is left out."""

    words: str = ""
    type: str = ""
    scope: str = ""
    source: str = ""
    tag: str = ""
    first: date | None = None
    last: date | None = None
    sort: str = "newest"

    @classmethod
    def of(cls, query: Any) -> Wanted:
        """Read it from an address's query."""
        kind, sort = query.get("type", ""), query.get("sort", "")
        return cls(
            words=_line(query, "q"),
            type=kind if kind in ContentItem.Type.values else "",
            scope=_line(query, "scope"),
            source=_line(query, "source"),
            tag=_line(query, "tag"),
            first=day_of(query.get("from", "")),
            last=day_of(query.get("to", "")),
            sort=sort if sort in SORTS else "newest",
        )

    @property
    def asked(self) -> dict[str, str]:
        """Return what is asked for, as an address holds it."""
        given = {
            "q": self.words,
            "type": self.type,
            "scope": self.scope,
            "source": self.source,
            "tag": self.tag,
            "from": self.first.isoformat() if self.first else "",
            "to": self.last.isoformat() if self.last else "",
        }
        return {name: value for name, value in given.items() if value}

    @property
    def query(self) -> str:
        """Return the address's query."""
        return urlencode(self.asked | ({"sort": self.sort} if self.sort != "newest" else {}))

    @property
    def is_narrowed(self) -> bool:
        """Whether items may be missing because of what was asked."""
        return bool(self.asked)

    @property
    def is_one_scope(self) -> bool:
        """Whether it asks for all of one scope and nothing else."""
        return list(self.asked) == ["scope"]


def _line(query: Any, name: str) -> str:
    return one_line(clean(query.get(name, ""))[0])[:200]


@dataclass(frozen=True, slots=True)
class Chip:
    """One thing that narrows the list, and the query that takes it away."""

    name: str
    value: str
    query: str


@dataclass(slots=True)
class Row:
    """One item: what it is called, where it comes from, who sees it."""

    item: Any
    title: str
    first_line: str
    source: origins.Origin
    scope: origins.Origin
    tags: list[tuple[str, str]] = field(
        default_factory=list
    )  # each with the query that asks for it


def items_wanted(user: User, wanted: Wanted) -> ContentQuerySet:
    """Return the items that the address asks for, in no order."""
    rows = ContentItem.objects.of(user).live()
    if wanted.type:
        rows = rows.filter(type=wanted.type)
    if wanted.scope:
        rows = rows.filter(scope=wanted.scope)
    if wanted.source:
        rows = rows.filter(source=wanted.source)
    if wanted.tag:
        rows = rows.filter(tags__contains=[wanted.tag])
    zone = timezone.get_current_timezone()
    if wanted.first:
        rows = rows.filter(created__gte=datetime.combine(wanted.first, time(), zone))
    if wanted.last and wanted.last < date.max:
        end = datetime.combine(wanted.last + timedelta(days=1), time(), zone)
        rows = rows.filter(created__lt=end)
    for word in wanted.words.split()[:20]:
        # A content may be megabytes: its words are looked for on its page, by a transform.
        named = Q(title__icontains=word) | Q(url__icontains=word) | Q(action__icontains=word)
        rows = rows.filter(named)
    return rows


def page(user: User, wanted: Wanted, *, cursor: str = "") -> Page:
    """Return one page of rows in the order that is asked for."""
    rows = items_wanted(user, wanted).select_related("topic")
    rows = rows.defer("content", "topic__summary")
    rows = rows.annotate(beginning=Left("content", BEGINNING))
    by, falling, _words = SORTS[wanted.sort]
    found = page_of(rows, by=by, falling=falling, cursor=cursor, size=PAGE)
    return Page(_rows(user, found.rows), found.next_cursor)


def counted(user: User, wanted: Wanted) -> int:
    """Return how many items there are, or one more than is counted."""
    return items_wanted(user, wanted).order_by()[: MOST_COUNTED + 1].count()


def _rows(user: User, items: Sequence[Any]) -> list[Row]:
    named = origins.of(user, [text for item in items for text in (item.source, item.scope)])
    return [
        Row(
            item,
            title_of(item),
            shorten(item.beginning, 160) if item.title else "",
            _source_of(item, named),
            named.get(item.scope) or origins.Origin(item.scope, item.scope),
            [(tag, urlencode({"tag": tag})) for tag in item.tags],
        )
        for item in items
    ]


def _source_of(item: Any, named: Mapping[str, origins.Origin]) -> origins.Origin:
    """Return where an item came from; of what a tool call stored (R241: “user”), whose call it was."""
    by_agent = item.source == "user" and item.scope.startswith("agent:")
    return named.get(item.scope if by_agent else item.source) or origins.Origin(
        item.source, item.source
    )


def title_of(item: Any) -> str:
    """Return what an item is called: its title, else its first words, else where it came from."""
    words = item.title or shorten(getattr(item, "beginning", "") or "", 120)
    return words or item.url or item.action or _("empty")


def chips_of(wanted: Wanted) -> list[Chip]:
    """Return what narrows the list, each with the query without it."""
    names = {
        "q": _("words"), "type": _("type"), "scope": _("scope"), "source": _("source"),
        "tag": _("tag"), "from": _("from"), "to": _("to"),
    }  # fmt: skip
    asked = wanted.asked
    shown = asked | ({"type": str(ContentItem.Type(wanted.type).label)} if wanted.type else {})
    order = {"sort": wanted.sort} if wanted.sort != "newest" else {}
    rest = {name: {k: v for k, v in asked.items() if k != name} | order for name in asked}
    return [Chip(names[name], shown[name], urlencode(rest[name])) for name in asked]


def scopes_of(user: User, wanted: Wanted) -> list[tuple[str, str]]:
    """Return the scopes that hold anything, each with its words, the owner's first."""
    used = ContentItem.objects.of(user).live().order_by("scope")
    names = set(used.values_list("scope", flat=True).distinct()[:MOST_SCOPES])
    return scopes_in_words(user, names | ({wanted.scope} if wanted.scope else set()))


def scopes_in_words(user: User, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return each scope with what it means."""
    told = origins.of(user, names)
    rows = [(name, told[name].words if name in told else name) for name in names if name]
    return sorted(rows, key=lambda row: (row[0] != "owner", row[0]))
