"""Forgetting everything from one source: what would go, the act, and taking it back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import origins
from memory.models.remembered import TRASH_DAYS
from memory.pages.trash import forget as trash_forget
from memory.pages.trash import listing as trash_listing
from memory.pages.trash.listing import Chosen, Wanted
from memory.records import kinds as record_kinds
from memory.web.responses import go_back, go_to, next_of


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def forget(request: BeaconRequest) -> HttpResponse:
    """Show what is remembered from a source; a POST moves it to the trash, with the way back."""
    asked = str(request.POST.get("source") or request.GET.get("source") or "")
    context: dict[str, Any] = {"source": asked, "next": next_of(request)}
    if request.method == "POST":
        try:
            key, count = trash_forget.forget_source(request.user, asked, by=request.actor)
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            said = ngettext(
                "One record is in the trash for 30 days.",
                "%(count)d records are in the trash for 30 days.",
                count,
            ) % {"count": count}
            undo = "undo:" + reverse("memory:forgotten-undo", args=[key])
            messages.success(request, said, extra_tags=undo)
            return go_to(request, context["next"] or reverse("memory:notes"))
    if asked:
        context |= _going(request, asked)
    context |= _act(request)
    template = "memory/_source_forget.html" if request.htmx else "memory/source_forget.html"
    return render(request, template, context)


def _going(request: BeaconRequest, asked: str) -> dict[str, Any]:
    """Return what would go, or why the source cannot be looked for."""
    try:
        source = trash_forget.checked_source(asked)
    except InvalidValue as exc:
        return {"problem": str(exc)}
    going = trash_forget.what_would_go(request.user, source)
    return {
        "source": source,
        "origin": origins.of(request.user, [source])[source],
        "going": going,
        "total": sum(one.count for one in going),
        "by_hand": sum(one.by_hand for one in going),
    }


def _act(request: BeaconRequest) -> dict[str, Any]:
    """Return the act that the log leads from, as far as it can be taken back."""
    try:
        key = UUID(request.GET.get("act", ""))
    except ValueError:
        return {}
    return {"act": key, "act_count": trash_forget.lying_in_trash(request.user, key)}


@require_POST
@login_required
def undo(request: BeaconRequest, key: UUID) -> HttpResponse:
    """Bring back what was forgotten with that key."""
    came, refused = trash_forget.take_back(request.user, key, by=request.actor)
    if came or not refused:
        said = ngettext(
            "%(count)d record is back from the trash.",
            "%(count)d records are back from the trash.",
            came,
        )
        messages.success(request, said % {"count": came})
    if refused:
        told = {"count": len(refused), "why": " ".join(refused[:3])}
        messages.error(request, _("%(count)d stay in the trash. %(why)s") % told)
    return go_back(request, reverse("memory:notes"))


# --- The trash: what lies there of every kind, and emptying it ---

MOST_IN_ADDRESS = 60  # revisions that an Undo's address names
LAST = "last"  # stands in the address for what the session keeps
_KEPT = "trash_restored"
OLDER = (0, 7, 14, 21)  # days, of which emptying offers to take what is older


@require_safe
@login_required
@vary_on_headers("HX-Request")
def trash(request: BeaconRequest) -> HttpResponse:
    """Show what lies in the trash, the latest first, as far as it is asked for."""
    counts, nouns = trash_listing.counts(request.user), record_kinds.nouns()
    wanted = Wanted.of(request.GET)
    page = trash_listing.page(request.user, cursor=request.GET.get("cursor", ""), wanted=wanted)
    context: dict[str, Any] = {
        "matching": _matching(request, wanted, page.next_cursor is not None),
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "kinds": [(name, nouns[name], counts[name]) for name in nouns if name in counts],
        "total": sum(counts.values()),
        "along": 0 if wanted.is_narrowed else trash_listing.number_along(request.user),
        "wanted": wanted,
        "record_type": wanted.record_type,
        "days": TRASH_DAYS,
    }
    over_htmx = request.htmx and request.htmx.target == "trash"
    return render(request, f"memory/{'_trash' if over_htmx else 'trash'}.html", context)


def _matching(request: BeaconRequest, wanted: Wanted, has_more: bool) -> int:
    """Return how many match in all; 0 where one page shows them."""
    if not has_more and "cursor" not in request.GET:
        return 0
    return sum(trash_listing.counts(request.user, Chosen(wanted)).values())


@require_POST
@login_required
def trash_restore(request: BeaconRequest) -> HttpResponse:
    """Bring the ticked records back, or all that match, with one Undo for those that came."""
    chosen = Chosen.of(request.POST)
    if chosen is None:
        messages.info(request, _("Tick what is to come back first."))
        return go_back(request, reverse("memory:trash"))
    done = trash_listing.restore_chosen(request.user, chosen)
    came = len(done.revisions)
    if came:
        words = ngettext(
            "%(n)d record is back from the trash.", "%(n)d records are back from the trash.", came
        ) % {"n": came}
        words = " ".join([words, *done.renamed[:3]])
        messages.success(request, words, extra_tags=_undo_of(request, done))
    if done.stay:
        words = ngettext("%(n)d stays in the trash.", "%(n)d stay in the trash.", done.stay)
        messages.warning(request, " ".join([words % {"n": done.stay}, *done.problems]))
    if done.left:
        words = ngettext(
            "%(n)d more waits: there was no time for it. Press Restore again.",
            "%(n)d more wait: there was no time for them. Press Restore again.",
            done.left,
        )
        messages.warning(request, words % {"n": done.left})
    return go_back(request, reverse("memory:trash"))


def _undo_of(request: BeaconRequest, done: trash_listing.Restored) -> str:
    """Return the toast's tag; of very many the session keeps which they were."""
    key = done.key
    if len(done.revisions) > MOST_IN_ADDRESS:
        request.session[_KEPT], key = done.revisions, LAST
    return "undo:" + reverse("memory:trash-take-back", args=[key])


