"""Editing a memory file: the form, its preview, its draft, and two edits put together."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.file_pages import editing as file_editing
from memory.files import drafts as file_drafts
from memory.files.errors import FileConflict, NoSuchFile
from memory.files.limits import OverBudget
from memory.files.services import Saved, save_file
from memory.forms.files import FileForm
from memory.models import FileDraft, FileEntry, MemoryFile
from memory.records import history as record_history
from memory.responses import go_to


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def edit(request: BeaconRequest, path: str) -> HttpResponse:
    """Edit a file's text; where somebody else did meanwhile, put both edits together."""
    file = file_editing.standing(request.user, path)
    if request.method == "POST":
        form = FileForm(request.POST)
        return _composed(request, file) if "compose" in request.POST else _save(request, file, form)
    if (entry := file_editing.entry_of(file, request.GET.get("entry", ""))) is not None:
        return _putting_back(request, file, entry)
    draft = file_drafts.draft_of(request.user, path)
    if not file.version and draft is None:
        raise Http404
    taken_up = draft if "draft" in request.GET or not file.version else None
    context = {"draft": draft, "is_own": taken_up is not None}
    return _editor(request, file, _begun(file, taken_up), **context)


def _begun(file: MemoryFile, draft: FileDraft | None) -> FileForm:
    """Return the form with the file's text, or with that of the draft that is taken up."""
    if draft is None:
        first = {"content": file.content, "seen": file.version, "window": uuid4()}
    else:
        first = {"content": draft.content, "seen": draft.seen, "window": draft.pk}
        first["note"] = draft.note
    return FileForm(initial=first)


def _save(request: BeaconRequest, file: MemoryFile, form: FileForm) -> HttpResponse:
    if not form.is_valid():
        return _editor(request, file, form, **_kept(request, file, form))
    data = form.cleaned_data
    writing = {"by": request.actor, "seen": data["seen"], "why": data["note"]}
    try:
        saved = save_file(request.user, file.path, _ended(data["content"], file), **writing)
    except FileConflict as exc:
        return _merging(request, form, exc)
    except NoSuchFile as exc:
        why = _("%(path)s went to the trash meanwhile. Save again to make it anew with this text.")
        form = FileForm({**request.POST.dict(), "seen": 0})
        form.add_error(None, why % {"path": exc.path})
    except OverBudget as exc:
        meter = file_editing.meter_of(file, data["content"], exc)
        form.add_error("content", str(exc))
        return _editor(request, file, form, meter=meter, **_kept(request, file, form))
    except MemoryRefused as exc:
        form.add_error("content", str(exc))
    else:
        file_drafts.drop_saved_draft(request.user, file.path, data["window"], data["content"])
        return _saved(request, saved, data["seen"])
    return _editor(request, file, form, **_kept(request, file, form))


def _ended(text: str, file: MemoryFile) -> str:
    """Return what was typed with the line break at the file's end that typing there takes away.

    Without it the next line that a program or a shell appends would stand in the last one.
    """
    had_one = not file.content or file.content.endswith("\n")
    return f"{text}\n" if had_one and text and not text.endswith("\n") else text


def _saved(request: BeaconRequest, saved: Saved, seen: int) -> HttpResponse:
    file = saved.file
    said = _("Saved as version %(version)d.")
    if saved.merged:
        said = _(
            "Saved as version %(version)d, together with what was written meanwhile: the two "
            "changes do not touch."
        )
    if file.version == seen:
        messages.info(request, _("Nothing is changed: the file says what it said."))
    else:
        last = record_history.revisions_of(file).defer("after").first()
        undo = "undo:" + reverse("memory:record-undo", args=[file.record_type(), file.pk, last.pk])
        told = said % {"version": file.version}
        messages.success(request, told, extra_tags=undo if last.before else "")
    for warning in saved.warnings:
        messages.warning(request, warning)
    return go_to(request, file.get_absolute_url())


def _kept(request: BeaconRequest, file: MemoryFile, form: FileForm) -> dict[str, Any]:
    """Keep what the form holds as this window's draft; return what is said of drafts beside it."""
    form.is_valid()
    data = form.cleaned_data
    if "window" not in data:
        return {"draft": file_drafts.draft_of(request.user, file.path)}
    content, note = (str(form.data.get(name, "")) for name in ("content", "note"))
    seen, window = data.get("seen") or 0, data["window"]
    try:
        draft = file_drafts.keep_draft(
            request.user, file.path, content, note=note, seen=seen, window=window
        )
    except file_drafts.DraftTaken as exc:
        taken = file_drafts.draft_of(request.user, file.path)
        return {"draft": taken, "draft_problem": str(exc)}
    return {"draft": draft, "is_own": draft is not None and draft.pk == window}


