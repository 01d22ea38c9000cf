"""Review: agents' writes that wait for a person, and the levels that decide which do."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.accounts import settings_undo
from memory.errors import MemoryRefused
from memory.forms.review import LABELS, LevelsForm
from memory.models import Proposal
from memory.responses import go_back, go_to, next_of, undo_settings_tag
from memory.reviewing import acts as review_acts
from memory.reviewing import danger, levels, outdated
from memory.reviewing import page as review_page
from memory.reviewing import review as reviewing
from memory.reviewing.types import TRASH, Overtaken
from memory.texts.days import moment_of


@require_safe
@login_required
@vary_on_headers("HX-Request")
def review_list(request: BeaconRequest) -> HttpResponse:
    """Show what waits for the person, the most dangerous first, or what was decided."""
    wanted = review_page.Wanted.of(request.GET)
    found = review_page.page(request.user, wanted, cursor=request.GET.get("cursor", ""))
    by_danger = {}
    if wanted.is_waiting and found.rows:
        by_danger = danger.counts(review_page.rows_of(request.user, wanted))
    context = {
        "rows": found.rows,
        "groups": review_page.groups(found.rows, by_danger) if by_danger else [],
        "next_cursor": found.next_cursor,
        "wanted": wanted,
        "counts": review_page.counts(request.user),
        "levels": review_page.levels(request.user),
        "states": review_page.STATES,
        "types": review_page.TYPES,
        "by_whom": review_page.who_of(request.user, wanted.by),
        "here": request.get_full_path(),
    }
    over_htmx = request.htmx and request.htmx.target == "review"
    return render(request, f"memory/{'_review' if over_htmx else 'review'}.html", context)


def _proposal(request: BeaconRequest, pk: UUID) -> Proposal:
    found: Proposal = get_object_or_404(Proposal.objects.of(request.user), pk=pk)
    found.owner = request.user
    return found


@require_safe
@login_required
def proposal(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one proposal whole, with what a person can do with it."""
    return _page(request, _proposal(request, pk))


def _page(request: BeaconRequest, found: Proposal, **more: Any) -> HttpResponse:
    row = review_page.whole(request.user, found)
    if row.conflict and "conflict" not in more and "problem" not in more:
        mine = {"content": row.conflict.merge.text()}
        fields = review_page.edit_fields(found, mine)
        more = {"conflict": row.conflict, "fields": fields, "is_open": True, **more}
    context = {
        "proposal": found,
        "row": row,
        "fields": review_page.edit_fields(found),
        "target_url": review_page.target_url(found),
        "next": next_of(request),
        **more,
    }
    return render(request, f"memory/{'_proposal' if request.htmx else 'proposal'}.html", context)


