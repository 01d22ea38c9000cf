"""The list of content items: what its address asks for, and the page of rows that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Left
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.db.keyset import Page, page_of
from beacon_site.llm.tokens import Size, counted
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.dates import day_of, moment_of
from memory.content.compaction import citation_line, compact_form
from memory.content.services import change_all, due
from memory.content.transforms import CHARACTERS, TRANSFORMS, UNITS, View, transform
from memory.core.actors import Actor
from memory.core.errors import InvalidValue
from memory.models import ContentItem, Revision, SnapshotItem, Trust, Use, User, origins
from memory.models.content import ContentQuerySet
from memory.pages.records.record import LOCK_MEANS, TRUST_MEANS
from memory.records import history as record_history
from memory.records.history import Change
from memory.review.quarantine import reason_of

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


def count_items(user: User, wanted: Wanted) -> int:
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


# --- What a person does with many content items at once, with the way back ---

AT_ONCE = 1_000  # items that one act moves; what is left waits for the next


@dataclass(frozen=True, slots=True)
class Moved:
    """How many items went to the trash together, at which moment, and how many are left."""

    number: int
    at: datetime
    left: int = 0

    @property
    def undo_url(self) -> str:
        """Return the address that brings them back."""
        return f"{reverse('memory:content-put-back')}?{urlencode({'at': self.at.isoformat()})}"


def trash_ticked(user: User, keys: Sequence[UUID], *, by: Actor) -> Moved:
    """Move these items to the trash.  Raises InvalidValue if none is named."""
    if not keys:
        raise InvalidValue(_("Nothing was ticked, so nothing was moved. Tick what is meant."))
    return _trash(user, list(keys[:AT_ONCE]), by)


def trash_matching(user: User, wanted: Wanted, *, by: Actor) -> Moved:
    """Move what the list's filters leave to the trash, the newest thousand at once."""
    found = items_wanted(user, wanted).order_by("-created", "-pk").values_list("pk", flat=True)
    keys = list(found[: AT_ONCE + 1])
    moved = _trash(user, keys[:AT_ONCE], by)
    return Moved(moved.number, moved.at, found.count() if len(keys) > AT_ONCE else 0)


def _trash(user: User, keys: list[UUID], by: Actor) -> Moved:
    at = timezone.now()
    rows = ContentItem.objects.of(user).live().filter(pk__in=keys)
    why = _("moved to the trash with others")
    return Moved(change_all(rows, {"trashed_at": at}, by=by, why=why), at)


def put_back(user: User, moment: str, *, by: Actor) -> int:
    """Bring back what went to the trash at that very moment, and return how many those were."""
    at = moment_of(moment)
    if at is None or at.tzinfo is None:
        raise InvalidValue(_("That names no moment, so nothing was brought back. See the trash."))
    rows = ContentItem.objects.of(user).filter(trashed_at=at)
    return change_all(rows, {"trashed_at": None}, by=by, why=_("restored from the trash"))


# --- page ---

SHOWN = 200_000  # characters of a view that one page holds; the file has all of them
USUALLY_WHOLE = 20_000  # characters of an item that is shown in full at first
MOST_CHARACTERS_COUNTED = 1_000_000  # characters whose tokens are counted for a page
FEW_CHANGES, FEW_USES, FEW_NEIGHBOURS, FEW_SNAPSHOTS = 5, 8, 20, 10


@dataclass(frozen=True, slots=True)
class Usage:
    """Where an item was used, as research tells of it: a hit of a run, a report that cites it."""

    words: str
    url: str
    at: datetime


# Each takes an item and tells where it was used; research adds its hits and reports.
USED_IN: list[Callable[[Any], Iterable[Usage]]] = []


@dataclass(frozen=True, slots=True)
class Shown:
    """One view of the content as the page's form asks for it, or why there is none."""

    name: str
    n: str
    unit: str
    q: str
    view: View | None = None
    text: str = ""
    problem: str = ""
    field: str = ""  # the field that is wrong

    @property
    def is_cut(self) -> bool:
        """Whether the page holds less than the view."""
        return self.view is not None and len(self.view.text) > len(self.text)

    @property
    def about(self) -> str:
        """Return what the transform does."""
        return str(TRANSFORMS[self.name].about) if self.name in TRANSFORMS else ""


def shown_of(item: ContentItem, query: Any) -> Shown:
    """Return the view that the address asks for; what cannot be is told and what was typed kept."""
    usual = "full" if item.size <= USUALLY_WHOLE else "excerpt"
    name, unit = query.get("transform", "") or usual, query.get("unit", "") or CHARACTERS
    n, q = query.get("n", "").strip()[:20], clean(query.get("q", ""))[0].strip()
    try:
        view = transform(item.content, name, n=_number(n), q=q, unit=unit)
    except InvalidValue as exc:
        wrong = next(iter(exc.errors), "")
        return Shown(name, n, unit, q, problem=str(exc), field=wrong)
    return Shown(name, n, unit, q, view, view.text[:SHOWN])