@require_POST
@login_required
def trash_take_back(request: BeaconRequest, key: str) -> HttpResponse:
    """Move to the trash again what one press brought back."""
    ids = request.session.pop(_KEPT, []) if key == LAST else trash_listing.revisions_of(key)
    moved, problems = trash_listing.take_back(request.user, ids)
    words = ngettext(
        "%(n)d record is in the trash again.", "%(n)d records are in the trash again.", moved
    ) % {"n": moved}
    level = messages.WARNING if problems or not moved else messages.SUCCESS
    messages.add_message(request, level, " ".join([words, *problems]))
    return go_back(request, reverse("memory:trash"))


@require_http_methods(["GET", "POST"])
@login_required
def trash_empty(request: BeaconRequest) -> HttpResponse:
    """Delete for good what lies in the trash, is chosen there, or is older, once the word is typed."""
    chosen, problem = Chosen.of(request.POST), ""
    asked = request.POST.get("older", "")
    older = int(asked) if asked in map(str, OLDER) else 0
    if "ask" in request.POST and chosen is None:
        messages.info(request, _("Tick what is to be deleted first."))
        return go_back(request, reverse("memory:trash"))
    if request.method == "POST" and "ask" not in request.POST:
        typed = request.POST.get("word", "")
        try:
            done = trash_listing.empty(
                request.user, typed=typed, by=request.actor, older_than=older, chosen=chosen
            )
        except InvalidValue as exc:
            problem = str(exc)
        else:
            _say(request, done)
            return go_to(request, reverse("memory:trash"))
    context = _emptying(request, chosen) | {"problem": problem, "older": older}
    template = "_trash_empty" if request.htmx else "trash_empty"
    return render(request, f"memory/{template}.html", context)


def _emptying(request: BeaconRequest, chosen: Chosen | None) -> dict[str, Any]:
    """Return what the page shows of what would go."""
    counts, nouns = trash_listing.counts(request.user, chosen), record_kinds.nouns()
    return {
        "kinds": [(nouns[name], number) for name, number in counts.items()],
        "total": sum(counts.values()),
        "chosen": chosen,
        "word": trash_listing.word(),
        "typed": request.POST.get("word", ""),
        "ages": OLDER,
    }


def _say(request: BeaconRequest, done: trash_listing.Emptied) -> None:
    words = ngettext(
        "%(n)d record deleted permanently.", "%(n)d records deleted permanently.", done.gone
    ) % {"n": done.gone}
    if done.left:
        more = ngettext(
            "%(n)d more waits: there was no time for it. Empty the trash again.",
            "%(n)d more wait: there was no time for them. Empty the trash again.",
            done.left,
        )
        words += " " + more % {"n": done.left}
    if done.kept:
        more = ngettext(
            "%(n)d stays, because something outside the trash needs it.",
            "%(n)d stay, because something outside the trash needs them.",
            done.kept,
        )
        words += " " + more % {"n": done.kept}
    level = messages.WARNING if done.left or done.kept else messages.SUCCESS
    messages.add_message(request, level, words)
