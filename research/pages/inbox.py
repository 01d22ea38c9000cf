"""The Inbox: one list of everything that waits for a person, most dangerous first.

Each item is decided on its own row, or beside the list, where it's shown in full. The number of
queries doesn't depend on the number of items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Case, CharField, Count, F, Q, QuerySet, Value, When
from django.db.models import IntegerField as Number
from django.db.models.functions import Cast, Coalesce
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import (
    around_difference,
    choice_param,
    number_of,
    shorten,
    text_param,
    uuid_of,
)
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in
from memory.models import (
    Conflict,
    MemoryFile,
    Note,
    Observation,
    Proposal,
    Topic,
    TopicFact,
    User,
    origins,
)
from memory.models.errors import MemoryRefused
from memory.models.proposals import Danger
from memory.pages import conflicts as conflict_pages
from memory.pages.review import proposals as proposal_pages
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import offer, undoes
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions, quarantine
from memory.services.review.proposals import title_of
from memory.services.review.risks import reasons_of
from research.models import Delivery, Run
from research.services.runs import page as run_page

PAGE = 50
MAX_TEXT = 160  # characters of a row's title
SHOWS = {
    "proposal": gettext_lazy("Proposals"),
    "conflict": gettext_lazy("Conflicts"),
    "run": gettext_lazy("Runs"),
    "delivery": gettext_lazy("Notifications"),
    "quarantine": gettext_lazy("Quarantine"),
}
_QUARANTINE, _EXPIRING, _CONFLICTS, _PLANS = 11, 31, 32, 33
_DUPLICATES, _FAILED, _DELIVERIES = 51, 60, 70
SOON = timedelta(days=3)  # before a proposal expires
# The groups in their order. Those of proposals are ten times their danger.
GROUPS: dict[int, str | Promise] = {
    **{danger * 10: danger.label for danger in Danger},
    _QUARANTINE: gettext_lazy("Quarantine"),
    _EXPIRING: gettext_lazy("Expires soon"),
    _CONFLICTS: gettext_lazy("Contradictions"),
    _PLANS: gettext_lazy("Plans to review"),
    _DUPLICATES: gettext_lazy("Near-duplicates"),
    _FAILED: gettext_lazy("Failed runs"),
    _DELIVERIES: gettext_lazy("Notifications that weren’t delivered"),
}
_HARMLESS = (Danger.EXTERNAL * 10, Danger.OTHER * 10, _EXPIRING)  # they can be decided together
_TEXTS = ("title", "content", "text", "key", "value", "url", "source")  # of quarantined records
_SIDES: dict[Any, str] = {
    Note: "content",
    Observation: "content",
    MemoryFile: "content",
    TopicFact: "text",
}
_ARTICLES, _MARKS = {"a", "an", "the"}, ".,:;!?…\"'“”‘’"
UNDELIVERED = (Delivery.State.FAILED, Delivery.State.UNSURE)
DECIDED = {  # the states of decided items, by the value in the URL
    "decided": gettext_lazy("All"),
    "accepted": gettext_lazy("Accepted"),
    "rejected": gettext_lazy("Rejected"),
    "expired": gettext_lazy("Expired"),
    "resolved": gettext_lazy("Conflicts"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters in the URL. Invalid values are ignored."""

    q: str = ""
    show: str = ""
    state: str = ""
    type: str = ""  # of proposals
    by: str = ""  # the writer of proposals, such as agent:claude
    kind: str = ""  # of conflicts
    topic: str = ""  # of conflicts
    at: str = ""  # the selected item
    page: int = 0

    @classmethod
    def of(cls, query: Any) -> Wanted:
        return cls(
            q=text_param(query, "q"),
            show=choice_param(query, "show", SHOWS),
            state=choice_param(query, "outcome", DECIDED) or choice_param(query, "state", DECIDED),
            type=choice_param(query, "type", proposal_pages.TYPES),
            by=text_param(query, "by"),
            kind=choice_param(query, "kind", conflict_pages.KINDS),
            topic=str(uuid_of(query.get("topic", "")) or ""),
            at=text_param(query, "at", 60),
            page=number_of(text_param(query, "cursor", 6)) or 0,
        )

    def address(self, at: str = "") -> str:
        """Return the URL of this list with its filters, with an item selected."""
        values = asdict(self) | {"at": at}
        values["cursor"] = values.pop("page")
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{reverse('research:inbox')}{'?' if query else ''}{query}"

    @property
    def is_waiting(self) -> bool:
        return not self.state

    @property
    def is_narrowed(self) -> bool:
        """Return True if a filter leaves out items."""
        return bool(self.q or self.show or self.type or self.by or self.kind or self.topic)

    def having(self, rows: QuerySet[Any], *fields: str) -> QuerySet[Any]:
        """Keep the rows that contain each word in one of these fields."""
        for word in self.q.split():
            rows = rows.filter(_containing(word, *fields))
        return rows


