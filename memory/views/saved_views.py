"""Saving the address of a list under a name, and taking such a view away."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest, page_of_ours
from memory.errors import MemoryRefused
from memory.models import SavedView
from memory.records import saved_views

_UNDO = "undo_view"  # in the session: the view that was deleted last


@login_required
@require_POST
def views_save(request: BeaconRequest) -> HttpResponse:
    """Save the list's address under the name that was typed."""
    page, name = request.POST.get("page", ""), request.POST.get("name", "")
    try:
        view = saved_views.save_view(request.user, page, name, request.POST.get("query", ""))
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        words = _("“%(name)s” is saved as a view of this list.") % {"name": view}
        undo = "undo:" + reverse("memory:view-delete", args=[view.pk])
        messages.success(request, words, extra_tags=undo)
    return _gone_back(request)


@login_required
@require_POST
def view_delete(request: BeaconRequest, pk: int) -> HttpResponse:
    """Delete a saved view; the records that it shows stay."""
    view = get_object_or_404(SavedView.objects.of(request.user), pk=pk)
    request.session[_UNDO] = {"page": view.page, "name": view.name, "query": view.query}
    view.delete()
    words = _("The view “%(name)s” is gone; what it showed stays.") % {"name": view.name}
    messages.success(request, words, extra_tags="undo:" + reverse("memory:views-undo"))
    return _gone_back(request)


@login_required
@require_POST
def views_undo(request: BeaconRequest) -> HttpResponse:
    """Bring the view back that was deleted last."""
    last = request.session.pop(_UNDO, None)
    if last is None:
        messages.info(request, _("There is nothing left to take back."))
        return _gone_back(request)
    try:
        saved_views.save_view(request.user, last["page"], last["name"], last["query"])
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        messages.success(request, _("The view “%(name)s” is back.") % {"name": last["name"]})
    return _gone_back(request)


def _gone_back(request: BeaconRequest) -> HttpResponse:
    return redirect(page_of_ours(request.POST.get("next", ""), reverse("memory:notes")))
