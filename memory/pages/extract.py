"""Trying extraction: what would be stored from a text, each item to accept, correct or leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from beacon_site.web.http import BeaconRequest
from memory.models import Observation, Topic, User
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages.agents import topics_of
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.responses import KEEP_SECRETS, question_about_secrets, redirect_to
from memory.pages.shared.undo import offer, undoes
from memory.services.llm.booking import MonthMeter
from memory.services.observations.extraction import LEAST, LONGEST_LINE, MODEL, MOST, MOST_LINES
from memory.services.observations.extraction import extract as extract_observations
from memory.services.observations.lines import Line
from memory.services.observations.saving import nearest, remember_lines

MOST_FOUND = 3 * MOST_LINES  # of all categories


@dataclass(slots=True)
class Item:
    """One observation that would be stored. `known` says almost the same and is stored already."""

    content: str
    category: str
    is_kept: bool = True
    known: Observation | None = None


def found_in(user: User, text: str, topic: Topic | None) -> tuple[list[Item], str, str]:
    """Return what would be stored from the text, who found it, and a warning. Stores nothing.

    What is known already isn't selected.
    """
    found = extract_observations(
        user, text, source=str(user.actor), topic=topic, meter=MonthMeter(user)
    )
    known = nearest(user, [line.content for line in found.lines])
    items = [
        Item(line.content, line.category, one is None, one)
        for line, one in zip(found.lines, known, strict=True)
    ]
    return items, found.by, found.warning


def items_of(data: Mapping[str, Any]) -> list[Item]:
    """Return the items as the form sent them."""
    return [
        Item(
            data.get(f"content-{n}", "").strip(), data.get(f"category-{n}", ""), f"keep-{n}" in data
        )
        for n in range(MOST_FOUND)
        if f"content-{n}" in data
    ]


def save(user: User, items: Sequence[Item], topic: Topic | None) -> tuple[int, list[Observation]]:
    """Store the selected items; return their number, and those that weren't there before.

    Raises InvalidValue with the reason, and then stores nothing.
    """
    kept = [one for one in items if one.is_kept]
    if not kept:
        raise InvalidValue(_("Nothing was saved. Select at least one observation."))
    lines = [Line(one.category, one.content) for one in kept]
    stored = remember_lines(user, lines, by=user.actor, topic=topic)
    return len(kept), stored.new


@require_http_methods(["GET", "POST"])
@login_required
@idempotent_post
def extract_page(request: BeaconRequest) -> HttpResponse:
    """Show what would be stored from a text, and store what the person selected."""
    data = request.POST
    text = data.get("text", "").replace("\r\n", "\n")
    topic = Topic.objects.of(request.user).live().filter(slug=data.get("topic", "")).first()
    context: dict[str, Any] = {
        "text": text,
        "topic": topic,
        "topics": topics_of(request.user),
        "categories": Observation.Category.choices,
        "most": MOST,
        "longest": LONGEST_LINE,
        "items": items_of(data),
    }
    if data.get("do") == "save":
        items: list[Item] = context["items"]
        kept = "\n".join(one.content for one in items if one.is_kept)
        question = "" if data.get(KEEP_SECRETS) else question_about_secrets(kept)
        try:
            if not question:
                return _saved(request, *save(request.user, items, topic))
            context["errors"] = [question]
        except InvalidValue as exc:
            context["errors"] = [message for some in exc.errors.values() for message in some] or [
                str(exc)
            ]
    elif request.method == "POST":
        context |= _found(request.user, text, topic)
    template = "memory/_extract.html" if request.htmx else "memory/extract.html"
    return render(request, template, context)


def _found(user: User, text: str, topic: Topic | None) -> dict[str, Any]:
    if len(text.strip()) < LEAST:
        least = _("Enter at least %(least)d characters.")
        return {"errors": [least % {"least": LEAST}]}
    items, by, warning = found_in(user, text, topic)
    return {
        "items": items,
        "is_searched": True,
        "by_model": by == MODEL,
        "warning": warning[:1].upper() + warning[1:],
        "is_cut": len(text) > MOST,
    }


def _saved(request: BeaconRequest, selected: int, new: Sequence[Observation]) -> HttpResponse:
    said = ngettext("Saved %(n)d observation.", "Saved %(n)d observations.", len(new))
    said %= {"n": len(new)}
    if len(new) < selected:
        said += " " + _("The others were already stored.")
    undo = offer(request, "observations-new", ids=[str(one.pk) for one in new]) if new else ""
    messages.success(request, said, extra_tags=undo)
    return redirect_to(request, reverse("memory:observations"))


@undoes("observations-new")
def _trash_new(request: BeaconRequest, ids: list[str]) -> str:
    """Move observations that were just saved to Trash, without those that changed since then.

    Raises MemoryRefused if none is left.
    """
    rows = Observation.objects.of(request.user).live().filter(pk__in=[UUID(key) for key in ids])
    with transaction.atomic():
        unchanged = list(rows.filter(version=1))
        if not unchanged:
            raise MemoryRefused(_("There’s nothing left to undo."))
        for one in unchanged:
            one.trash(by=request.actor)
    messages.success(request, _("Moved to Trash for 30 days."))
    return reverse("memory:observations")