@dataclass(slots=True)
class Item:
    """One item as a row. `row` is what its page knows of it; `mark` is the letter of its writer."""

    show: str
    key: str
    place: int
    at: datetime
    title: str = ""
    about: str = ""
    mark: str = ""
    look: str = ""
    row: Any = None
    url: str = ""  # the list with this item selected
    next: str = ""  # the list with the following one selected
    similar: list[Item] = field(default_factory=list)  # older ones that are decided with it

    @property
    def group(self) -> str:
        """Return the heading that it's below."""
        return str(GROUPS.get(self.place, ""))

    @property
    def is_dangerous(self) -> bool:
        return self.place == Danger.INJECTION * 10

    @property
    def of_record(self) -> list[Item]:
        """Return the similar ones that change the same record. They are accepted too."""
        return [one for one in self.similar if _target(self)[1]]

    @property
    def repeated(self) -> list[Item]:
        """Return the similar ones that repeat its text. They are rejected if it's accepted."""
        return [one for one in self.similar if not _target(self)[1]]

    @property
    def keys(self) -> str:
        """Return what a form sends for the row: those to decide alike, then those it replaces."""
        alike, repeated = [self, *self.of_record], self.repeated
        parts = [",".join(one.key for one in some) for some in (alike, repeated)]
        return ";".join(filter(None, parts))


def _target(item: Item) -> tuple[Any, ...]:
    """Return what a proposal would change: the type, the record or file, the act, and who gets it."""
    after = item.row.after
    fields = (after.get(name) for name in ("act", "kind", "scope", "topic_id"))
    return item.row.record_type, after.get("path") or item.row.target_id, *fields


# --- what waits ---


def _containing(word: str, *fields: str) -> Q:
    found = Q()
    for name in fields:
        found |= Q(**{f"{name}__icontains": word})
    return found


def _as_items(rows: QuerySet[Any], show: str, place: Any, at: Any) -> QuerySet[Any]:
    """Return the rows in the shape that all kinds share."""
    place = Value(place, output_field=Number()) if isinstance(place, int) else place
    named: QuerySet[Any] = (
        rows.order_by()
        .annotate(
            item_place=place,
            item_at=F(at) if isinstance(at, str) else at,
            item_key=Cast("pk", CharField()),
            item_show=Value(show, output_field=CharField()),
        )
        .values_list("item_place", "item_at", "item_key", "item_show")
    )
    return named


def _proposals(user: User, filters: Wanted) -> list[QuerySet[Any]]:
    state = Proposal.State.WAITING.value if filters.is_waiting else filters.state
    rows: Any = Proposal.objects.for_user(user)
    if state == "decided":
        rows = rows.exclude(state=Proposal.State.WAITING, expires_at__gt=timezone.now())
    elif state in proposal_pages.STATES:
        rows = proposal_pages.rows_of(user, state)
    else:
        return []
    rows = rows.filter(actor=filters.by) if filters.by else rows
    rows = rows.filter(record_type=filters.type) if filters.type else rows
    texts = ("after__content", "after__path", "after__lines")
    rows = filters.having(rows, *texts, "reason", "hold_reasons", "actor")
    if filters.is_waiting:
        is_late = {"danger__gt": Danger.IDENTITY, "expires_at__lte": timezone.now() + SOON}
        place = Case(
            When(**is_late, then=_EXPIRING), default=F("danger") * 10, output_field=Number()
        )
        return [_as_items(rows, "proposal", place, "created")]
    return [_as_items(rows, "proposal", 0, Coalesce("decided_at", "expires_at"))]