def _number(typed: str) -> Any:
    """Return the number that was typed; what is none goes on to be refused in words."""
    if not typed:
        return None
    return int(typed) if typed.isascii() and typed.lstrip("-").isdecimal() else typed


@dataclass(slots=True)
class ContentPage:
    """An item with all that is told of it."""

    item: Any
    size: Size
    compact: str
    citation: str
    origin: origins.Origin
    scope: origins.Origin
    writer: str
    kept_with: origins.Origin | None
    kept: str
    changes: list[Change]
    uses: list[tuple[origins.Origin, datetime]]
    more_uses: int
    used_in: list[Usage]
    names: list[Any] = field(default_factory=list)  # items that this one names as related
    named_by: list[Any] = field(default_factory=list)  # items that name this one
    snapshots: list[Any] = field(default_factory=list)

    @property
    def set_aside(self) -> str:
        """Return why the item is in quarantine; empty where it is not."""
        return reason_of(self.item)

    @property
    def record(self) -> Any:
        """Return the item, as the parts that all records share call it."""
        return self.item

    @property
    def type(self) -> str:
        """Return the record type, for the addresses of acts."""
        return str(self.item.record_type())

    @property
    def trust_means(self) -> str:
        """Return what the item's trust means."""
        return str(TRUST_MEANS[Trust(self.item.trust)])

    @property
    def lock_means(self) -> str:
        """Return what the item's lock means."""
        return str(LOCK_MEANS[self.item.lock])


def content_page(item: Any) -> ContentPage:
    """Return what is told of `item`, whose owner is loaded."""
    changes = record_history.history_of(item, size=FEW_CHANGES).changes
    first = _first_of(item, changes)
    uses = list(
        Use.objects.of(item.owner).filter(record_id=item.pk).order_by("-id")[: FEW_USES + 100]
    )
    run, _slash, step = item.kept_with.partition("/")
    actor = first.actor if first else ""
    places = origins.of(
        item.owner, [item.source, item.scope, actor, run, *(use.place for use in uses)]
    )
    return ContentPage(
        item=item,
        size=_size_of(item),
        compact=compact_form(item, agent=None),
        citation=citation_line(item),
        origin=places.get(item.source) or origins.Origin(item.source, item.source),
        scope=places.get(item.scope) or origins.Origin(item.scope, item.scope),
        writer=places[actor].words if actor in places else "",
        kept_with=_kept_with(places.get(run), step),
        kept=_kept(item),
        changes=changes,
        uses=[(places[use.place], use.created) for use in uses[:FEW_USES]],
        more_uses=max(0, len(uses) - FEW_USES),
        used_in=[usage for told in USED_IN for usage in told(item)],
        names=_neighbours(item.related_to),
        named_by=_neighbours(ContentItem.objects.of(item.owner).filter(related_to=item)),
        snapshots=_snapshots_of(item),
    )


def _first_of(item: Any, changes: list[Change]) -> Revision | None:
    if len(changes) < FEW_CHANGES:
        return changes[-1].revision if changes else None
    first: Revision | None = record_history.revisions_of(item).last()
    return first


def _size_of(item: Any) -> Size:
    """Return the item's size; of a very large one the tokens are estimated."""
    if item.size <= MOST_CHARACTERS_COUNTED:
        return counted(item.content)
    size = len(item.content.encode())
    return Size(size, -(-size // 4))


def _kept_with(run: origins.Origin | None, step: str) -> origins.Origin | None:
    """Return the run and its step that the item was kept with."""
    if run is None:
        return None
    number = step.partition(":")[2]
    words = _("%(run)s, step %(step)s") % {"run": run.words, "step": number}
    return origins.Origin(run.text, words if number else run.words, run.url)


def _kept(item: Any) -> str:
    """Return in words how long the item is kept."""
    days = settings.BEACON_CONTENT_DAYS
    end = item.created + timedelta(days=days, seconds=1)
    if not days or not due(end).filter(pk=item.pk).exists():
        return _("until it is deleted")
    left = max(0, (end - timezone.now()).days)
    words = ngettext(
        "for %(n)d more day, then it goes to the trash",
        "for %(n)d more days, then it goes to the trash",
        left,
    )
    return words % {"n": left} if left else _("until upkeep moves it to the trash, today")


def _neighbours(items: Any) -> list[Any]:
    rows = items.filter(trashed_at=None).defer("content").order_by("-created", "-pk")
    return list(rows[:FEW_NEIGHBOURS])


def _snapshots_of(item: Any) -> list[Any]:
    held = SnapshotItem.objects.filter(
        item_id=item.pk, snapshot__owner=item.owner, snapshot__trashed_at=None
    )
    rows = held.select_related("snapshot").defer("content").order_by("-snapshot__created")
    return [row.snapshot for row in rows[:FEW_SNAPSHOTS]]


def choices_of(shown: Shown) -> dict[str, Any]:
    """Return what the form of the view offers."""
    return {
        "transforms": [
            (one.name, str(one.about), one.name == shown.name) for one in TRANSFORMS.values()
        ],
        "units": [(unit, unit == shown.unit) for unit in UNITS],
    }
