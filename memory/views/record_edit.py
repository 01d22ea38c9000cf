"""Writing, correcting and superseding notes and observations by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.double_submit import idempotent_post
from memory.errors import InvalidValue, MemoryRefused
from memory.forms import records as forms
from memory.models import Note
from memory.notes import writing as notes
from memory.notes.checks import TYPICAL
from memory.observations.writing import write_observation
from memory.records import editing as record_editing
from memory.records import history as record_history
from memory.records.page import model_of
from memory.responses import go_to, next_of, say_cleaned, undo_tag


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
@idempotent_post
def note_new(request: BeaconRequest) -> HttpResponse:
    """Write a note; `?kind=rule` chooses the kind, with what is usual for it."""
    kind = request.GET.get("kind", "")
    first = {"kind": kind} if kind in TYPICAL else {}
    form = forms.NewNoteForm(request.POST or None, owner=request.user, initial=first)
    if request.method == "POST" and form.is_valid():
        fields = form.checked
        try:
            note = notes.write_note(
                request.user, by=request.actor, topic=form.cleaned_data["topic"], **fields
            )
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("The note is remembered."), extra_tags=undo_tag(note))
            say_cleaned(request, form.cleaned_labels)
            return go_to(request, next_of(request, note.get_absolute_url()))
    return _form(request, form, "note", _("New note"))


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
@idempotent_post
def observation_new(request: BeaconRequest) -> HttpResponse:
    """Write an observation."""
    form = forms.NewObservationForm(request.POST or None, owner=request.user)
    if request.method == "POST" and form.is_valid():
        fields = form.checked
        try:
            made = write_observation(
                request.user, by=request.actor, topic=form.cleaned_data["topic"], **fields
            )
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(
                request, _("The observation is remembered."), extra_tags=undo_tag(made)
            )
            say_cleaned(request, form.cleaned_labels)
            return go_to(request, next_of(request, made.get_absolute_url()))
    return _form(request, form, "observation", _("New observation"))


def _form(request: BeaconRequest, form: Any, type: str, heading: str) -> HttpResponse:
    context = {
        "form": form,
        "type": type,
        "heading": heading,
        "list_url": reverse(f"memory:{type}s"),
        "list_name": _("Notes") if type == "note" else _("Observations"),
    }
    template = "memory/_record_new.html" if request.htmx else "memory/record_new.html"
    return render(request, template, context)


def _record(request: BeaconRequest, type: str, pk: UUID) -> Any:
    rows = model_of(type).objects.of(request.user).live()
    record: Any = get_object_or_404(rows, pk=pk)
    record.owner = request.user
    return record


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def edit(request: BeaconRequest, pk: UUID, type: str) -> HttpResponse:
    """Edit a record; where somebody else did meanwhile, put both edits together on one page."""
    record = _record(request, type, pk)
    make = forms.EditNoteForm if type == "note" else forms.EditObservationForm
    form = make(request.POST or None, record=record, initial=forms.initial_of(record))
    context: dict[str, Any] = {"record": record, "type": type, "form": form}
    if request.method == "POST" and "compose" in request.POST:
        context |= _composed(request, record, make)
    elif request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            record_editing.edit(
                record, form.checked, by=request.actor, seen=data["version"], why=data["why"]
            )
        except record_editing.Conflict as exc:
            context |= _merge_screen(exc, make, form.checked["content"], data["why"])
        except InvalidValue as exc:
            form.take(exc)
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            return _saved(request, record, form)
    template = "memory/_record_edit.html" if request.htmx else "memory/record_edit.html"
    return render(request, template, context)


def _saved(request: BeaconRequest, record: Any, form: Any) -> HttpResponse:
    last = record_history.revisions_of(record).first()
    undo = ""
    if last is not None and last.before:
        address = reverse("memory:record-undo", args=[record.record_type(), record.pk, last.pk])
        undo = f"undo:{address}"
    said = _("Saved as version %(version)d.") % {"version": record.version}
    messages.success(request, said, extra_tags=undo)
    say_cleaned(request, form.cleaned_labels)
    return go_to(request, next_of(request, record.get_absolute_url()))


def _merge_screen(
    conflict: record_editing.Conflict, make: Any, mine: str, why: str
) -> dict[str, Any]:
    """Return what the merge screen shows: both edits put together, on the newest version."""
    theirs = conflict.theirs
    typed = forms.as_typed(conflict.fields) | {"version": theirs.version, "why": why}
    return {
        "conflict": conflict,
        "hunks": _hunks(conflict.merge, {}),
        "form": make(record=theirs, initial=typed),
        "mine": mine,
        "base_version": conflict.seen,
    }


def _composed(request: BeaconRequest, record: Any, make: Any) -> dict[str, Any]:
    """Put the words together anew, with the sides that were chosen for each place."""
    form = make(request.POST, record=record)
    form.is_valid()
    seen, based = (_number(request.POST.get(name, "")) for name in ("base_version", "version"))
    mine = {"content": request.POST.get("mine", "").replace("\r\n", "\n")}
    base, theirs = (record_history.words_at(record, version) for version in (seen, based))
    merge = record_editing.merged_words(base, mine, theirs)
    choices = {n: request.POST.get(f"choice-{n}", "") for n in range(len(merge.conflicts))}
    data = request.POST.copy()
    data["content"] = merge.text(choices)
    return {
        "is_composed": True,
        "hunks": _hunks(merge, choices),
        "form": make(record=record, initial=data.dict()),
        "mine": mine["content"],
        "base_version": seen,
    }


def _hunks(merge: Any, choices: dict[int, str]) -> list[tuple[int, Any, str]]:
    """Return each place that both changed, with its number and the side that is chosen."""
    return [(n, part, choices.get(n, "mine")) for n, part in enumerate(merge.conflicts)]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def supersede(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Write the note that stands in for this one from now on."""
    note: Note = _record(request, "note", pk)
    if note.kind in Note.IDENTITY:
        raise Http404
    first = {"content": note.content, "version": note.version}
    form = forms.SupersedeForm(request.POST or None, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = notes.supersede(
                note,
                data["content"],
                by=request.actor,
                expected_version=data["version"],
                why=data["why"],
            )
        except InvalidValue as exc:
            form.add_error("content" if "content" in exc.errors else None, str(exc))
        except MemoryRefused as exc:
            form = _on_newest(request, note)
            form.add_error(None, str(exc))
        else:
            undo = "undo:" + reverse("memory:note-unsupersede", args=[made.pk])
            said = _("The new note stands in for the old one.")
            messages.success(request, said, extra_tags=undo)
            return go_to(request, made.get_absolute_url())
    template = "memory/_note_supersede.html" if request.htmx else "memory/note_supersede.html"
    return render(request, template, {"record": note, "form": form})


def _on_newest(request: BeaconRequest, note: Note) -> forms.SupersedeForm:
    """Return the form with what was typed, on the version that stands now."""
    note.refresh_from_db()
    data = request.POST.copy()
    data["version"] = str(note.version)
    return forms.SupersedeForm(data)