def _conflicts(user: User, filters: Wanted) -> list[QuerySet[Any]]:
    rows: Any = Conflict.objects.for_user(user)
    if filters.kind:
        rows = rows.filter(kind=filters.kind)
    if filters.topic:
        rows = rows.filter(topic_ids__contains=[filters.topic])
    for word in filters.q.split():
        rows = rows.filter(_side_containing(user, word))
    if filters.is_waiting:
        near = When(kind=Conflict.Kind.NEAR_DUPLICATE, then=_DUPLICATES)
        place = Case(near, default=_CONFLICTS, output_field=Number())
        return [_as_items(rows.standing().one_per_record(), "conflict", place, "created")]
    if filters.state not in ("decided", "resolved"):
        return []
    return [_as_items(rows.filter(state=Conflict.State.RESOLVED), "conflict", 0, "resolved_at")]


def _side_containing(user: User, word: str) -> Q:
    found = Q()
    for model, name in _SIDES.items():
        keys = model.objects.for_user(user).filter(_containing(word, name)).values("pk")
        found |= Q(left_id__in=keys) | Q(right_id__in=keys)
    return found


def _runs(user: User, filters: Wanted) -> list[QuerySet[Any]]:
    plans = Run.objects.for_user(user).waiting_for_a_person().filter(topic__trashed_at=None)
    return [
        _as_items(filters.having(rows, "topic__title", "error"), "run", place, "created")
        for rows, place in ((plans, _PLANS), (Run.objects.for_user(user).failed_last(), _FAILED))
    ]


def _deliveries(user: User, filters: Wanted) -> list[QuerySet[Any]]:
    rows = Delivery.objects.for_user(user).filter(state__in=UNDELIVERED)
    rows = rows.exclude(kind=Delivery.Kind.TEST)
    found = filters.having(rows, "subject", "error", "channel__name")
    return [_as_items(found, "delivery", _DELIVERIES, "created")]


def _quarantine(user: User, filters: Wanted) -> list[QuerySet[Any]]:
    parts = []
    for name, rows in quarantine.quarantined_by_type(user).items():
        has = {field.name for field in rows.model._meta.concrete_fields}
        rows = filters.having(rows, *(field for field in _TEXTS if field in has))
        parts.append(_as_items(rows, name, _QUARANTINE, "created"))
    return parts


_SOURCES: dict[str, Callable[[User, Wanted], list[QuerySet[Any]]]] = {
    "proposal": _proposals,
    "conflict": _conflicts,
    "run": _runs,
    "delivery": _deliveries,
    "quarantine": _quarantine,
}


def _rows_by_kind(user: User, filters: Wanted) -> dict[str, list[QuerySet[Any]]]:
    """Return what the filters ask for, by kind. A filter of one kind leaves out the others."""
    shows = [filters.show] if filters.show else list(SHOWS)
    if filters.type or filters.by:
        shows = [one for one in shows if one == "proposal"]
    if filters.kind or filters.topic:
        shows = [one for one in shows if one == "conflict"]
    if not filters.is_waiting:
        shows = [one for one in shows if one in ("proposal", "conflict")]
    return {show: _SOURCES[show](user, filters) for show in shows}


def waiting(user: Any) -> list[tuple[str, QuerySet[Any]]]:
    """Return everything that waits for `user` (or the ID), each queryset with its kind."""
    return [(show, rows) for show, of in _SOURCES.items() for rows in of(user, Wanted())]


def counts_of(user: User) -> dict[str, int]:
    """Return how many items of each kind wait: one query."""
    asked = [
        rows.order_by()
        .annotate(item_of=Value(show, output_field=CharField()))
        .values("item_of")
        .annotate(n=Count("pk"))
        .values_list("item_of", "n")
        for show, rows in waiting(user)
    ]
    found = dict.fromkeys(SHOWS, 0)
    for name, number in asked[0].union(*asked[1:], all=True):
        found[name] += number
    return found


def _union(parts: Iterable[Sequence[QuerySet[Any]]]) -> QuerySet[Any] | None:
    flat = [one for part in parts for one in part]
    if not flat:
        return None
    return flat[0].union(*flat[1:], all=True) if len(flat) > 1 else flat[0]


