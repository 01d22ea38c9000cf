"""Pages of notes and observations: lists, one record with its history, actions, merge and undo."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import number_of, uuids_of, versions_sent
from beacon_site.text.markdown import by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.text.names import names_in
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    get_owned_or_404,
    next_of,
    redirect_back,
    redirect_to,
    report_cleaned,
    signed_in,
)
from memory.models import BulkAction, Note, Observation, Remembered, Revision
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.models.remembered import Lock, record_models
from memory.pages.records import bulk, saved_views
from memory.pages.records import listing as record_listing
from memory.pages.records import record as record_page
from memory.pages.records.editing import InlineForm
from memory.pages.records.listing import (
    BEST,
    BY_TYPE,
    NOTES,
    OBSERVATIONS,
    SORTS,
    ListedKind,
    ListQuery,
    row_words,
    title_of,
    words_of,
)
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import FilterBar
from memory.pages.shared.undo import offer, toast_with_undo, undoes
from memory.services.llm import connections
from memory.services.notes import merging
from memory.services.notes.saving import edit_note
from memory.services.observations.saving import edit_observation
from memory.services.records import acts as record_acts
from memory.services.records import history as record_history
from memory.services.records import kinds as record_kinds
from memory.services.records import traces
from memory.services.records import trash as trash_listing
from memory.services.search.bm25_sql import language_of
from memory.services.search.names import known_in
from memory.services.search.query import MAX_TEXT
from memory.services.search.related import text_of


def _requested_ids(data: Any) -> list[UUID]:
    """Return the IDs in a URL or a form, each once, without invalid ones."""
    texts = ",".join([*data.getlist("ids"), *data.getlist("id")]).split(",")
    return uuids_of(text.strip() for text in texts)[: merging.MAX + 1]


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def merge(request: BeaconRequest) -> HttpResponse:
    """Show the merged text of the selected notes; a POST merges them, or asks the model first."""
    posted = request.method == "POST"
    data = request.POST if posted else request.GET
    ids = _requested_ids(data)
    notes = sorted(
        Note.objects.for_user(request.user).filter(pk__in=ids), key=lambda note: note.created
    )
    context: dict[str, Any] = {
        "notes": notes,
        "content": data.get("content", "") if posted else merging.concatenation(notes),
        "is_sensitive": any(note.sensitivity == "sensitive" for note in notes),
        "has_model": connections.llm_profile() is not None,
    }
    if posted and "propose" in data:
        proposal = merging.proposed(notes, owner=request.user)
        context |= {"content": proposal.content, "proposal": proposal}
    elif posted:
        try:
            made, _proposal = merging.merge(
                request.user,
                ids,
                by=request.actor,
                content=data.get("content", ""),
                versions=_versions(data, ids),
            )
        except StaleWrite as exc:
            context |= {"problem": str(exc), "is_stale": True}
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            return _merged(request, made, len(notes))
    context["texts"] = [(one, by_direction(render_markdown(one.content[:1000]))) for one in notes]
    template = "memory/_notes_merge.html" if request.htmx else "memory/notes_merge.html"
    return render(request, template, context)


def _versions(data: Any, ids: list[UUID]) -> dict[UUID, int]:
    """Return the version of each note that was seen."""
    seen = {key: number_of(data.get(f"version-{key}", "")) for key in ids}
    return {key: version for key, version in seen.items() if version is not None}


def _merged(request: BeaconRequest, note: Note, count: int) -> HttpResponse:
    message = ngettext(
        "%(count)d note was merged into this one. Its text remains in this note’s history.",
        "%(count)d notes were merged into this one. Their text remains in this note’s history.",
        count,
    )
    undo = offer(request, "unmerge", key=note.pk)
    messages.success(request, message % {"count": count}, extra_tags=undo)
    report_cleaned(request, [_("Note")] if note.cleaned else [])
    return redirect_to(request, note.get_absolute_url())


@undoes("unmerge", key=UUID)
def _unmerge(request: BeaconRequest, key: UUID) -> str | HttpResponse:
    """Undo a merge or a replacement: the older notes are current again, this one goes to Trash."""
    note: Note = get_object_or_404(Note.objects.for_user(request.user), pk=key)
    originals = merging.unmerge(note, by=request.actor)
    message = ngettext(
        "Undone. The older note is current again, and the newer one is in Trash.",
        "Undone. The %(count)d older notes are current again, and the newer one is in Trash.",
        len(originals),
    )
    messages.success(request, message % {"count": len(originals)})
    back = originals[0].get_absolute_url()
    # If it was undone on the newer note's own page, go to the older one.
    return redirect_to(request, back) if next_of(request) == note.get_absolute_url() else back


# --- one record ---

PANELS = ("panel", "record-panel")


def _record(request: BeaconRequest, type: str, pk: UUID) -> Any:
    """Return the person's own record, also from Trash; 404 for another's."""
    rows = record_page.model_of(type).objects.for_user(request.user)
    return get_owned_or_404(request, rows.select_related("topic"), pk)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
@at_a_date
def record(request: BeaconRequest, pk: UUID, type: str) -> HttpResponse:
    """Show a record as a page, or as the panel beside a list."""
    found = _record(request, type, pk)
    asked = request.GET.get("panel") == "1" or request.htmx.target in PANELS
    in_panel = bool(request.htmx) and asked
    template = "memory/_record_panel.html" if in_panel else "memory/record.html"
    context = {
        "page": record_page.page_of(found),
        "record": found,
        "in_panel": in_panel,
        "here": record_page.list_of(request),
    }
    if not in_panel and found.trashed_at is None:
        context["names"] = names_of(found)
    return render(request, template, context)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def history(request: BeaconRequest, pk: UUID, type: str) -> HttpResponse:
    """Show who changed the record, when, why and how, and compare any two versions."""
    found = _record(request, type, pk)
    context: dict[str, Any] = {
        "record": found,
        "type": type,
        "versions": range(found.version, 0, -1)[:200],
        "comparison": _comparison(request, found),
        "is_whole": request.GET.get("show") == "all",
        "as_text": request.GET.get("view") != "lines",
    }
    if request.htmx and request.htmx.target == "record-compare":
        return render(request, "memory/_record_compare.html", context)
    page = record_history.history_of(found, cursor=request.GET.get("cursor", ""))
    context |= {"changes": page.rows, "next_cursor": page.next_cursor}
    return render(request, "memory/record_history.html", context)


def _comparison(request: BeaconRequest, record: Remembered) -> Any:
    """Return the two versions in the URL, the older first; None if there are none."""
    older, newer = versions_sent(request.GET)
    if not 1 <= older <= record.version or newer > record.version:
        return None
    whole = request.GET.get("show") == "all"
    return record_history.compare(record, older, newer, whole=whole)


# --- actions on one record ---

# Research has its own pages for these types, but these actions on them are done here.
OWN_PAGES = {"topic": ("restore",), "report": ("restore", "purge")}


def _record_to_change(request: BeaconRequest, type: str, pk: UUID, *, act: str = "restore") -> Any:
    model = record_models().get(type)
    if model is None or act not in OWN_PAGES.get(type, (act,)):
        raise Http404
    return get_owned_or_404(request, model.objects.for_user(request.user), pk)


def page_of(record: Any) -> str:
    """Return the URL of the record's own page, or of Trash for one that has no page there."""
    is_shown = record.trashed_at is None or record.record_type() in record_page.TYPES
    return str(record.get_absolute_url()) if is_shown else reverse("memory:trash")


