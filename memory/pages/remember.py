"""Remember: one field for a new memory, and what is already known about it; trying extraction.

"Already in memory" compares any field while a person types: this one, the forms of notes and
observations, and the new lines of a memory file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import choice_param, uuid_of
from beacon_site.text.dates import until_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    KEEP_SECRETS,
    next_of,
    question_about_secrets,
    redirect_to,
    signed_in,
)
from memory.models import Conflict, MemoryFile, Note, Observation, Topic, User, origins
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.notes import MAX_CONTENT
from memory.pages.agents import topics_of
from memory.pages.records.record import TYPES
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import offer, toast_with_undo, undoes
from memory.services.llm.asking import MonthMeter
from memory.services.notes.saving import write_note
from memory.services.observations.extraction import MAX, MAX_LINE_LENGTH, MAX_LINES, MIN, MODEL
from memory.services.observations.extraction import extract as extract_observations
from memory.services.observations.saving import Line, nearest, remember_lines, write_observation
from memory.services.records.acts import BulkResult
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions
from memory.services.review.contradictions import Known

FEW_KNOWN = 3  # shown while typing; the others are one click away
KINDS: dict[str, str | Promise] = {
    "rule": gettext_lazy("Rule"),
    "preference": gettext_lazy("Preference"),
    "finding": gettext_lazy("Finding"),
    "insight": gettext_lazy("Insight"),
    "lesson": gettext_lazy("Lesson"),
    "log": gettext_lazy("Log"),
}
_OBSERVED = ("finding", "insight", "lesson")

_PREFERENCE = re.compile(r"\bprefer(?:s|red)?\b|\b(?:likes?|dislikes?) (?:to|it when)\b", re.I)
_RULE = re.compile(
    r"\b(?:always|never|must)\b|^(?:do not|don['’]t|please|make sure|remember to|avoid|ask before)\b",
    re.I,
)
_LESSON = re.compile(r"^lessons?\b|\b(?:learned that|lesson learned|next time)\b", re.I)
_INSIGHT = re.compile(
    r"^insight\b|\b(?:therefore|this means|which means|it follows|suggests that|conclude)\b", re.I
)


def guess(text: str, today: date | None = None) -> tuple[str, date | None]:
    """Guess which kind of memory a text is, and until when it's valid.

    One that ends on a day is a log, which can expire.
    """
    text = " ".join(text[:2_000].split())
    until = until_of(text, today or timezone.localdate())
    if _PREFERENCE.search(text):
        return "preference", until
    if _RULE.search(text):
        return "rule", until
    if until is not None:
        return "log", until
    if _LESSON.search(text):
        return "lesson", None
    return "insight" if _INSIGHT.search(text) else "finding", None


def remember(user: User, text: str, kind: str, until: date | None) -> Note | Observation:
    """Store the text as this kind. Raises InvalidValue with the reasons by field."""
    if kind in _OBSERVED and until is None:
        return write_observation(user, kind, text, by=user.actor)
    is_rule = kind in ("rule", "preference")
    return write_note(
        user,
        "rule" if is_rule else "log",
        text,
        by=user.actor,
        tags=["preference"] if kind == "preference" else [],
        stability="stable" if is_rule or until is None else "volatile",
        until=until,
    )


# --- pages ---


@signed_in("GET", "POST")
@idempotent_post
def remember_page(request: BeaconRequest) -> HttpResponse:
    """Remember what a person typed, as the kind that they chose or that was guessed."""
    data = request.POST if request.method == "POST" else request.GET
    text, kind = data.get("text", "").replace("\r\n", "\n"), choice_param(data, "kind", KINDS)
    context = _context(text, kind) | {"next": next_of(request), "keep": "keep" in data}
    if request.method == "POST":
        guessed, until = guess(text)
        until = None if "keep" in data else until
        question = "" if data.get(KEEP_SECRETS) else question_about_secrets(text)
        try:
            if not question:
                record = remember(request.user, text, kind or guessed, until)
                return _remembered(request, record)
            context["errors"] = [question]
        except InvalidValue as exc:
            context["errors"] = exc.errors.get("content") or [str(exc)]
    template = "memory/_remember.html" if request.htmx else "memory/remember.html"
    return render(request, template, context)


def _context(text: str, kind: str) -> dict[str, Any]:
    more = {
        name: f"{reverse(url)}?{urlencode({'text': text} if text else {})}"
        for name, url in (("note", "memory:note-new"), ("observation", "memory:observation-new"))
    }
    guessed, until = guess(text) if text.strip() else ("", None)
    return {
        "text": text,
        "kind": kind,
        "kinds": list(KINDS.items()),
        "guessed": KINDS.get(guessed, ""),
        "until": until,
        "most": MAX_CONTENT,
        "more": more | {"back": reverse("memory:recall")},
    }


def _remembered(request: BeaconRequest, record: Any) -> HttpResponse:
    """Report the new record, and decide what the person chose about each contradiction."""
    message = _("Remembered.")
    problems = _decide(request, record)
    toast_with_undo(request, record, message)
    for problem in problems:
        messages.warning(request, problem)
    if open_pairs_of(record):
        return redirect_to(request, record.get_absolute_url())
    return redirect_to(request, next_of(request, record.get_absolute_url()))


_WAYS = {"replace": Conflict.How.RIGHT.value, "both": Conflict.How.BOTH.value}


def _decide(request: BeaconRequest, record: Any) -> list[str]:
    """Resolve what the record contradicts as the person chose while typing; return why some
    couldn't be.
    """
    ways = {
        name.removeprefix("known-"): _WAYS[value]
        for name, value in request.POST.items()
        if name.startswith("known-") and value in _WAYS
    }
    pairs = contradictions.report(record, by=request.actor)
    chosen = [(pair, ways.pop(str(pair.left_id), None)) for pair in pairs]
    if ways:  # a line of a file is reported only if the person decides about it
        for known in contradictions.also_known(request.user, record.content, but=record):
            how = ways.get(str(known.record.pk)) if known.type == "section" else None
            pair = contradictions.report_line(record, known, by=request.actor) if how else None
            chosen += [(pair, how)] if pair is not None else []
    wanted = [(pair, how) for pair, how in chosen if how is not None and pair.is_open]
    resolve = partial(conflict_services.resolve, by=request.actor)
    return BulkResult().perform(wanted, lambda row: resolve(*row)).problems


def open_pairs_of(record: Any) -> list[Conflict]:
    """Return the record's open contradictions, at most fifty."""
    rows = Conflict.objects.for_user(record.owner).standing().about([record.pk])
    rows = rows.filter(kind=Conflict.Kind.CONTRADICTION)
    return list(rows[: contradictions.MAX_KNOWN])