def items_of(user: User, filters: Wanted) -> tuple[list[Item], bool]:
    """Return a page of items, and whether there are more."""
    rows = _union(_rows_by_kind(user, filters).values())
    if rows is None:
        return [], False
    order = ("item_place", "item_at", "item_key")
    if not filters.is_waiting:
        order = ("-item_at", "item_key")  # type: ignore[assignment]
    begin = filters.page * PAGE
    found = list(rows.order_by(*order)[begin : begin + PAGE + 1])
    items = []
    for place, at, key, name in found[:PAGE]:
        show = name if name in SHOWS else "quarantine"
        items.append(Item(show, key, place, at, row=name))
    _load(user, items)
    items = [one for one in items if one.row is not None]  # decided since the query
    items = _folded(items) if filters.is_waiting else items
    for n, item in enumerate(items):
        near = items[n + 1 : n + 2] or items[max(0, n - 1) : n]
        for one in (item, *item.similar):
            one.url = filters.address(one.key)
            one.next = filters.address(near[0].key if near else "")
    return items, len(found) > PAGE


def first_item(user: User) -> Item | None:
    """Return the item at the top of the list, with its title: at most three queries."""
    rows = _union(_rows_by_kind(user, Wanted()).values())
    found = rows.order_by("item_place", "item_at", "item_key").first() if rows is not None else None
    if found is None:
        return None
    place, at, key, name = found
    item = Item(name if name in SHOWS else "quarantine", key, place, at, row=name)
    item.title, item.url = _title_of(user, item), Wanted().address(item.key)
    return item if item.title else None


def _title_of(user: User, item: Item) -> str:
    """Return the title of an item without the rest of its row, or "" if it's gone."""
    models: dict[str, type[Any]] = {
        "proposal": Proposal, "conflict": Conflict, "run": Run, "delivery": Delivery,
    }  # fmt: skip
    model = models.get(item.show) or quarantine.MODELS[item.row]
    rows = model.objects.for_user(user)
    row = (rows.select_related("topic") if model is Run else rows).filter(pk=item.key).first()
    if isinstance(row, Proposal):
        title = proposal_pages.headline(row) or title_of(row)
    elif isinstance(row, Conflict):
        sides = conflict_services.MODELS[row.left_type].objects.for_user(user)
        left = sides.filter(pk=row.left_id).first()
        title = conflict_services.words_of(row, "left", left) if left is not None else ""
    elif isinstance(row, Delivery):
        title = row.subject or str(row.get_kind_display())
    else:
        title = str(row.topic.title if isinstance(row, Run) else row or "")
    return shorten(title, MAX_TEXT)


def _folded(items: Sequence[Item]) -> list[Item]:
    """Return the page's items with similar harmless proposals in one, the newest.

    Those of other pages aren't compared, so the work doesn't grow with the Inbox.
    """
    groups: list[list[Item]] = []
    for item in items:
        of = next((some for some in groups if _are_similar(some[0], item)), None)
        if of is None:
            groups.append([item])
        else:
            of.append(item)
    folded = []
    for some in groups:
        *older, newest = sorted(some, key=lambda one: one.at)
        newest.similar = older[::-1]
        folded.append(newest)
    return folded


def _are_similar(one: Item, other: Item) -> bool:
    if one.place != other.place or one.show != "proposal" or one.place not in _HARMLESS:
        return False
    if one.row.danger != other.row.danger or _target(one) != _target(other):
        return False
    # Any other word can change the meaning: “not”, or another weekday.
    return bool(_target(one)[1]) or _words_of(one.row) == _words_of(other.row)


def _words_of(row: Proposal) -> list[str]:
    """Return the words of its text, without articles and the marks around each word."""
    lines = row.after.get("lines") or [row.after]
    text = " ".join(str(line.get("content", "")) for line in lines)
    words = (word.strip(_MARKS) for word in text.casefold().split())
    return [word for word in words if word and word not in _ARTICLES]


# --- rows ---


def _load(user: User, items: Sequence[Item]) -> None:
    """Fill the rows: a fixed number of queries for each kind on the page."""
    for show, fill in _FILLED.items():
        of_kind = [item for item in items if item.show == show]
        if of_kind:
            fill(user, of_kind)


def _with_rows(items: Sequence[Item], rows: Mapping[str, Any]) -> Iterator[tuple[Item, Any]]:
    """Set the items' rows, and yield the items that have one."""
    for item in items:
        item.row = rows.get(item.key)
        if item.row is not None:
            yield item, item.row