@signed_in("POST")
def act(request: BeaconRequest, type: str, pk: UUID, act: str) -> HttpResponse:
    """Carry out an action, report it with an Undo, and show the record again."""
    record = _record_to_change(request, type, pk, act=act)
    said = str(record_acts.ACTS[act].said(record))
    value, name = request.POST.get("lock", ""), str(record)
    revision = record_acts.perform(act, record, by=request.actor, value=value)
    if act == "restore" and str(record) != name:
        said = trash_listing.renamed(name, record)
    if revision is not None:
        undo = offer(request, "revision", key=revision.pk)
        messages.success(request, said, extra_tags=undo)
    return _show_again(request, record)


def _show_again(request: BeaconRequest, record: Any) -> HttpResponse:
    """Show the panel again if the action came from there, else the page that sent it."""
    if request.htmx and request.htmx.target == "record-panel":
        record.refresh_from_db()
        page = record_page.page_of(record)
        context = {
            "page": page,
            "record": record,
            "in_panel": True,
            "here": record_page.list_of(request),
        }
        response = render(request, "memory/_record_panel.html", context)
        response["HX-Trigger"] = "record-changed"
        return response
    return redirect_back(request, page_of(record))


@undoes("revision", key=int)
def _undo_revision(request: BeaconRequest, key: int) -> str:
    """Undo one change of a record, as a new revision."""
    revision = get_object_or_404(Revision.objects.for_user(request.user), pk=key)
    name = str(record_history.record_of(revision))
    record = record_history.undo(revision, by=request.actor)
    was_renamed = "trashed_at" in revision.after and str(record) != name
    said = trash_listing.renamed(name, record) if was_renamed else _("Change undone.")
    toast_with_undo(request, record, said)
    return page_of(record)