# --- Already in memory ---


@signed_in("POST")
def also_known(request: BeaconRequest) -> HttpResponse:
    """Show the guessed kind, and what memory says about the same thing, word for word or with
    another value.

    `path` names the memory file that has the text: only its new lines are compared. `record` is the
    note or observation that has it.
    """
    text = request.POST.get("text") or request.POST.get("content") or request.POST.get("body") or ""
    text = text.replace("\r\n", "\n")[: 4 * MAX_CONTENT]
    but, asked = _without_own(request, text)
    found: list[Known] = []
    if asked.strip():
        found = contradictions.also_known(request.user, asked, but=but, with_same=True)
    kind = choice_param(request.POST, "kind", KINDS)
    is_form = "for" in request.POST
    context = _known_rows(request.user, found, request.POST) | {"is_form": is_form}
    if not is_form:
        context |= _context(text, kind) | {"keep": "keep" in request.POST}
    return render(request, "memory/_also_known.html", context)


def _without_own(request: BeaconRequest, text: str) -> tuple[Any, str]:
    """Return the record that has the text, and what is new in it."""
    path, name = request.POST.get("path", ""), request.POST.get("record", "")
    if path:
        file = MemoryFile.objects.for_user(request.user).live().filter(path=path).first()
        return file, new_lines(file.content if file else "", text)
    record_type, _colon, key = name.partition(":")
    model = TYPES.get(record_type)
    pk = uuid_of(key)
    if model is None or pk is None:
        return None, text
    return model.objects.for_user(request.user).filter(pk=pk).first(), text


def new_lines(before: str, after: str) -> str:
    """Return the lines of a text that it didn't have before."""
    known = set(before.splitlines())
    return "\n".join(line for line in after.splitlines() if line not in known)


def _known_rows(user: User, found: Sequence[Known], data: Any) -> dict[str, Any]:
    """Return the known statements, the first few apart, with what was chosen in the form."""
    told = origins.of(user, [one.record.source for one in found])
    rows = [
        {
            "known": one,
            "who": told[one.record.source].words if one.record.source in told else "",
            "choice": data.get(f"known-{one.record.pk}", ""),
            "can_be_replaced": one.can_be_replaced,
        }
        for one in found
    ]
    return {"known": rows[:FEW_KNOWN], "known_more": rows[FEW_KNOWN:]}


