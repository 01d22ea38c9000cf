"""One act on many records of a list: asked for, shown while it goes on, and taken back."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from beacon_site.broker import send
from beacon_site.http import BeaconRequest, page_of_ours
from memory.errors import MemoryRefused
from memory.models import BulkAct
from memory.records import bulk_acts, bulk_words
from memory.records.list_query import NOTES, PAGES

LEAST_MERGED, MOST_MERGED = 2, 20
IN_REQUEST_SECONDS = 10.0


@login_required
@require_POST
def records_bulk(request: BeaconRequest, page: str) -> HttpResponse:
    """Do one act on the ticked records, or on all that match; the list keeps its filters."""
    if page not in PAGES:
        raise Http404
    query = request.GET.urlencode()
    back = reverse(f"memory:{page}") + (f"?{query}" if query else "")
    ids = _ticked(request)
    act = request.POST.get("act", "")
    if act == "merge":
        return _merge(request, page, ids, back)
    try:
        asked = bulk_acts.ask(
            request.user,
            page,
            act,
            ids=ids,
            query=query if request.POST.get("all") else None,
            arguments={name: request.POST.get(name, "") for name in ("tag", "lock", "category")},
        )
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        _begin(request, asked)
    return _gone_back(request, back)


@login_required
@require_POST
def bulk_undo(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Take an act on many records back: those that nobody changed since are as they were."""
    act = get_object_or_404(BulkAct.objects.of(request.user), pk=pk)
    try:
        _begin(request, bulk_acts.ask_undo(act))
    except MemoryRefused as exc:
        messages.info(request, str(exc))
    return _gone_back(request, reverse(f"memory:{act.page}"))


@login_required
@require_safe
def bulk_progress(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show how far an act on many records is; the list asks every two seconds."""
    act = get_object_or_404(BulkAct.objects.of(request.user), pk=pk)
    if not request.htmx:
        return redirect(f"memory:{act.page}")
    context = {"act": act, "doing": bulk_words.doing(act.act), "outcome": bulk_words.outcome(act)}
    return render(request, "memory/_bulk_act.html", context)


def _ticked(request: BeaconRequest) -> list[str]:
    """Return the keys that were ticked, those left out that are none."""
    found = []
    for key in request.POST.getlist("record"):
        try:
            found.append(str(UUID(key)))
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def _merge(request: BeaconRequest, page: str, ids: list[str], back: str) -> HttpResponse:
    """Go to the page on which the ticked notes are merged."""
    if page != NOTES.page or not LEAST_MERGED <= len(ids) <= MOST_MERGED:
        words = _("To merge, tick %(least)d to %(most)d notes; %(have)d are ticked.")
        numbers = {"least": LEAST_MERGED, "most": MOST_MERGED, "have": len(ids)}
        messages.warning(request, words % numbers)
        return _gone_back(request, back)
    return redirect(f"{reverse('memory:notes-merge')}?{urlencode({'ids': ids}, doseq=True)}")


def _begin(request: BeaconRequest, act: BulkAct) -> None:
    """Carry a small act out at once; a large one is a task's, and its row is found by the tick."""
    if bulk_acts.is_large(act):
        transaction.on_commit(lambda: nudge(act))
        messages.info(request, _("That is for a worker: this page shows how far it is."))
        return
    done = bulk_acts.carry_out(act.pk, seconds=IN_REQUEST_SECONDS)
    if done is None or done.state in bulk_acts.UNFINISHED:
        return  # it goes on without the request
    undo = bool(done.done) and done.act != bulk_words.UNDO
    tags = "undo:" + reverse("memory:bulk-undo", args=[done.pk]) if undo else ""
    level = messages.SUCCESS if done.done else messages.WARNING
    messages.add_message(request, level, bulk_words.outcome(done), extra_tags=tags)


def nudge(act: BulkAct) -> Any:
    """Tell a worker that the act waits; the tick does so if this fails."""
    return send("memory.tasks.carry_out_bulk_act", str(act.pk), queue="maintenance")


def _gone_back(request: BeaconRequest, default: str) -> HttpResponse:
    return redirect(page_of_ours(request.POST.get("next", ""), default))
