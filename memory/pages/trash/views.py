"""Pages of Trash: the list, restoring, emptying, and deleting everything from one source."""

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

from beacon_site.text.cleaning import uuid_of
from beacon_site.web.http import BeaconRequest
from memory.models import origins
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.remembered import TRASH_DAYS
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.responses import next_of, redirect_back, redirect_to
from memory.pages.shared.undo import offer, undoes
from memory.pages.trash import forget as trash_forget
from memory.pages.trash import listing as trash_listing
from memory.pages.trash.listing import Filters, SelectedRecords
from memory.services.records import kinds as record_kinds


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def forget(request: BeaconRequest) -> HttpResponse:
    """Show the records from a source; a POST moves them to Trash, with an Undo."""
    asked = str(request.POST.get("source") or request.GET.get("source") or "")
    context: dict[str, Any] = {"source": asked, "next": next_of(request)}
    if request.method == "POST":
        try:
            key, count = trash_forget.forget_source(request.user, asked, by=request.actor)
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            said = ngettext(
                "1 record moved to Trash for 30 days.",
                "%(count)d records moved to Trash for 30 days.",
                count,
            ) % {"count": count}
            undo = offer(request, "source-deleted", key=key)
            messages.success(request, said, extra_tags=undo)
            return redirect_to(request, context["next"] or reverse("memory:notes"))
    if asked:
        context |= _going(request, asked)
    context |= _act(request)
    template = "memory/_source_forget.html" if request.htmx else "memory/source_forget.html"
    return render(request, template, context)


def _going(request: BeaconRequest, asked: str) -> dict[str, Any]:
    """Return what would be deleted, or the error in the source."""
    try:
        source = trash_forget.checked_source(asked)
    except InvalidValue as exc:
        return {"problem": str(exc)}
    going = trash_forget.forget_preview(request.user, source)
    return {
        "source": source,
        "origin": origins.of(request.user, [source])[source],
        "going": going,
        "total": sum(count for _noun, count, _by_hand in going),
        "by_hand": sum(by_hand for _noun, _count, by_hand in going),
    }


def _act(request: BeaconRequest) -> dict[str, Any]:
    """Return the action of a log entry, if it can still be undone."""
    key = uuid_of(request.GET.get("act", ""))
    if key is None:
        return {}
    return {"act": key, "act_count": trash_forget.count_in_trash(request.user, key)}


@undoes("source-deleted", key=UUID)
def _restore_source(request: BeaconRequest, key: UUID) -> str:
    """Restore what was deleted with that key."""
    came, problems = trash_forget.undo_change(request.user, key, by=request.actor)
    if came or not problems:
        said = ngettext(
            "%(count)d record restored.",
            "%(count)d records restored.",
            came,
        )
        messages.success(request, said % {"count": came})
    if problems:
        told = {"count": len(problems), "why": " ".join(problems[:3])}
        messages.error(request, _("%(count)d are still in Trash. %(why)s") % told)
    return reverse("memory:notes")


# --- Trash ---

OLDER = (0, 7, 14, 21)  # days: emptying offers to delete what is older


@require_safe
@login_required
@vary_on_headers("HX-Request")
def trash(request: BeaconRequest) -> HttpResponse:
    """List the matching records in Trash, latest first."""
    counts, nouns = trash_listing.counts(request.user), record_kinds.nouns()
    total = sum(counts.values())
    facets = [
        Facet(
            "type", _("Type"), [Choice(n, str(nouns[n]), counts[n]) for n in nouns if n in counts],
            any_label=_("All"), any_count=total,
        ),
        Facet(
            "who", _("Deleted by"),
            [Choice("you", _("you")), Choice("others", _("agents, runs and maintenance"))],
            any_label=_("Anyone"),
        ),
    ]  # fmt: skip
    query = filter_bar.read(request.GET, facets)
    wanted = Filters.of(query)
    page = trash_listing.page(request.user, cursor=request.GET.get("cursor", ""), wanted=wanted)
    context: dict[str, Any] = {
        "matching": _matching(request, wanted, page.next_cursor is not None),
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "bar": FilterBar(
            reverse("memory:trash"), "trash", query,
            label=_("Search Trash"), placeholder=_("Search Trash"),
            facets=facets, count=ngettext("%(n)d item", "%(n)d items", total) % {"n": total},
        ),
        "total": total,
        "along": 0 if wanted.is_narrowed else trash_listing.count_trashed_with(request.user),
        "wanted": wanted,
        "record_type": wanted.record_type,
        "days": TRASH_DAYS,
    }  # fmt: skip
    over_htmx = request.htmx and request.htmx.target == "trash"
    return render(request, f"memory/{'_trash' if over_htmx else 'trash'}.html", context)