def warn_of(request: BeaconRequest, text: str, *, but: Any) -> None:
    """Name what a memory file's new lines contradict, after they are saved."""
    found = contradictions.also_known(request.user, text, but=but)
    if not found:
        return
    words = ngettext(
        "Saved, but it contradicts a memory: “%(said)s”",
        "Saved, but it contradicts %(n)d memories, such as “%(said)s”",
        len(found),
    )
    messages.warning(request, words % {"said": found[0].said, "n": len(found)})


# --- trying extraction ---


MAX_FOUND = 3 * MAX_LINES  # of all categories
Items = list[dict[str, Any]]


def found_in(user: User, text: str, topic: Topic | None) -> tuple[Items, str, str]:
    """Return what would be stored from the text, who found it, and a warning. Stores nothing.

    What is `known` already isn't selected.
    """
    found = extract_observations(
        user, text, source=str(user.actor), topic=topic, meter=MonthMeter(user)
    )
    known = nearest(user, [line.content for line in found.lines])
    items = [
        {"content": line.content, "category": line.category, "is_kept": one is None, "known": one}
        for line, one in zip(found.lines, known, strict=True)
    ]
    return items, found.by, found.warning


def items_of(data: Mapping[str, Any]) -> Items:
    """Return the items as the form sent them."""
    return [
        {
            "content": data.get(f"content-{n}", "").strip(),
            "category": data.get(f"category-{n}", ""),
            "is_kept": f"keep-{n}" in data,
        }
        for n in range(MAX_FOUND)
        if f"content-{n}" in data
    ]


def save(user: User, items: Items, topic: Topic | None) -> tuple[int, list[Observation]]:
    """Store the selected items; return their number, and those that weren't there before.

    Raises InvalidValue with the reason, and then stores nothing.
    """
    kept = [item for item in items if item["is_kept"]]
    if not kept:
        raise InvalidValue(_("Nothing was saved. Select at least one observation."))
    lines = [Line(one["category"], one["content"]) for one in kept]
    stored = remember_lines(user, lines, by=user.actor, topic=topic)
    return len(kept), stored.new


@signed_in("GET", "POST")
@idempotent_post
def extract_page(request: BeaconRequest) -> HttpResponse:
    """Show what would be stored from a text, and store what the person selected."""
    data = request.POST
    text = data.get("text", "").replace("\r\n", "\n")
    topic = Topic.objects.for_user(request.user).live().filter(slug=data.get("topic", "")).first()
    context: dict[str, Any] = {
        "text": text,
        "topic": topic,
        "topics": topics_of(request.user),
        "categories": Observation.Category.choices,
        "most": MAX,
        "longest": MAX_LINE_LENGTH,
        "items": items_of(data),
    }
    if data.get("do") == "save":
        items: Items = context["items"]
        kept = "\n".join(item["content"] for item in items if item["is_kept"])
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
        context |= _search_context(request.user, text, topic)
    template = "memory/_extract.html" if request.htmx else "memory/extract.html"
    return render(request, template, context)


def _search_context(user: User, text: str, topic: Topic | None) -> dict[str, Any]:
    if len(text.strip()) < MIN:
        least = _("Enter at least %(least)d characters.")
        return {"errors": [least % {"least": MIN}]}
    items, by, warning = found_in(user, text, topic)
    return {
        "items": items,
        "is_searched": True,
        "by_model": by == MODEL,
        "warning": warning[:1].upper() + warning[1:],
        "is_cut": len(text) > MAX,
    }


def _saved(request: BeaconRequest, selected: int, new: Sequence[Observation]) -> HttpResponse:
    message = ngettext("Saved %(n)d observation.", "Saved %(n)d observations.", len(new))
    message %= {"n": len(new)}
    if len(new) < selected:
        message += " " + _("The other observations were already stored.")
    undo = offer(request, "observations-new", ids=[str(one.pk) for one in new]) if new else ""
    messages.success(request, message, extra_tags=undo)
    return redirect_to(request, reverse("memory:observations"))


@undoes("observations-new")
def _trash(request: BeaconRequest, ids: list[str]) -> str:
    """Move observations that were just saved to Trash, without those that changed since then.

    Raises MemoryRefused if none is left.
    """
    rows = (
        Observation.objects.for_user(request.user).live().filter(pk__in=[UUID(key) for key in ids])
    )
    with transaction.atomic():
        unchanged = list(rows.filter(version=1))
        if not unchanged:
            raise MemoryRefused(_("There’s nothing left to undo."))
        for one in unchanged:
            one.trash(by=request.actor)
    messages.success(request, _("Moved to Trash for 30 days."))
    return reverse("memory:observations")