def _merging(request: BeaconRequest, form: FileForm, conflict: FileConflict) -> HttpResponse:
    """Show the merge screen: both edits put together, on the version that stands."""
    file = file_editing.standing(request.user, conflict.path)
    kept = _kept(request, file, form)
    clash = file_editing.clash_of(file, conflict, form.cleaned_data["seen"])
    again = {"content": clash.text, "seen": conflict.version}
    form = FileForm(initial=form.cleaned_data | again)
    return _editor(request, file, form, clash=clash, **kept)


def _putting_back(request: BeaconRequest, file: MemoryFile, entry: FileEntry) -> HttpResponse:
    """Show the merge screen of a section from the trash whose place says something else now."""
    clash = file_editing.entry_clash(entry, file)
    first = {"content": clash.text, "seen": file.version, "window": uuid4()}
    first["note"] = _("put back from the trash")
    return _editor(request, file, FileForm(initial=first), clash=clash, entry=entry)


def _composed(request: BeaconRequest, file: MemoryFile) -> HttpResponse:
    """Put the two edits together anew, with the sides that were chosen for each place."""
    seen, based = (_number(request.POST.get(name, "")) for name in ("base_version", "seen"))
    mine = request.POST.get("mine", "")
    clash = file_editing.composed(file, mine, seen=seen, based=based, choices=request.POST)
    form = FileForm({**request.POST.dict(), "content": clash.text})
    return _editor(request, file, form, clash=clash, **_kept(request, file, form))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


@require_POST
@login_required
@vary_on_headers("HX-Request")
def preview(request: BeaconRequest, path: str) -> HttpResponse:
    """Show what was typed as its page would, with what it changes; nothing is stored."""
    file = file_editing.standing(request.user, path)
    form = FileForm(request.POST)
    text = request.POST.get("content", "")
    shown = {"preview": file_editing.preview_of(file, text)}
    if request.htmx:
        meter = file_editing.meter_of(file, text)
        return render(request, "memory/_file_preview.html", {"file": file, "meter": meter, **shown})
    kept = file_drafts.draft_of(request.user, path)
    is_own = kept is not None and str(kept.pk) == request.POST.get("window")
    return _editor(request, file, form, draft=kept, is_own=is_own, **shown)


@require_POST
@login_required
@vary_on_headers("HX-Request")
def draft(request: BeaconRequest, path: str) -> HttpResponse:
    """Keep what was typed as a draft, or drop the one that is kept."""
    file = file_editing.standing(request.user, path)
    form = FileForm(request.POST)
    dropped = request.POST.get("drop", "")
    here = reverse("memory:file-edit", args=[path])
    if dropped:
        kept = _dropped(request, path, dropped)
        if dropped == request.POST.get("window"):
            return go_to(request, here if file.version else reverse("memory:files"))
    else:
        kept = _kept(request, file, form)
    if request.htmx:
        return render(request, "memory/_file_draft.html", {"file": file, **kept})
    if kept.get("is_own") and not dropped:
        messages.success(request, _("Your draft is kept. Nothing is saved to the file yet."))
        return redirect(f"{here}?draft=1")
    return _editor(request, file, form, **kept)


def _dropped(request: BeaconRequest, path: str, dropped: str) -> dict[str, Any]:
    kept = file_drafts.draft_of(request.user, path)
    if kept is not None and str(kept.pk) == dropped:
        file_drafts.drop_draft(request.user, path, kept.pk)
        return {}
    return {"draft": kept}


def _editor(request: BeaconRequest, file: MemoryFile, form: FileForm, **more: Any) -> HttpResponse:
    clash = more.get("clash")
    if "meter" not in more:
        more["meter"] = file_editing.meter_of(file, str(form["content"].value() or ""))
    context: dict[str, Any] = {"file": file, "form": form, "tab": "edit", **more}
    if clash:  # the words that the merge screen of notes goes by
        context |= {
            "conflict": clash if clash.is_first else None,
            "hunks": clash.hunks,
            "mine": clash.mine,
            "base_version": clash.base_version,
        }
    template = "memory/_file_edit.html" if request.htmx else "memory/file_edit.html"
    return render(request, template, context)