def _fill_proposals(user: User, items: Sequence[Item]) -> None:
    found = Proposal.objects.for_user(user).in_bulk([one.key for one in items])
    rows = {str(key): row for key, row in found.items()}
    writers = origins.of(user, {row.actor for row in rows.values()})
    for item, row in _with_rows(items, rows):
        row.owner = user
        who = writers[row.actor].words if row.actor in writers else ""
        what = title_of(row)
        words = proposal_pages.headline(row)
        reasons = reasons_of(row)
        item.title = shorten(words or what, MAX_TEXT)
        item.about = " · ".join(filter(None, [who, what if words else "", *reasons[:1]]))
        name = row.actor.partition(":")[2] or who  # agent:desk is marked with a D
        item.mark, item.look = (name[:1] or "?").upper(), "agent"
        if item.place == _EXPIRING:
            day = date_format(timezone.localtime(row.expires_at), "j M")
            item.about = " · ".join([_("expires %(day)s") % {"day": day}, item.about])
        if row.danger == Danger.EXTERNAL:
            item.look = "web"
        if not row.is_waiting:
            is_late = row.state == Proposal.State.WAITING
            outcome = Proposal.State.EXPIRED.label if is_late else row.get_state_display()
            item.about = " · ".join(filter(None, [str(outcome), who, what]))


def _fill_conflicts(user: User, items: Sequence[Item]) -> None:
    found = {
        str(row.pk): row
        for row in Conflict.objects.for_user(user).filter(pk__in=[i.key for i in items])
    }
    keys = {key for row in found.values() for key in row.topic_ids}
    topics = (
        {one.pk: one for one in Topic.objects.for_user(user).filter(pk__in=keys)} if keys else {}
    )
    shown = conflict_pages.conflict_rows(user, list(found.values()), topics=topics)
    rows = {str(row.conflict.pk): row for row in shown}
    others = contradictions.number_of_each(user, found.values())
    for item, row in _with_rows(items, rows):
        left, right = around_difference(row.left.text, row.right.text)
        item.title = shorten(left or right, MAX_TEXT)
        other = shorten(right, MAX_TEXT)
        if row.conflict.is_open:
            item.about = other
        elif row.conflict.resolution == Conflict.How.GONE:
            item.about = _("resolved automatically")  # the item itself says why
        else:
            item.about = str(row.conflict.get_resolution_display())
        more = others.get(row.conflict.newer, 1) - 1
        if row.conflict.is_open and more > 0:
            words = ngettext("and %(n)d more", "and %(n)d more", more)
            item.about = f"{item.about} · {words % {'n': more}}"
        item.mark, item.look = "≠", "conflict"


def _fill_runs(user: User, items: Sequence[Item]) -> None:
    rows = Run.objects.for_user(user).select_related("topic").defer("manifest")
    found = {str(key): run for key, run in rows.in_bulk([int(one.key) for one in items]).items()}
    for item, run in _with_rows(items, found):
        item.title = shorten(run.topic.title, MAX_TEXT)
        waits = run.waiting_since is not None
        item.about = run_page.waiting_words(run) if waits else shorten(run.error, MAX_TEXT)
        item.mark, item.look = ("?", "agent") if waits else ("!", "conflict")


def _fill_deliveries(user: User, items: Sequence[Item]) -> None:
    rows = Delivery.objects.for_user(user).select_related("channel")
    rows = rows.defer("request", "response", "message", "results")
    found = {str(key): row for key, row in rows.in_bulk([one.key for one in items]).items()}
    for item, row in _with_rows(items, found):
        item.title = shorten(row.subject or str(row.get_kind_display()), MAX_TEXT)
        item.about = " · ".join(filter(None, [str(row.channel), shorten(row.error, MAX_TEXT)]))
        item.mark, item.look = "!", "conflict"


def _fill_quarantine(user: User, items: Sequence[Item]) -> None:
    found = quarantine.quarantined_rows(user, [(str(one.row), one.key) for one in items])
    for item, row in _with_rows(items, found):
        item.title = shorten(str(row["record"]), MAX_TEXT)
        # The reason is nearly always prompt injection, so a row says where the text comes from.
        item.about = capfirst(row["origin"].words) if row["origin"] else str(row["why"])
        item.mark, item.look = "!", "web"


