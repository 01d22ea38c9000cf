"""The quarantine: what is set aside, why, and its release or its way to the trash."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.responses import go_back
from memory.reviewing import quarantine as aside

MOST_TOLD = 3


@require_safe
@login_required
def quarantine(request: BeaconRequest) -> HttpResponse:
    """Show all that is in quarantine, the latest first, each with its reason."""
    found = aside.page(request.user, cursor=request.GET.get("cursor", ""))
    context = {
        "rows": found.rows,
        "next_cursor": found.next_cursor,
        "here": request.get_full_path(),
    }
    return render(request, "memory/quarantine.html", context)


@require_POST
@login_required
def quarantine_act(request: BeaconRequest) -> HttpResponse:
    """Release what is ticked, or all, or move it to the trash; Undo puts it back."""
    name = request.POST.get("act", "")
    if request.POST.get("all"):
        records = aside.everything(request.user)
    else:
        records = aside.chosen(request.user, request.POST.getlist("record"))
    if name not in aside.ACTS or not records:
        messages.warning(request, _("Tick first what you mean; it may be released already."))
        return go_back(request, reverse("memory:quarantine"))
    done = aside.act(request.user, records, name, by=request.actor)
    if name == "release":
        words = ngettext("%(n)d record released.", "%(n)d records released.", done.number)
    else:
        words = ngettext(
            "%(n)d record moved to the trash.", "%(n)d records moved to the trash.", done.number
        )
    if done.number:
        messages.success(request, words % {"n": done.number}, extra_tags=_undo(done))
    _say_left(request, done)
    if done.problems:
        why = " ".join(done.problems[:MOST_TOLD])
        messages.warning(request, _("Left as it is: %(why)s") % {"why": why})
    return go_back(request, reverse("memory:quarantine"))


def _undo(done: aside.Done) -> str:
    return f"undo:{reverse('memory:quarantine-undo')}?{urlencode({'key': str(done.key)})}"


def _say_left(request: BeaconRequest, done: aside.Done) -> None:
    if done.left:
        words = ngettext("%(n)d is left: press again.", "%(n)d are left: press again.", done.left)
        messages.warning(request, words % {"n": done.left})


@require_POST
@login_required
def quarantine_undo(request: BeaconRequest) -> HttpResponse:
    """Put back into quarantine what one act released or threw away."""
    try:
        key = UUID(request.GET.get("key", ""))
    except ValueError:
        key = None
    done = aside.take_back(request.user, key, by=request.actor) if key else None
    if done is not None and done.number:
        words = ngettext("It is back in quarantine.", "%(n)d are back in quarantine.", done.number)
        messages.success(
            request, words % {"n": done.number}, extra_tags=_undo(done) * bool(done.left)
        )
        _say_left(request, done)
    else:
        messages.info(request, _("There is nothing to put back: it was changed meanwhile."))
    return go_back(request, reverse("memory:quarantine"))
