"""The lists of notes and observations, and the edit in a row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue, Locked, StaleWrite
from memory.forms.record_inline import InlineForm
from memory.models import BulkAct, Observation
from memory.models.base import Lock
from memory.notes.writing import edit_note
from memory.observations import edit_observation
from memory.records import bulk_acts, bulk_words, saved_views
from memory.records import facets as record_facets
from memory.records import list as record_list
from memory.records.list_query import BEST, BY_TYPE, NOTES, OBSERVATIONS, SORTS, Listed, ListQuery
from memory.records.words import row_words, title_of, words_of
from memory.responses import undo_tag

JUST = timedelta(minutes=2)  # so long a large act that is done is still told of


@login_required
@require_safe
@vary_on_headers("HX-Request")
def notes(request: BeaconRequest) -> HttpResponse:
    """Show the person's notes; over htmx the list alone."""
    return _list(request, NOTES)


@login_required
@require_safe
@vary_on_headers("HX-Request")
def observations(request: BeaconRequest) -> HttpResponse:
    """Show the person's observations; over htmx the list alone."""
    return _list(request, OBSERVATIONS)


def _list(request: BeaconRequest, listed: Listed) -> HttpResponse:
    wanted = ListQuery.of(listed, request.GET)
    page = record_list.page_wanted(request.user, wanted, cursor=request.GET.get("cursor", ""))
    total = record_list.counted(record_list.records_wanted(request.user, wanted))
    context = {
        "listed": listed,
        "wanted": wanted,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "title": title_of(listed),
        "words": words_of(listed, total, record_list.MOST_COUNTED),
        "say": row_words(),
        "list_url": reverse(f"memory:{listed.page}"),
        "here": request.get_full_path(),
        "problems": wanted.question.problems,
        "sorts": _sorts(wanted),
        "chips": record_facets.chips_of(wanted),
        "facets": record_facets.facets_of(request.user, wanted),
        "views": saved_views.views_of(request.user, listed.page, wanted.query),
        "acts": _large_acts(request, listed),
        "categories": Observation.Category.choices if listed is OBSERVATIONS else (),
        "locks": [choice for choice in Lock.choices if choice[0] != Lock.OPEN],
    }
    template = "memory/_records.html" if request.htmx else "memory/records.html"
    return render(request, template, context)


def _sorts(wanted: ListQuery) -> list[tuple[str, Any, bool]]:
    """Return the orders that make sense here: value, words, whether it is this one."""
    names = list(wanted.listed.sorts)
    if wanted.question.words and not wanted.is_trash:
        names.insert(0, BEST)
    return [(name, SORTS[name][2], name == wanted.sort) for name in names]


def _large_acts(request: BeaconRequest, listed: Listed) -> list[dict[str, Any]]:
    """Return the acts on this list that a task does, and those it has just done: one query."""
    lately = Q(finished_at__gt=timezone.now() - JUST, total__gt=bulk_acts.AT_ONCE)
    acts = BulkAct.objects.of(request.user).filter(page=listed.page)
    acts = acts.filter(lately | Q(state__in=bulk_acts.UNFINISHED))
    return [
        {"act": act, "doing": bulk_words.doing(act.act), "outcome": bulk_words.outcome(act)}
        for act in acts[:5]
    ]


@login_required
@require_http_methods(["GET", "POST"])
def record_inline(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Show a row as a form, and save it; what another wrote meanwhile is told, the text kept."""
    listed = BY_TYPE.get(type)
    if listed is None:
        raise Http404
    model: Any = listed.model
    record = get_object_or_404(model.objects.of(request.user).live(), pk=pk)
    if request.GET.get("cancel"):
        return _row(request, listed, pk)
    first = {
        "content": record.content, "tags": ", ".join(record.tags), "version": record.version
    }  # fmt: skip
    form = InlineForm(request.POST if request.method == "POST" else None, initial=first)
    context: dict[str, Any] = {
        "listed": listed,
        "record": record,
        "form": form,
        "title": title_of(listed),
        "cancel_url": reverse(f"memory:{listed.page}"),
        "edit_url": reverse(f"memory:{listed.type}-edit", args=[pk]),
    }
    if request.method == "POST" and form.is_valid():
        try:
            _save(listed, record, form.cleaned_data, request)
        except InvalidValue as exc:
            for field, errors in (exc.errors or {"content": [str(exc)]}).items():
                form.add_error(field if field in form.fields else None, errors)
        except StaleWrite:
            context |= _conflict(request, listed, form, pk)
        except Locked as exc:
            form.add_error(None, str(exc))
        else:
            said = _("Saved; what stood there before is in its history.")
            messages.success(request, said, extra_tags=undo_tag(record))
            if request.htmx:
                return _row(request, listed, pk)
            return redirect(f"memory:{listed.page}")
    template = "memory/_record_row_form.html" if request.htmx else "memory/record_inline.html"
    return render(request, template, context)


def _save(listed: Listed, record: Any, data: dict[str, Any], request: BeaconRequest) -> None:
    save: Any = edit_note if listed is NOTES else edit_observation
    save(
        record,
        by=request.actor,
        expected_version=data["version"],
        content=data["content"],
        tags=data["tags"],
    )


def _conflict(request: BeaconRequest, listed: Listed, form: InlineForm, pk: UUID) -> dict[str, Any]:
    """Keep what was typed, show what stands there now, and let the next save be based on it."""
    model: Any = listed.model
    theirs = get_object_or_404(model.objects.of(request.user).live(), pk=pk)
    kept = request.POST.copy()
    kept["version"] = str(theirs.version)
    form.data = kept
    return {"record": theirs, "theirs": theirs}


def _row(request: BeaconRequest, listed: Listed, pk: UUID) -> HttpResponse:
    row = record_list.row_of(request.user, listed, pk)
    list_url = reverse(f"memory:{listed.page}")
    words = row_words()
    context = {"row": row, "listed": listed, "list_url": list_url, "say": words, "alone": True}
    return render(request, "memory/_record_row.html", context)