_FILLED: dict[str, Callable[[User, Sequence[Item]], None]] = {
    "proposal": _fill_proposals,
    "conflict": _fill_conflicts,
    "run": _fill_runs,
    "delivery": _fill_deliveries,
    "quarantine": _fill_quarantine,
}


def _groups(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Return the items by place. In a grave group, each item needs its own decision."""
    return [
        {
            "title": rows[0].group,
            "place": place,
            "is_grave": place <= Danger.IDENTITY * 10,
            "is_selectable": place in _HARMLESS,
            "items": rows,
            "number": sum(1 + len(row.similar) for row in rows),
        }
        for place, some in groupby(items, key=lambda item: item.place)
        for rows in [list(some)]
    ]


# --- the selected item ---


def _detail(user: User, item: Item) -> dict[str, Any]:
    """Return what the template of one item in full needs."""
    if item.show == "proposal":
        found = item.row
        row = proposal_pages.whole(user, found)
        fields = proposal_pages.edit_fields(found)
        more: dict[str, Any] = {}
        if row.conflict:
            fields = proposal_pages.edit_fields(found, {"content": row.conflict.merge.text()})
            more = {"conflict": row.conflict, "is_open": True}
        url = proposal_pages.target_url(found)
        context = {"proposal": found, "row": row, "fields": fields, "target_url": url}
        return context | proposal_pages.effects(user, row) | more
    if item.show == "conflict":
        pair = conflict_pages.whole(user, item.row.conflict)
        return {
            "row": pair,
            "conflict": pair.conflict,
            "is_standing": pair.conflict.is_open,
            "others": conflict_pages.others_of(user, pair.conflict)
            if pair.conflict.is_open
            else [],
            "text": pair.merged_text,
        }
    return {"row": item.row, "run": item.row, "delivery": item.row}


def _facets(user: User, filters: Wanted, counts: Mapping[str, int]) -> list[Facet]:
    """Return the filters with the numbers of pending items, and the outcomes of decided ones."""
    facets = []
    if filters.is_waiting:
        choices = [Choice(name, words, counts[name]) for name, words in SHOWS.items()]
        total = sum(counts.values())
        facets = [Facet("show", _("Show"), choices, any_label=_("Everything"), any_count=total)]
    else:
        choices = [Choice(name, words) for name, words in DECIDED.items() if name != "decided"]
        facets = [Facet("outcome", _("Outcome"), choices)]
    mine = Proposal.objects.for_user(user)
    rows = mine.waiting() if filters.is_waiting else mine.exclude(state=Proposal.State.WAITING)
    types, writers, kinds = Counter[str](), Counter[str](), Counter[str]()
    pairs = rows.order_by().values_list("record_type", "actor").annotate(n=Count("pk"))
    for name, writer, number in pairs:
        types[name] += number
        writers[writer] += number
    conflicts = Conflict.objects.for_user(user)
    conflicts = (
        conflicts.standing().one_per_record()
        if filters.is_waiting
        else conflicts.filter(state=Conflict.State.RESOLVED)
    )
    kinds.update(dict(conflicts.order_by().values_list("kind").annotate(n=Count("pk"))))
    writers.setdefault(filters.by, 0)
    who = origins.of(user, writers)
    choices = [Choice(one, who[one].words, n) for one, n in writers.most_common() if one]
    facets += [
        Facet("type", _("Type"), _counted(proposal_pages.TYPES, types)),
        Facet("by", _("By"), choices),
        Facet("kind", _("Conflicts"), _counted(conflict_pages.KINDS, kinds)),
    ]
    if (
        topic := Topic.objects.for_user(user).filter(pk=filters.topic).first()
        if filters.topic
        else None
    ):
        facets.append(Facet("topic", _("Topic"), [Choice(filters.topic, topic.title)]))
    return [
        one for one in facets if any(c.count != 0 or c.value == filters.by for c in one.choices)
    ]


def _counted(words: Mapping[str, Any], numbers: Mapping[str, int]) -> list[Choice]:
    return [Choice(name, label, numbers.get(name, 0)) for name, label in words.items()]


def _bar(user: User, query: QueryDict, counts: Mapping[str, int]) -> FilterBar:
    query = query.copy()
    if (state := choice_param(query, "state", DECIDED)) and state != "decided":
        # Without this filter, the list has all decided items, not the pending ones.
        query.update({"outcome": state})
        query["state"] = "decided"
    facets = _facets(user, Wanted.of(query), counts)
    asked = filter_bar.read(query, facets)
    asked.pop("at", None)
    return FilterBar(
        reverse("research:inbox"), "inbox", asked,
        label=_("Search the Inbox"), placeholder=_("Search the Inbox"), facets=facets,
    )  # fmt: skip


def context(user: User, query: QueryDict, *, has_bar: bool = True) -> dict[str, Any]:
    """Return what the page needs. Without its bar, filters that were typed as words aren't read:
    the links to an item have them as parameters.
    """
    counts = counts_of(user)
    bar = _bar(user, query, counts) if has_bar else None
    asked = (bar.query if bar else query).copy()
    for name in {"at", "cursor"} & {*query}:
        asked[name] = str(query[name])
    filters = Wanted.of(asked)
    items, has_more = items_of(user, filters)
    if filters.page and not items:  # its last item was decided, so show the last page that has some
        rows = _union(_rows_by_kind(user, filters).values())
        number = rows.count() if rows is not None else 0
        filters = replace(filters, page=max(0, number - 1) // PAGE)
        items, has_more = items_of(user, filters)
    chosen, row = next(
        ((one, row) for row in items for one in (row, *row.similar) if one.key == filters.at),
        (None, None),
    )
    shown, row = chosen or (items[0] if items else None), row or (items[0] if items else None)
    before = items[: items.index(row)] if row else []
    found: dict[str, Any] = {
        "wanted": filters,
        "groups": _groups(items),
        "counts": counts,
        "total": sum(counts.values()),
        "bar": bar,
        "item": shown,
        "item_row": row,  # another one, if a similar item is shown
        "is_asked": chosen is not None,
        "position": sum(1 + len(one.similar) for one in before) + 1 + filters.page * PAGE,
        "next_cursor": filters.page + 1 if has_more else None,
        "here": filters.address(),
        "is_in_inbox": True,
    }
    if shown:
        found["next"] = shown.next
        found |= _detail(user, shown)
    return found


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def inbox(request: BeaconRequest) -> HttpResponse:
    """Show the Inbox. Over htmx the list with the selected item, or only the selected item."""
    template = "research/inbox.html"
    if request.htmx and request.htmx.target == "inbox":
        template = "research/_inbox.html"
    elif request.htmx and request.htmx.target == "inbox-detail":
        template = "research/_inbox_detail.html"
    is_item = template == "research/_inbox_detail.html"
    shown = context(request.user, request.GET, has_bar=not is_item)
    answer = render(request, template, shown)
    if template == "research/_inbox.html":
        # A decision was sent to another address. Other filters are another page to go back from.
        wanted: Wanted = shown["wanted"]
        here = Wanted.of(QueryDict(urlsplit(request.htmx.current_url or "").query))
        is_same = replace(here, at="", page=0) == replace(wanted, at="", page=0)
        answer["HX-Replace-Url" if is_same else "HX-Push-Url"] = wanted.address(wanted.at)
    return answer


@signed_in("POST")
def delivery_give_up(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Don't send a message that failed."""
    with transaction.atomic():
        mine = Delivery.objects.for_user(request.user).select_for_update(no_key=True)
        row = get_object_or_404(mine, pk=pk)
        was = row.state
        if was in UNDELIVERED:
            Delivery.objects.filter(pk=pk).update(state=Delivery.State.DROPPED)
    if was in UNDELIVERED:
        undo = offer(request, "delivery-given-up", pk=pk, state=was)
        messages.success(request, _("The message won’t be sent."), extra_tags=undo)
    else:
        messages.info(request, _("This message has already been handled."))
    return redirect_back(request, reverse("research:inbox"))


@undoes("delivery-given-up")
def _delivery_waits_again(request: BeaconRequest, pk: str, state: str) -> str:
    rows = Delivery.objects.for_user(request.user).filter(pk=pk, state=Delivery.State.DROPPED)
    if not rows.update(state=state):
        raise MemoryRefused(
            _("This message has changed since then, so your change couldn’t be undone.")
        )
    messages.success(request, _("Back in the Inbox."))
    return reverse("research:inbox")
