"""The trash: what lies there of every kind, and emptying it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory import record_kinds, trash_page
from memory.answers import go_to
from memory.errors import InvalidValue
from memory.tasks import TRASH_DAYS


@require_safe
@login_required
@vary_on_headers("HX-Request")
def trash(request: BeaconRequest) -> HttpResponse:
    """Show what lies in the trash, the latest first, of one kind or of all."""
    counts, nouns = trash_page.counts(request.user), record_kinds.nouns()
    wanted = request.GET.get("type", "")
    record_type = wanted if wanted in nouns else ""
    page = trash_page.page(
        request.user, record_type=record_type, cursor=request.GET.get("cursor", "")
    )
    context: dict[str, Any] = {
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "kinds": [(name, nouns[name], counts[name]) for name in nouns if name in counts],
        "total": sum(counts.values()),
        "record_type": record_type,
        "days": TRASH_DAYS,
    }
    over_htmx = request.htmx and request.htmx.target == "trash"
    return render(request, f"memory/{'_trash' if over_htmx else 'trash'}.html", context)


@require_http_methods(["GET", "POST"])
@login_required
def trash_empty(request: BeaconRequest) -> HttpResponse:
    """Delete all that lies in the trash for good, once the word is typed."""
    counts, typed, problem = trash_page.counts(request.user), request.POST.get("word", ""), ""
    if request.method == "POST":
        try:
            done = trash_page.empty(request.user, typed=typed, by=request.actor)
        except InvalidValue as exc:
            problem = str(exc)
        else:
            _say(request, done)
            return go_to(request, reverse("memory:trash"))
    nouns = record_kinds.nouns()
    context = {
        "kinds": [(nouns[name], number) for name, number in counts.items()],
        "total": sum(counts.values()),
        "word": trash_page.word(),
        "typed": typed,
        "problem": problem,
    }
    template = "_trash_empty" if request.htmx else "trash_empty"
    return render(request, f"memory/{template}.html", context)


def _say(request: BeaconRequest, done: trash_page.Emptied) -> None:
    words = ngettext(
        "%(n)d record is deleted for good.", "%(n)d records are deleted for good.", done.gone
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
