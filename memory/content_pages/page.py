"""The page of one content item: a view of it, how agents see it, where it comes from and went."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory import origins
from memory.content.compaction import citation_line, compact_form
from memory.content.retention import due
from memory.content.transforms import CHARACTERS, TRANSFORMS, UNITS, View, transform
from memory.errors import InvalidValue
from memory.models import ContentItem, Revision, SnapshotItem, Trust, Use
from memory.records import history as record_history
from memory.records.history import Change
from memory.records.page import LOCK_MEANS, TRUST_MEANS
from memory.records.quarantine import reason_of
from memory.texts.text import clean
from memory.texts.token_count import Size, counted

SHOWN = 200_000  # characters of a view that one page holds; the file has all of them
USUALLY_WHOLE = 20_000  # characters of an item that is shown in full at first
MOST_COUNTED = 1_000_000  # characters whose tokens are counted for a page
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


def page_of(item: Any) -> ContentPage:
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
    if item.size <= MOST_COUNTED:
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