def _matching(request: BeaconRequest, wanted: Filters, has_more: bool) -> int:
    """Return how many match in all; 0 if one page shows them."""
    if not has_more and "cursor" not in request.GET:
        return 0
    return sum(trash_listing.counts(request.user, SelectedRecords(wanted)).values())


@require_POST
@login_required
def trash_restore(request: BeaconRequest) -> HttpResponse:
    """Restore the selected records, or all that match, with one Undo."""
    chosen = SelectedRecords.of(request.POST)
    if chosen is None:
        messages.info(request, _("Select at least one record to restore."))
        return redirect_back(request, reverse("memory:trash"))
    done = trash_listing.restore_chosen(request.user, chosen)
    came = len(done.revisions)
    if came:
        words = ngettext("%(n)d record restored.", "%(n)d records restored.", came) % {"n": came}
        words = " ".join([words, *done.renamed[:3]])
        undo = offer(request, "trash-restored", revisions=done.revisions)
        messages.success(request, words, extra_tags=undo)
    if done.stay:
        words = ngettext("%(n)d is still in Trash.", "%(n)d are still in Trash.", done.stay)
        messages.warning(request, " ".join([words % {"n": done.stay}, *done.problems]))
    if done.left:
        words = ngettext(
            "%(n)d left. Restore again to continue.",
            "%(n)d left. Restore again to continue.",
            done.left,
        )
        messages.warning(request, words % {"n": done.left})
    return redirect_back(request, reverse("memory:trash"))


@undoes("trash-restored")
def _trash_again(request: BeaconRequest, revisions: list[int]) -> str:
    """Move to Trash again what one action restored."""
    moved, problems = trash_listing.undo_change(request.user, revisions)
    if not moved:
        raise MemoryRefused(" ".join(problems) or _("Nothing was changed."))
    words = ngettext(
        "%(n)d record moved to Trash again.", "%(n)d records moved to Trash again.", moved
    ) % {"n": moved}
    level = messages.WARNING if problems else messages.SUCCESS
    messages.add_message(request, level, " ".join([words, *problems]))
    return reverse("memory:trash")


@require_http_methods(["GET", "POST"])
@login_required
def trash_empty(request: BeaconRequest) -> HttpResponse:
    """Permanently delete all, the selected or the older records in Trash, once the word is typed."""
    chosen, problem = SelectedRecords.of(request.POST), ""
    asked = request.POST.get("older", "")
    older = int(asked) if asked in map(str, OLDER) else 0
    if "ask" in request.POST and chosen is None:
        messages.info(request, _("Select at least one record to delete."))
        return redirect_back(request, reverse("memory:trash"))
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
            return redirect_to(request, reverse("memory:trash"))
    context = _emptying(request, chosen) | {"problem": problem, "older": older}
    template = "_trash_empty" if request.htmx else "trash_empty"
    return render(request, f"memory/{template}.html", context)


def _emptying(request: BeaconRequest, chosen: SelectedRecords | None) -> dict[str, Any]:
    """Return the page's summary of what would be deleted."""
    counts, nouns = trash_listing.counts(request.user, chosen), record_kinds.nouns()
    return {
        "kinds": [(nouns[name], number) for name, number in counts.items()],
        "total": sum(counts.values()),
        "chosen": chosen,
        "word": trash_listing.word(),
        "typed": request.POST.get("word", ""),
        "ages": OLDER,
    }


def _say(request: BeaconRequest, done: trash_listing.EmptyTrashResult) -> None:
    words = ngettext(
        "%(n)d record deleted permanently.", "%(n)d records deleted permanently.", done.gone
    ) % {"n": done.gone}
    if done.left:
        more = ngettext(
            "%(n)d left. Empty Trash again.",
            "%(n)d left. Empty Trash again.",
            done.left,
        )
        words += " " + more % {"n": done.left}
    if done.kept:
        more = ngettext(
            "%(n)d is still in Trash because a record outside Trash depends on it.",
            "%(n)d are still in Trash because records outside Trash depend on them.",
            done.kept,
        )
        words += " " + more % {"n": done.kept}
    level = messages.WARNING if done.left or done.kept else messages.SUCCESS
    messages.add_message(request, level, words)