@signed_in("POST")
def restore_revision(request: BeaconRequest, type: str, pk: UUID, revision: int) -> HttpResponse:
    """Restore the record as it was in an older revision, as a new one."""
    record = _record_to_change(request, type, pk)
    revisions = Revision.objects.for_user(request.user).filter(record_type=type, record_id=pk)
    before = record.version
    record = record_history.restore_to(get_object_or_404(revisions, pk=revision), by=request.actor)
    message = _("Version restored. The previous one stays in the history.")
    toast_with_undo(request, record, message, seen=before)
    return redirect_back(request, page_of(record))


@signed_in("GET", "POST")
def purge(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Permanently delete a record in Trash, after its name is typed."""
    record = _record_to_change(request, type, pk, act="purge")
    context: dict[str, Any] = {
        "record": record,
        "type": type,
        "noun": record_kinds.kind_of(type).noun,
        "name": record_acts.typed_name(record),
        "next": next_of(request, reverse("memory:trash")),
        "predecessors": record.supersedes.count() if isinstance(record, Note) else 0,
        "goes": trash_listing.deletion_summary(record),
        "stays": record_kinds.kind_of(type).stays,
        "repeats": traces.what_stays(record),
    }
    if request.method == "POST":
        typed = request.POST.get("name", "")
        try:
            record_acts.purge(record, typed=typed, by=request.actor)
        except InvalidValue as exc:
            context |= {"problem": str(exc), "typed": typed}
        else:
            messages.success(request, _("Permanently deleted, including its history."))
            return redirect_to(request, context["next"])
    template = "memory/_record_purge.html" if request.htmx else "memory/record_purge.html"
    return render(request, template, context)


# --- lists ---

JUST = timedelta(minutes=2)  # how long a finished large action is still shown


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def notes(request: BeaconRequest) -> HttpResponse:
    """List the person's notes; over htmx only the list."""
    return _list(request, NOTES)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def observations(request: BeaconRequest) -> HttpResponse:
    """List the person's observations; over htmx only the list."""
    return _list(request, OBSERVATIONS)


def _list(request: BeaconRequest, listed: ListedKind) -> HttpResponse:
    facets = record_listing.facets_of(request.user, listed, request.GET.get("q", ""))
    query = filter_bar.read(request.GET, facets)
    wanted = ListQuery.of(listed, query)
    records = record_listing.records_wanted(request.user, wanted)
    cursor = request.GET.get("cursor", "")
    page = record_listing.page_wanted(request.user, wanted, records, cursor=cursor)
    total = record_listing.counted(records)
    values = words_of(listed, total, record_listing.MAX_COUNTED)
    context = {
        "listed": listed,
        "wanted": wanted,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "title": title_of(listed),
        "words": values,
        "say": row_words(),
        "list_url": reverse(f"memory:{listed.page}"),
        "here": request.get_full_path(),
        "problems": wanted.question.problems,
        "bar": FilterBar(
            reverse(f"memory:{listed.page}"), "records", query,
            label=values["search"], placeholder=values["search"], count=values["count"], facets=facets, sorts=_sorts(wanted),
            views_page=listed.page, has_operators=True, most=MAX_TEXT,
            views=saved_views.views_of(request.user, listed.page, wanted.query),
        ),
        "acts": [] if request.date.is_past else _large_acts(request, listed),
        "categories": Observation.Category.choices if listed is OBSERVATIONS else (),
        "locks": [choice for choice in Lock.choices if choice[0] != Lock.OPEN],
    }  # fmt: skip
    template = "memory/_records.html" if request.htmx else "memory/records.html"
    return render(request, template, context)


def _sorts(query: ListQuery) -> dict[str, Any]:
    """Return the orders that make sense here, the usual one first."""
    names = list(query.listed.sorts)
    if query.question.words and not query.is_trash:
        names.insert(0, BEST)
    return {name: SORTS[name][2] for name in names}


def _large_acts(request: BeaconRequest, listed: ListedKind) -> list[dict[str, Any]]:
    """Return this list's actions that a task is doing or has just done: one query."""
    lately = Q(finished_at__gt=timezone.now() - JUST, total__gt=bulk.AT_ONCE)
    acts = BulkAction.objects.for_user(request.user).filter(page=listed.page)
    acts = acts.filter(lately | Q(finished_at=None))
    return [
        {"act": act, "doing": bulk.action_labels(act.act)[1], "outcome": bulk.outcome(act)}
        for act in acts[:5]
    ]


@signed_in("GET", "POST")
def record_inline(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Show a row as a form, and save it; if someone else changed it, say so and keep the text."""
    listed = BY_TYPE.get(type)
    if listed is None:
        raise Http404
    model: Any = listed.model
    record = get_object_or_404(model.objects.for_user(request.user).live(), pk=pk)
    if request.GET.get("cancel"):
        return _row(request, listed, pk)
    first = {
        "content": record.content, "tags": ", ".join(record.tags), "version": record.version
    }  # fmt: skip
    form = InlineForm(request.POST if request.method == "POST" else None, initial=first)
    context: dict[str, Any] = {
        "listed": listed,
        "record": record,
        "form": form,
        "title": title_of(listed),
        "cancel_url": reverse(f"memory:{listed.page}"),
        "edit_url": reverse(f"memory:{listed.type}-edit", args=[pk]),
    }
    if request.method == "POST" and form.is_valid():
        try:
            _save(listed, record, form.cleaned_data, request)
        except StaleWrite as exc:
            theirs = get_object_or_404(model.objects.for_user(request.user).live(), pk=pk)
            context |= {"record": theirs, **form.on_newest(theirs, exc)}
        except MemoryRefused as exc:
            form.take(exc)
        else:
            message = _("Saved. The previous version is in the history.")
            toast_with_undo(request, record, message, seen=form.cleaned_data["version"])
            if request.htmx:
                return _row(request, listed, pk)
            return redirect(f"memory:{listed.page}")
    template = "memory/_record_row_form.html" if request.htmx else "memory/record_inline.html"
    return render(request, template, context)


def _save(listed: ListedKind, record: Any, data: dict[str, Any], request: BeaconRequest) -> None:
    save: Any = edit_note if listed is NOTES else edit_observation
    save(
        record,
        by=request.actor,
        expected_version=data["version"],
        content=data["content"],
        tags=data["tags"],
    )


def _row(request: BeaconRequest, listed: ListedKind, pk: UUID) -> HttpResponse:
    row = record_listing.row_of(request.user, listed, pk)
    list_url = reverse(f"memory:{listed.page}")
    words = row_words()
    context = {"row": row, "listed": listed, "list_url": list_url, "say": words, "alone": True}
    return render(request, "memory/_record_row.html", context)


# --- any record ---


@signed_in("GET", "HEAD")
def record_open(request: BeaconRequest, kind: str, pk: uuid.UUID) -> HttpResponse:
    """Redirect to the page of one of the person's records."""
    model = record_models().get(kind)
    if model is None:
        raise Http404
    record = get_object_or_404(model.objects.for_user(request.user), pk=pk)
    if record.trashed_at is not None:
        return redirect(f"{reverse('memory:trash')}?{urlencode({'type': kind})}")
    return redirect(record)


MAX_NAMES = 12


def names_of(record: Any) -> list[str]:
    owner = record.owner
    found = known_in(owner, names_in(text_of(record), language_of(owner)))
    return [one.name for one in found[:MAX_NAMES]]
