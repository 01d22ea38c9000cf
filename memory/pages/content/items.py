"""Content items: the list with its filters, bulk actions with undo, and the page of one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import F, Func, TextField
from django.db.models.functions import Left
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import Page, page_of
from beacon_site.db.message_fields import with_words
from beacon_site.providers.llm.tokens import Size, counted
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import choice_param, clean, in_brief, one_line, shorten, uuids_of
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import get_owned_or_404, redirect_back, redirect_to, signed_in
from memory.models import (
    ContentItem,
    Revision,
    Sensitivity,
    SnapshotItem,
    Trust,
    Use,
    User,
    origins,
)
from memory.models.actors import Actor
from memory.models.content import ContentQuerySet
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages.records import saved_views
from memory.pages.records.record import LOCK_MEANS, TRUST_MEANS
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import (
    Choice,
    Facet,
    FilterBar,
    Query,
    day_facet,
    first_day,
    in_days,
)
from memory.pages.shared.undo import exact_moment, offer, undoes
from memory.services.content.compaction import citation_line, compact_form
from memory.services.content.items import MAX_BYTES, USED_IN, change_all, clear, due
from memory.services.content.transforms import CHARACTERS, LINES, TRANSFORMS, UNITS, transform
from memory.services.records import history as record_history
from memory.services.records.history import Change
from memory.services.review.quarantine import reason_of

PAGE = 50
BEGINNING = 400  # characters of a content that are read for its first line
MAX_SCOPES = 200
# The orders: the field, whether descending, and the label. The first is the default.
SORTS = {
    "newest": ("created", True, gettext_lazy("Newest")),
    "oldest": ("created", False, gettext_lazy("Oldest")),
    "largest": ("size", True, gettext_lazy("Largest")),
}
MAX_COUNTED = 1_000  # beyond it the list says "more than"


def _one_line_param(query: Query, name: str = "q") -> str:
    return one_line(clean(query.get(name, ""))[0])[:200]


def items_wanted(user: User, query: Query) -> ContentQuerySet:
    """Return the matching items, unordered."""
    rows = ContentItem.objects.for_user(user).live()
    if chosen := choice_param(query, "type", ContentItem.Type.values):
        rows = rows.filter(type=chosen)
    for name in ("scope", "source"):
        if value := _one_line_param(query, name):
            rows = rows.filter(**{name: value})
    if tag := _one_line_param(query, "tag"):
        rows = rows.filter(tags__contains=[tag])
    rows = in_days(rows, first_day(query), first_day(query, "to"))
    # Contents can be megabytes, so their text is searched on the item's page, by a transform.
    return with_words(rows, _one_line_param(query), "title", "url", "action")


def listed(user: User, query: Query, *, cursor: str = "") -> Page:
    """Return one page of rows in the requested order."""
    rows = items_wanted(user, query).select_related("topic")
    rows = rows.defer("content", "topic__summary")
    rows = rows.annotate(beginning=Left("content", BEGINNING))
    by, falling, _words = SORTS[choice_param(query, "sort", SORTS, "newest")]
    found = page_of(rows, by=by, falling=falling, cursor=cursor, size=PAGE)
    return Page(_rows(user, found.rows), found.next_cursor)


def _together(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a page's rows with those of one source below each other, in the order of their first ones."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["source"].words, []).append(row)
    return [row for group in groups.values() for row in group]


def count_items(user: User, query: Query) -> int:
    """Return how many items there are, at most one more than the limit."""
    return items_wanted(user, query).order_by()[: MAX_COUNTED + 1].count()


def _rows(user: User, items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the items with where they come from and who sees them. A tag has the query that selects it."""
    named = origins.of(user, [text for item in items for text in (item.source, item.scope)])
    used = Counter(tag for item in items for tag in item.tags)
    usual = {tag for tag, count in used.items() if count > max(10, len(items) // 2)}
    return [
        {
            "item": item,
            "title": title_of(item),
            "first_line": _preview_of(item),
            "source": _source_of(item, named),
            "scope": named.get(item.scope) or origins.Origin(item.scope, item.scope),
            "site": (site := domain_of(item.url or "")),
            "tags": [
                (tag, urlencode({"tag": tag}))
                for tag in item.tags
                if tag not in usual and tag != site
            ],
        }
        for item in items
    ]


def _preview_of(item: Any) -> str:
    """Return an item's first words, unless they say nothing to a reader or could mislead one."""
    is_data = item.beginning.lstrip().startswith(("{", "["))
    if not item.title or is_data or item.trust == "quarantined":
        return ""
    return in_brief(item.beginning, 160).removeprefix(item.title).lstrip(" ·")


def _source_of(item: Any, named: Mapping[str, origins.Origin]) -> origins.Origin:
    """Return where an item came from; for a tool call's (R241: “user”), who made the call."""
    by_agent = item.source == "user" and item.scope.startswith("agent:")
    return named.get(item.scope if by_agent else item.source) or origins.Origin(
        item.source, item.source
    )


def title_of(item: Any) -> str:
    """Return an item's title, else its first words, else where it came from."""
    words = item.title or shorten(getattr(item, "beginning", "") or "", 120)
    return words or item.url or item.action or _("empty")


def scopes_of(user: User) -> list[tuple[str, str]]:
    """Return the scopes that have items, with their labels, the owner's first."""
    used = ContentItem.objects.for_user(user).live().order_by("scope")
    names = used.values_list("scope", flat=True).distinct()[:MAX_SCOPES]
    return scope_labels(user, names)


def facets_of(user: User, query: Query) -> list[Facet]:
    """Return what the list can be filtered by; chosen values are always listed: three queries."""
    rows = ContentItem.objects.for_user(user).live().order_by()
    pairs = rows.values_list("scope", "source").distinct()[:MAX_SCOPES]
    scopes = {scope for scope, _source in pairs} | {_one_line_param(query, "scope")}
    sources = {source for _scope, source in pairs} | {_one_line_param(query, "source")}
    each_tag = Func(F("tags"), function="unnest", output_field=TextField())
    tags = set(rows.annotate(tag=each_tag).values_list("tag", flat=True).distinct()[:MAX_SCOPES])
    tags |= {_one_line_param(query, "tag")}
    words = dict(scope_labels(user, scopes | sources))
    return [
        Facet("type", _("Type"), [Choice(*choice) for choice in ContentItem.Type.choices]),
        Facet("scope", _("Scope"), [Choice(one, words[one]) for one in _listed(scopes)]),
        Facet("source", _("Source"), [Choice(one, words[one]) for one in _listed(sources)]),
        Facet("tag", _("Tag"), [Choice(one, one) for one in _listed(tags)]),
        day_facet(),
    ]


def _listed(values: set[str]) -> list[str]:
    """Return the values in order, the owner's scope first, without the empty one."""
    return sorted(values - {""}, key=lambda value: (value != "owner", value))


def scope_labels(user: User, names: Iterable[str]) -> list[tuple[str, str]]:
    origin_of = origins.of(user, names)
    rows = [(name, origin_of[name].words if name in origin_of else name) for name in names if name]
    return sorted(rows, key=lambda row: (row[0] != "owner", row[0]))


# --- bulk actions ---

AT_ONCE = 1_000  # items moved in one request; the rest are left for the next one


def trash_ticked(user: User, keys: Sequence[UUID], *, by: Actor, at: datetime) -> int:
    """Move these items to Trash and return how many.  Raises InvalidValue if there are none."""
    if not keys:
        raise InvalidValue(_("Nothing was moved. Select at least one item."))
    rows = ContentItem.objects.for_user(user).live().filter(pk__in=keys[:AT_ONCE])
    return change_all(rows, {"trashed_at": at}, by=by, why=_("moved to Trash in bulk"))


def trash_matching(user: User, query: Query, *, by: Actor, at: datetime) -> tuple[int, int]:
    """Move the matching items to Trash, at most the newest 1,000; return how many, and are left."""
    found = items_wanted(user, query).order_by("-created", "-pk").values_list("pk", flat=True)
    keys = list(found[: AT_ONCE + 1])
    number = trash_ticked(user, keys, by=by, at=at) if keys else 0
    return number, found.count() if len(keys) > AT_ONCE else 0


def restore_state(user: User, at: datetime, *, by: Actor) -> int:
    """Restore what was moved to Trash at exactly this time, and return the number of items."""
    rows = ContentItem.objects.for_user(user).filter(trashed_at=at)
    return change_all(rows, {"trashed_at": None}, by=by, why=_("restored from Trash"))


# --- one item ---

SHOWN = 200_000  # characters of a view on the page; the file has all of them
MAX_CHARACTERS_COUNTED = 1_000_000  # characters up to which a page counts tokens
FEW_CHANGES, FEW_USES, FEW_NEIGHBOURS, FEW_SNAPSHOTS = 5, 8, 20, 10


VIEWS = {  # what the page calls the transforms
    "full": gettext_lazy("Full text"),
    "excerpt": gettext_lazy("Excerpt"),
    "summary": gettext_lazy("Summary"),
    "first_n": gettext_lazy("Beginning"),
    "last_n": gettext_lazy("End"),
    "filtered": gettext_lazy("Matching lines"),
}


def shown_of(item: ContentItem, query: Any) -> dict[str, Any]:
    """Return the requested view; on an error, the reason, its `field`, and what was typed.

    A field that the view doesn't use is ignored, because the form always has all fields.
    """
    name, unit = query.get("transform", "") or "full", query.get("unit", "") or CHARACTERS
    n, q = query.get("n", "").strip()[:20], clean(query.get("q", ""))[0].strip()
    shown = {"name": name, "n": n, "unit": unit, "q": q}
    chosen = TRANSFORMS.get(name)
    used = {
        "n": _number(n) if chosen and chosen.takes_n else None,
        "q": q if chosen and chosen.takes_q else "",
    }
    try:
        view = transform(item.content, name, unit=unit, **used)
    except InvalidValue as exc:
        field = next(iter(exc.errors), "")
        problem = str(exc)  # by the names that the page gives the fields
        if field == "n":
            problem = _("“%(name)s” must be a whole number from 1 to %(most)s, not “%(value)s”.")
            problem %= {"name": _("Length"), "most": grouped(MAX_BYTES), "value": n}
        elif field == "q" and not q:
            problem = _("Enter the words to find.")
        return {**shown, "problem": problem, "field": field}
    is_cut = len(view.text) > SHOWN
    return {**shown, "view": view, "text": view.text[:SHOWN], "is_cut": is_cut}


def _number(typed: str) -> Any:
    """Return the typed number; an invalid one is passed on and gets an error message."""
    if not typed:
        return None
    return int(typed) if typed.isascii() and typed.lstrip("-").isdecimal() else typed


def content_page(item: Any) -> dict[str, Any]:
    """Return the page of `item`, whose owner is loaded.

    `names` are the items that this one lists as related, and `named_by` those that list this one.
    """
    changes = record_history.history_of(item, size=FEW_CHANGES).rows
    first = _first_of(item, changes)
    uses = list(
        Use.objects.for_user(item.owner)
        .filter(record_id=item.pk)
        .order_by("-used_at", "-id")[: FEW_USES + 100]
    )
    run, _slash, step = item.run_step.partition("/")
    actor = first.actor if first else ""
    places = origins.of(
        item.owner, [item.source, item.scope, actor, run, *(use.place for use in uses)]
    )
    return {
        "record": item,  # by the name that all records' templates use
        "type": item.record_type(),  # for the URLs of actions
        "trust_means": str(TRUST_MEANS[Trust(item.trust)]),
        "lock_means": str(LOCK_MEANS[item.lock]),
        "quarantine_reason": reason_of(item),
        "item": item,
        "size": _size_of(item),
        "compact": compact_form(item, agent=None),
        "citation": citation_line(item),
        "origin": places.get(item.source) or origins.Origin(item.source, item.source),
        "scope": places.get(item.scope) or origins.Origin(item.scope, item.scope),
        "writer": places[actor].words if actor in places else "",
        "run_step": _run_step(places.get(run), step),
        "kept": _retention_label(item),
        "changes": changes,
        "uses": [(places[use.place], use.used_at) for use in uses[:FEW_USES]],
        "more_uses": max(0, len(uses) - FEW_USES),
        "used_in": [usage for told in USED_IN for usage in told(item)],
        "names": _neighbours(item.related_to),
        "named_by": _neighbours(ContentItem.objects.for_user(item.owner).filter(related_to=item)),
        "snapshots": _snapshots_of(item),
    }


def _first_of(item: Any, changes: list[Change]) -> Revision | None:
    if len(changes) < FEW_CHANGES:
        return changes[-1].revision if changes else None
    first: Revision | None = record_history.revisions_of(item).last()
    return first


def _size_of(item: Any) -> Size:
    """Return the item's size; for a very large one the tokens are estimated."""
    if item.size <= MAX_CHARACTERS_COUNTED:
        return counted(item.content)
    size = len(item.content.encode())
    return Size(size, -(-size // 4))


def _run_step(run: origins.Origin | None, step: str) -> origins.Origin | None:
    if run is None:
        return None
    number = step.partition(":")[2]
    words = _("%(run)s, step %(step)s") % {"run": run.words, "step": number}
    return origins.Origin(run.text, words if number else run.words, run.url)


def _retention_label(item: Any) -> str:
    """Return how long the item is kept, in words."""
    days = settings.BEACON_CONTENT_DAYS
    end = item.created + timedelta(days=days, seconds=1)
    if not days or not due(end).filter(pk=item.pk).exists():
        return _("until deleted")
    left = max(0, (end - timezone.now()).days)
    words = ngettext(
        "for %(n)d more day, then moved to Trash",
        "for %(n)d more days, then moved to Trash",
        left,
    )
    return words % {"n": left} if left else _("until maintenance moves it to Trash later today")


def _neighbours(items: Any) -> list[Any]:
    rows = items.filter(trashed_at=None).defer("content").order_by("-created", "-pk")
    return list(rows[:FEW_NEIGHBOURS])


def _snapshots_of(item: Any) -> list[Any]:
    held = SnapshotItem.objects.filter(
        item_id=item.pk, snapshot__owner=item.owner, snapshot__trashed_at=None
    )
    rows = held.select_related("snapshot").defer("content").order_by("-snapshot__created")
    return [row.snapshot for row in rows[:FEW_SNAPSHOTS]]


def choices_of(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices in the view's form."""
    return {
        "transforms": [(name, VIEWS.get(name, name), name == shown["name"]) for name in TRANSFORMS],
        "units": [
            (unit, unit == shown["unit"], _("lines") if unit == LINES else _("characters"))
            for unit in UNITS
        ],
    }


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def content_list_page(request: BeaconRequest) -> HttpResponse:
    """List the matching items, newest first; over htmx only the list."""
    facets = facets_of(request.user, request.GET)
    query = filter_bar.read(request.GET, facets)
    page = listed(request.user, query, cursor=request.GET.get("cursor", ""))
    number = count_items(request.user, query)
    bar = FilterBar(
        reverse("memory:content"), "content", query,
        label=_("Search titles and URLs"), placeholder=_("Search titles and URLs"),
        facets=facets,
        sorts={name: words for name, (_by, _falling, words) in SORTS.items()},
        count=_counted(number), views_page="content",
    )  # fmt: skip
    by_source = bar.sort != "largest" and not query.get("source")
    context: dict[str, Any] = {
        "scope": _one_line_param(query, "scope"),
        "bar": saved_views.with_views(request.user, bar),
        "rows": _together(page.rows) if by_source else page.rows,
        "next_cursor": page.next_cursor,
        "number": min(number, MAX_COUNTED),
        "is_more": number > MAX_COUNTED,
        "here": request.get_full_path(),
        "by_source": by_source,
    }
    over_htmx = request.htmx and request.htmx.target == "content"
    return render(request, f"memory/{'_content' if over_htmx else 'content'}.html", context)


def _counted(number: int) -> str:
    most = MAX_COUNTED
    if number > most:
        return _("more than %(n)s items") % {"n": grouped(most)}
    return ngettext("%(count)s item", "%(count)s items", number) % {"count": grouped(number)}


def _item(request: BeaconRequest, pk: UUID) -> Any:
    """Return the person's own item, also from Trash; 404 for another's."""
    return get_owned_or_404(
        request, ContentItem.objects.for_user(request.user).select_related("topic"), pk
    )


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def content_item(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one item in a view; over htmx only the view."""
    item = _item(request, pk)
    shown = shown_of(item, request.GET)
    context: dict[str, Any] = {"item": item, "shown": shown, **choices_of(shown)}
    if request.htmx and request.htmx.target == "content_view":
        return render(request, "memory/_content_view.html", context)
    context |= {"page": content_page(item), "record": item}
    return render(request, "memory/content_item.html", context)


@signed_in("GET", "HEAD")
def content_raw(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Send a whole item as a text file that no browser would execute."""
    item = _item(request, pk)
    answer = HttpResponse(item.content, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="content-{item.pk}.txt"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


@signed_in("POST")
def content_sensitivity(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Mark an item sensitive, or remove the mark, with an Undo in the toast."""
    item = _item(request, pk)
    wanted = Sensitivity.SENSITIVE if request.POST.get("mark") else Sensitivity.NORMAL
    message = _(
        "Marked as sensitive. Agents can’t see it, and it’s never sent to outside services."
    )
    if wanted == Sensitivity.NORMAL:
        message = _("No longer sensitive. Agents with access to its scope can read it.")
    before = item.version
    item.change(by=request.actor, sensitivity=wanted)
    row = (
        Revision.objects.for_user(request.user)
        .filter(record_id=item.pk, version=item.version)
        .first()
    )
    if item.version > before and row is not None:
        messages.success(request, message, extra_tags=offer(request, "revision", key=row.pk))
    return redirect_back(request, item.get_absolute_url())


@signed_in("POST")
def content_bulk(request: BeaconRequest) -> HttpResponse:
    """Move the selected items, or all that match, to Trash; the list keeps its filters."""
    back = reverse("memory:content") + (f"?{request.GET.urlencode()}" if request.GET else "")
    at, left = timezone.now(), 0
    try:
        if request.POST.get("all"):
            number, left = trash_matching(request.user, request.GET, by=request.actor, at=at)
        else:
            keys = uuids_of(request.POST.getlist("record"))
            number = trash_ticked(request.user, keys, by=request.actor, at=at)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
        return redirect_to(request, back)
    _say_moved(request, number, at, left)
    return redirect_to(request, back)


def _say_moved(request: BeaconRequest, number: int, at: datetime, left: int = 0) -> None:
    words = ngettext(
        "%(n)s item moved to Trash for 30 days.",
        "%(n)s items moved to Trash for 30 days.",
        number,
    ) % {"n": grouped(number)}
    if left:
        more = ngettext(
            "%(n)s more item matches. Repeat the action to move it, too.",
            "%(n)s more items match. Repeat the action to move them, too.",
            left,
        )
        words += " " + more % {"n": grouped(left)}
    if number:
        undo = offer(request, "content-trashed", at=at.isoformat())
        messages.success(request, words, extra_tags=undo)
    else:
        messages.info(request, _("Nothing was moved because these items no longer exist."))


@signed_in("POST")
def content_clear(request: BeaconRequest) -> HttpResponse:
    """Move everything in one scope to Trash."""
    at = timezone.now()
    number = clear(request.user, request.POST.get("scope", ""), by=request.actor, at=at)
    _say_moved(request, number, at)
    return redirect_back(request, reverse("memory:content"))


@undoes("content-trashed")
def _restore(request: BeaconRequest, at: str) -> str:
    """Restore what one action moved to Trash."""
    number = restore_state(request.user, exact_moment(at), by=request.actor)
    if not number:
        raise MemoryRefused(
            _("These items have changed since then, so your change couldn’t be undone.")
        )
    words = ngettext("%(n)s item restored.", "%(n)s items restored.", number)
    messages.success(request, words % {"n": grouped(number)})
    return reverse("memory:content")
