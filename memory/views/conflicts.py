"""The conflict desk: what says almost the same, or does not go together, settled side by side."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.conflicts import finding as conflict_finding
from memory.conflicts import page as conflict_page
from memory.conflicts import resolve
from memory.conflicts import undo as conflict_undo
from memory.errors import MemoryRefused
from memory.models import Conflict
from memory.responses import go_back, go_to, next_of
from memory.texts.days import moment_of

SAID = {
    "left": gettext_lazy("Kept the left one; the other was put away."),
    "right": gettext_lazy("Kept the right one; the other was put away."),
    "both": gettext_lazy("Kept both."),
    "merged": gettext_lazy("Merged into one."),
}


@require_safe
@login_required
@vary_on_headers("HX-Request")
def conflicts(request: BeaconRequest) -> HttpResponse:
    """Show the pairs that wait, contradictions first, or those that were settled."""
    wanted = conflict_page.Wanted.of(request.GET)
    context = {
        "desk": conflict_page.desk(request.user, wanted),
        "wanted": wanted,
        "kinds": conflict_page.KINDS,
        "states": conflict_page.STATES,
        "here": request.get_full_path(),
    }
    over_htmx = request.htmx and request.htmx.target == "conflicts"
    return render(request, f"memory/{'_conflicts' if over_htmx else 'conflicts'}.html", context)


def _conflict(request: BeaconRequest, pk: UUID) -> Conflict:
    found: Conflict = get_object_or_404(Conflict.objects.of(request.user), pk=pk)
    found.owner = request.user
    return found


@require_safe
@login_required
def conflict(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one pair whole, with what a person can do with it."""
    return _page(request, _conflict(request, pk), is_open="merge" in request.GET)


def _page(request: BeaconRequest, found: Conflict, **more: Any) -> HttpResponse:
    row = conflict_page.whole(request.user, found)
    standing = Conflict.objects.of(request.user).standing().filter(pk=found.pk)
    context = {
        "row": row,
        "conflict": found,
        "is_standing": found.is_open and standing.exists(),
        "text": row.merged_text,
        "next": next_of(request),
        **more,
    }
    return render(request, "memory/conflict.html", context)


@require_POST
@login_required
def conflict_settle(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Settle a pair as the person saw it; one that changed since is shown again, with what they typed."""
    found = _conflict(request, pk)
    how = request.POST.get("how", "")
    text = request.POST.get("text", "").replace("\r\n", "\n")
    typed = {"text": text, "is_open": True} if how == "merged" else {}
    try:
        done = resolve.settle(
            found, how, by=request.actor, seen=_seen(request), text=text,
            dated=bool(request.POST.get("dated")),
        )  # fmt: skip
    except resolve.AlreadyResolved as exc:
        if text.strip():  # what was typed stays in sight
            return _page(request, _conflict(request, pk), problem=str(exc), typed=text)
        messages.info(request, str(exc))
        return go_to(request, _on(request))
    except MemoryRefused as exc:
        return _page(request, _conflict(request, pk), problem=str(exc), **typed)
    if done.settled_how == Conflict.How.GONE:
        messages.info(request, _("It settled itself: one of the two is gone meanwhile."))
    else:
        messages.success(request, str(SAID[how]), extra_tags=_undo(done.settled_at))
    return go_to(request, _on(request))


def _seen(request: BeaconRequest) -> tuple[int, int] | None:
    """Return the versions that the form was made of; none where it does not say them."""
    told = [request.POST.get(f"{side}_version", "") for side in ("left", "right")]
    if not all(one.isdecimal() and len(one) < 10 for one in told):
        return (0, 0)
    return int(told[0]), int(told[1])


def _undo(at: datetime | None) -> str:
    if at is None:
        return ""
    return f"undo:{reverse('memory:conflicts-undo')}?{urlencode({'at': at.isoformat()})}"


def _on(request: BeaconRequest) -> str:
    """Return where to go on: where the form says, else to the next pair, else to the desk."""
    if asked := next_of(request):
        return asked
    rest = Conflict.objects.of(request.user).standing().order_by("kind", "created", "pk").first()
    return f"{rest.get_absolute_url()}?on=1" if rest else reverse("memory:conflicts")


@require_POST
@login_required
def conflicts_undo(request: BeaconRequest) -> HttpResponse:
    """Undo conflicts resolved in one act: both sides are restored, and each conflict is open again."""
    at = moment_of(request.GET.get("at", ""))
    done = conflict_undo.TakenBack()
    if at is not None and at.tzinfo:
        done = conflict_undo.take_back_of(request.user, at, by=request.actor)
    if done.number:
        words = ngettext("It waits again.", "%(n)d conflicts wait again.", done.number)
        messages.success(request, words % {"n": done.number})
    if done.problems:
        why = " ".join(done.problems[: resolve.MOST_TOLD])
        messages.warning(request, _("Not taken back: %(why)s") % {"why": why})
    elif not done.number:
        messages.info(request, _("There is nothing to take back: it waits already."))
    return go_back(request, reverse("memory:conflicts"))


@require_POST
@login_required
def conflicts_bulk(request: BeaconRequest) -> HttpResponse:
    """Keep both sides of the ticked pairs, or of all near-duplicates that the filters show."""
    rows = Conflict.objects.of(request.user).standing()
    wanted = conflict_page.Wanted.of(request.GET)
    if request.POST.get("all"):
        rows = rows.filter(kind=wanted.kind) if wanted.kind else rows
        rows = rows.filter(topic_ids__contains=[wanted.topic]) if wanted.topic else rows
    else:
        rows = rows.filter(pk__in=_ticked(request))
    chosen = list(rows.select_related("owner")[: conflict_page.MOST_LISTED])
    if not chosen:
        messages.warning(
            request, _("Tick the pairs first; what was ticked may be settled already.")
        )
        return go_back(request, reverse("memory:conflicts"))
    done = resolve.keep_both_of(chosen, by=request.actor)
    level = messages.WARNING if done.problems else messages.SUCCESS
    undo = _undo(done.at if done.done else None)
    messages.add_message(request, level, done.in_words(), extra_tags=undo)
    return go_back(request, reverse("memory:conflicts"))


def _ticked(request: BeaconRequest) -> list[UUID]:
    found = []
    for key in request.POST.getlist("conflict"):
        try:
            found.append(UUID(key))
        except ValueError:
            continue
    return found


@require_POST
@login_required
def conflicts_look(request: BeaconRequest) -> HttpResponse:
    """Look for near-duplicates now, and let settle themselves those of which a side is gone."""
    resolve.settle_gone(request.user)
    number = conflict_finding.find(request.user)
    if number:
        words = ngettext("One pair was found.", "%(n)d pairs were found.", number)
        messages.success(request, words % {"n": number})
    else:
        messages.info(request, _("Nothing new was found that says almost the same."))
    return go_back(request, reverse("memory:conflicts"))