@require_POST
@login_required
def proposal_accept(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Carry a proposal out, as it is or as the person edited it; a changed target is put together."""
    found = _proposal(request, pk)
    names = [name for name, *_rest in review_page.edit_fields(found)]
    typed = review_page.typed_of(request.POST, names)
    after = review_page.edited(found, typed) if "edit" in request.POST else {}
    if "newer" in request.POST:
        behind = outdated.outdated(request.user, [found]).get(found.pk, [])
        after = outdated.with_newer_texts(found, behind)
    token = request.POST.get("seen", "")
    try:
        applied = reviewing.accept(found, by=request.actor, after=after or None, seen=token)
    except Overtaken as exc:
        mine = {"content": exc.merge.text()}
        fields = review_page.edit_fields(found, mine)
        return _page(request, found, conflict=exc, fields=fields, is_open=True)
    except reviewing.Decided as exc:
        if after:  # what was typed stays in sight
            found = _proposal(request, pk)
            fields = review_page.edit_fields(found, typed)
            return _page(request, found, problem=str(exc), fields=fields, is_late=True)
        messages.info(request, str(exc))
        return go_to(request, found.get_absolute_url())
    except MemoryRefused as exc:
        fields = review_page.edit_fields(found, typed)
        is_open = "edit" in request.POST
        return _page(request, found, problem=str(exc), fields=fields, is_open=is_open, seen=token)
    told = {"what": review_page.title_of(found)}
    is_trashed = found.after.get("act") == TRASH
    said = (_("Moved to Trash: %(what)s.") if is_trashed else _("Stored: %(what)s.")) % told
    if applied.merged:
        said = _("Put together with what stands, and stored: %(what)s.") % told
    words = " ".join([said, *map(str, applied.warnings)])
    messages.success(request, words, extra_tags=_put_back(found.decided_at))
    return go_to(request, _on(request))


@require_POST
@login_required
def proposal_reject(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Reject a proposal, with a reason if there is one; Undo lets it wait again."""
    found = _proposal(request, pk)
    try:
        reviewing.reject(found, by=request.actor, why=request.POST.get("why", ""))
    except MemoryRefused as exc:
        messages.info(request, str(exc))
        return go_to(request, found.get_absolute_url())
    undo = _put_back(found.decided_at)
    messages.success(request, _("Rejected: nothing was stored."), extra_tags=undo)
    return go_to(request, _on(request))


def _put_back(at: datetime | None) -> str:
    """Return the way back of what was decided at this moment, for a toast."""
    if at is None:
        return ""
    return f"undo:{reverse('memory:review-put-back')}?{urlencode({'at': at.isoformat()})}"


def _on(request: BeaconRequest) -> str:
    """Return where to go on: where the form says it was, else the next that waits, else the list."""
    if asked := next_of(request):
        return asked
    following = reviewing.waiting(request.user).first()
    return following.get_absolute_url() if following else reverse("memory:review")


@require_POST
@login_required
def review_put_back(request: BeaconRequest) -> HttpResponse:
    """Let what was decided in one act wait again; what accepting it wrote is taken back."""
    at = moment_of(request.GET.get("at", ""))
    again = review_acts.Waiting()
    if at is not None and at.tzinfo:
        again = review_acts.put_back(request.user, at, by=request.actor)
    if again.number:
        words = ngettext("It waits again.", "%(n)d proposals wait again.", again.number)
        messages.success(request, words % {"n": again.number})
    if again.problems:
        why = " ".join(again.problems[: review_acts.MOST_TOLD])
        messages.warning(request, _("Not taken back: %(why)s") % {"why": why})
    elif not again.number:
        messages.info(request, _("There is nothing to put back: it was decided anew meanwhile."))
    return go_back(request, reverse("memory:review"))


@require_POST
@login_required
def review_bulk(request: BeaconRequest) -> HttpResponse:
    """Accept or reject the ticked proposals, or all that wait; the list keeps its filters."""
    act = request.POST.get("act", "")
    asked = review_page.Wanted.of(request.GET)
    wanted = review_page.Wanted(type=asked.type, by=asked.by)
    rows = review_page.rows_of(request.user, wanted).order_by("created", "pk")
    if not request.POST.get("all"):
        rows = rows.filter(pk__in=_ticked(request))
    chosen = list(rows) if act in review_acts.ACTS else []
    if not chosen:
        is_late = act in review_acts.ACTS and bool(_ticked(request))
        why = review_acts.decided_already() if is_late else review_acts.nothing_chosen()
        messages.warning(request, why)
        return go_back(request, reverse("memory:review"))
    why = request.POST.get("why", "")
    done = review_acts.decide(request.user, chosen, act, by=request.actor, why=why)
    level = messages.SUCCESS if done.done and not done.problems else messages.WARNING
    undo = _put_back(done.at if done.done else None)
    messages.add_message(request, level, done.in_words(), extra_tags=undo)
    return go_back(request, reverse("memory:review"))


def _ticked(request: BeaconRequest) -> list[UUID]:
    found = []
    for key in request.POST.getlist("proposal"):
        try:
            found.append(UUID(key))
        except ValueError:
            continue
    return found


@require_http_methods(["GET", "POST"])
@login_required
def review_levels(request: BeaconRequest) -> HttpResponse:
    """Show and set how agents' writes of each kind are treated."""
    form = LevelsForm(request.POST or None, own=levels.own_levels(request.user))
    if request.method == "POST" and form.is_valid():
        before = settings_undo.now(request.user, "levels")
        if levels.set_levels(request.user, form.wanted, by=request.actor):
            words = _("The levels are saved; they hold from the next write on.")
            undo = undo_settings_tag(request, "levels", before)
            messages.success(request, words, extra_tags=undo)
        else:
            messages.info(request, _("Nothing was changed."))
        if not request.htmx:
            return redirect("memory:review-levels")
        form = LevelsForm(own=levels.own_levels(request.user))
    context = {"form": form, "meanings": _meanings(), "tab": "review"}
    template = "_review_levels" if request.htmx else "settings_review"
    return render(request, f"memory/{template}.html", context)


def _meanings() -> list[tuple[Any, Any]]:
    return [(LABELS[level], words) for level, words in levels.MEANINGS.items()]
