"""The names in memory: a list of them, everything about one, and merging two names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.vary import vary_on_headers

from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in
from memory.models.errors import InvalidValue
from memory.pages.recall import MemoryRow, rows_of
from memory.pages.records.listing import day_of
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import FilterBar
from memory.pages.shared.undo import offer, undoes
from memory.services.search import names
from memory.services.search.about import About, about
from memory.services.search.kinds import KINDS

MAX_SHOWN = 200  # names of the list
MAX_MONTHS = 12
MAX_UNFOLDED = 5  # rows of a run or writer
TYPES: dict[str, str | Promise] = {
    "note": gettext_lazy("Notes"),
    "observation": gettext_lazy("Observations"),
    "fact": gettext_lazy("Facts"),
    "section": gettext_lazy("Files"),
    "report": gettext_lazy("Reports"),
}


def about_url(name: str, **more: str) -> str:
    return f"{reverse('memory:about')}?{urlencode({'name': name, **more})}"


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def name_list(request: BeaconRequest) -> HttpResponse:
    """List the most frequent names."""
    bar = FilterBar(
        reverse("memory:names"), "names", filter_bar.read(request.GET, []),
        label=_("Find a name"), placeholder=_("Find a name"), most=100,
    )  # fmt: skip
    text = bar.words
    found = names.frequent(request.user, text=text, limit=MAX_SHOWN + 1)
    context = {
        "names": found[:MAX_SHOWN],
        "has_more": len(found) > MAX_SHOWN,
        "most": MAX_SHOWN,
        "asked": text,
        "bar": bar,
    }
    is_part = request.htmx and request.htmx.target == "names"
    return render(request, "memory/_names.html" if is_part else "memory/names.html", context)


@signed_in("GET", "HEAD")
@at_a_date
def about_page(request: BeaconRequest) -> HttpResponse:
    """Show everything about a name, by type, month and name beside it."""
    name, wanted = request.GET.get("name", ""), request.GET.get("type", "")
    types = [wanted] if wanted in KINDS else []
    cursor = request.GET.get("cursor", "")
    most_facts = 0 if types or cursor else MAX_UNFOLDED  # the page starts with them
    try:
        found = about(request.user, name, types=types, cursor=cursor, facts=most_facts)
    except InvalidValue:
        return redirect("memory:names")
    most = max((number for _month, number in found.months), default=1)
    months = [
        (day, number, max(1, round(100 * number / most)))  # the bar's width in percent
        for day, number in found.months[::-1][:MAX_MONTHS]
    ]
    above = {fact.id for fact in found.facts}
    shown = [*found.facts, *(one for one in found.records if one.id not in above)]
    rows = rows_of(request.user, [(one.type, one.record) for one in shown], " ".join(found.names))
    facts, others = rows[: len(found.facts)], rows[len(found.facts) :]
    context = {
        "found": found,
        "facts": facts,
        "all_facts_url": about_url(name, type="fact")
        if len(facts) < found.counts.get("fact", 0)
        else "",
        "since": found.months[0][0] if found.months else None,
        "name": found.names[0],
        "aliases": found.names[1:],
        "tabs": _tabs(found, types),
        "type": types[0] if types else "",
        "groups": _by_writer(others),
        "months": months,
        "earlier": sum(number for _day, number in found.months)
        - sum(number for _day, number, _width in months),
        "beside": [(name, about_url(name), number) for name, _key, number in found.related_names],
        "here": request.get_full_path(),
    }
    return render(request, "memory/about.html", context)


def _by_writer(rows: Iterable[MemoryRow]) -> list[dict[str, Any]]:
    """Return one group for each day and run or writer, the newest first. All but a few rows of each are folded."""
    found: dict[tuple[str, str], list[MemoryRow]] = {}
    for row in rows:
        found.setdefault((day_of(row.at), row.who), []).append(row)
    # One row isn't folded: it needs no more space than the words that say so.
    return [
        {"day": day, "who": who, "rows": some[:most], "more": some[most:]}
        for (day, who), some in found.items()
        for most in [MAX_UNFOLDED if len(some) > MAX_UNFOLDED + 1 else len(some)]
    ]


def _tabs(found: About, types: Sequence[str]) -> list[tuple[str, int, str, bool]]:
    """Return each type's label, number of records and URL, and whether it's selected."""
    name = found.names[0]
    tabs = [(_("All"), found.total, about_url(name), not types)]
    for type, number in found.counts.items():
        label = str(TYPES.get(type, type))
        tabs.append((label, number, about_url(name, type=type), type in types))
    return tabs


# --- merging and splitting ---


@signed_in("POST")
def merge(request: BeaconRequest) -> HttpResponse:
    name, into = request.POST.get("name", ""), request.POST.get("into", "")
    target, was, now = names.merge(request.user, name, into, by=request.actor)
    undo = offer(request, "names-merged", was=was, now=now, name=into)
    message = _("“%(name)s” was merged into “%(target)s”.") % {"name": name, "target": target}
    messages.success(request, message, extra_tags=undo)
    return redirect_back(request, about_url(target))


@signed_in("POST")
def split(request: BeaconRequest) -> HttpResponse:
    """Split off a merged name."""
    name = request.POST.get("name", "")
    was, now = names.split(request.user, name, by=request.actor)
    undo = offer(request, "names-merged", was=was, now=now, name=name)
    messages.success(
        request, _("“%(name)s” is no longer merged.") % {"name": name}, extra_tags=undo
    )
    return redirect_back(request, about_url(name))


@undoes("names-merged")
def _undo_merge(request: BeaconRequest, was: Any, now: Any, name: str) -> str:
    names.undo_change(request.user, was, now, by=request.actor)
    undo = offer(request, "names-merged", was=now, now=was, name=name)
    messages.success(request, _("Undone. The names were restored."), extra_tags=undo)
    return about_url(name)
