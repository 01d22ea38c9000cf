"""Pages of memory files: list, one file, editing, condensing, history, blame, timeline and locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site import health
from beacon_site.db import keyset
from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import number_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    cleaned_of,
    next_of,
    redirect_to,
    report_cleaned,
    signed_in,
)
from memory.models import FileDraft, FileEntry, MemoryFile, MountedFolder
from memory.models.errors import MemoryRefused
from memory.models.file_format import MOUNTED, month_of
from memory.models.remembered import Lock
from memory.pages.files import editing
from memory.pages.files import history as file_history
from memory.pages.files.editing import (
    EpisodeForm,
    FileForm,
    budget,
    budget_of,
    file_or_404,
    file_rows,
    page_of,
    tree_of,
)
from memory.pages.records import saved_views
from memory.pages.records.editing import COMPOSING, MERGING, merge_screen, merged_again
from memory.pages.remember import new_lines, warn_of
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import toast_with_undo
from memory.services.files import agent_folders
from memory.services.files import condensing as file_condensing
from memory.services.files import saving as file_drafts
from memory.services.files.condensing import CannotAskModel, CondenseProposal, CondenseRequest
from memory.services.files.saving import SaveResult, restore_version, save_file
from memory.services.files.texts import (
    MAX_FACTS,
    FileConflict,
    NoSuchFile,
    OverBudget,
    content_at,
    merge_changes,
)
from memory.services.llm import connections
from memory.services.records import acts as record_acts
from memory.services.records import history as record_history


@signed_in("GET", "POST")
@vary_on_headers("HX-Request", "HX-Target")
def condense(request: BeaconRequest, path: str) -> HttpResponse:
    """Show a shorter text, made by rules or by the model after a POST.  Nothing is stored.

    While the model is working (`asked` in the URL), a poll gets an empty answer (204).
    """
    file = file_or_404(request, path)
    asked = CondenseRequest.of(request.GET.get("asked", ""))
    problem = ""
    if request.method == "POST":
        try:
            asked = file_condensing.ask(request.user, file)
        except CannotAskModel as exc:
            asked, problem = None, str(exc)
        else:
            if not request.htmx:
                return redirect(_address(file, asked))
    shorter = file_condensing.proposed(file, asked) if asked else None
    if asked and shorter is None and request.method == "GET" and _in_place(request):
        return HttpResponse(status=204)
    response = _page(request, file, shorter, asked, problem)
    if request.method == "POST" and asked:
        response["HX-Push-Url"] = _address(file, asked)
    return response


def _page(
    request: BeaconRequest,
    file: MemoryFile,
    shorter: CondenseProposal | None,
    condensing: CondenseRequest | None,
    problem: str,
) -> HttpResponse:
    is_waiting = condensing is not None and shorter is None
    context = {
        "file": file,
        "tab": "condense",
        "shorter": shorter or file_condensing.by_rule(file, problem=problem),
        "waiting": _address(file, condensing) if is_waiting and condensing else "",
        "since": condensing.at if condensing else None,
        "is_silent": is_waiting and "upkeep" in health.silent(health.ages()),
        "budget": budget_of(request.user, file),
        "has_model": connections.llm_profile() is not None,
        "no_model": file_condensing.why_no_model(file),
        "window": uuid4(),
    }
    template = "_file_condense" if _in_place(request) else "file_condense"
    return render(request, f"memory/{template}.html", context)


def _in_place(request: BeaconRequest) -> bool:
    return bool(request.htmx) and request.htmx.target == "file-condense"


def _address(file: MemoryFile, asked: CondenseRequest) -> str:
    return f"{reverse('memory:file-condense', args=[file.path])}?asked={asked}"


# --- editing ---


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def edit(request: BeaconRequest, path: str) -> HttpResponse:
    """Edit a file's text; if someone else did too, merge both edits."""
    file = editing.current_or_new(request.user, path)
    sent = request.POST
    if MERGING & sent.keys():
        text, screen = merged_again(sent, partial(content_at, file), merge_changes, based_on="seen")
        form = FileForm({**sent.dict(), "content": text})
        if COMPOSING & sent.keys():
            return _editor(request, file, form, **screen, **_save_draft(request, file, form))
        return _save(request, file, form)
    if request.method == "POST":
        return _save(request, file, FileForm(sent))
    if (entry := editing.entry_of(file, request.GET.get("entry", ""))) is not None:
        return _putting_back(request, file, entry)
    draft = file_drafts.draft_of(request.user, path)
    if not file.version and draft is None:
        raise Http404
    taken_up = draft if "draft" in request.GET or not file.version else None
    context = {"draft": draft, "is_own": taken_up is not None}
    return _editor(request, file, _begun(file, taken_up), **context)


def _begun(file: MemoryFile, draft: FileDraft | None) -> FileForm:
    """Return the form with the file's text, or with that of the resumed draft."""
    if draft is None:
        first = {"content": file.content, "seen": file.version, "window": uuid4()}
    else:
        first = {"content": draft.content, "seen": draft.seen, "window": draft.pk}
        first["note"] = draft.note
    form = FileForm(initial=first)
    form.fields["content"].widget.attrs["autofocus"] = True
    return form


def _save(request: BeaconRequest, file: MemoryFile, form: FileForm) -> HttpResponse:
    if not form.is_valid():
        return _editor(request, file, form, **_save_draft(request, file, form))
    data = form.cleaned_data
    writing = {"by": request.actor, "seen": data["seen"], "why": data["note"]}
    try:
        saved = save_file(request.user, file.path, _ended(data["content"], file), **writing)
    except FileConflict as exc:
        return _merging(request, form, exc)
    except NoSuchFile as exc:
        why = _("%(path)s has since been moved to Trash. Save again to create it with this text.")
        form = FileForm({**request.POST.dict(), "seen": 0})
        form.add_error(None, why % {"path": exc.path})
    except OverBudget as exc:
        meter = editing.meter_of(file, data["content"], exc)
        form.add_error("content", str(exc))
        return _editor(request, file, form, meter=meter, **_save_draft(request, file, form))
    except MemoryRefused as exc:
        form.add_error("content", str(exc))
    else:
        file_drafts.drop_saved_draft(request.user, file.path, data["window"], data["content"])
        warn_of(request, new_lines(file.content, saved.file.content), but=saved.file)
        return _saved(request, saved, data["seen"])
    return _editor(request, file, form, **_save_draft(request, file, form))


def _ended(text: str, file: MemoryFile) -> str:
    """Return the typed text with the final line break that browsers remove.

    Without it, the next line that an app appends would be joined to the last one.
    """
    had_one = not file.content or file.content.endswith("\n")
    return f"{text}\n" if had_one and text and not text.endswith("\n") else text


def _saved(request: BeaconRequest, saved: SaveResult, seen: int) -> HttpResponse:
    file = saved.file
    message = _("Saved as version %(version)d.")
    if saved.merged:
        message = _("Saved as version %(version)d, merged with other changes made in the meantime.")
    toast_with_undo(request, file, message % {"version": file.version}, seen=seen)
    for warning in saved.warnings:
        messages.warning(request, warning)
    return redirect_to(request, file.get_absolute_url())


def _save_draft(request: BeaconRequest, file: MemoryFile, form: FileForm) -> dict[str, Any]:
    """Save the form's text as this window's draft; return the notices about other drafts."""
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
    except file_drafts.DraftConflictError as exc:
        taken = file_drafts.draft_of(request.user, file.path)
        return {"draft": taken, "draft_problem": str(exc)}
    return {"draft": draft, "is_own": draft is not None and draft.pk == window}


def _merging(request: BeaconRequest, form: FileForm, conflict: FileConflict) -> HttpResponse:
    """Show the merge screen: both edits merged, based on the current version."""
    file = editing.current_or_new(request.user, conflict.path)
    kept = _save_draft(request, file, form)
    seen = form.cleaned_data["seen"]
    screen = merge_screen(conflict.merge, conflict.mine, seen)
    writers = {"writers": record_history.writers_since(file, seen)}
    again = {"content": conflict.merge.text(), "seen": conflict.version}
    form = FileForm(initial=form.cleaned_data | again)
    return _editor(request, file, form, conflict=writers, **screen, **kept)


def _putting_back(request: BeaconRequest, file: MemoryFile, entry: FileEntry) -> HttpResponse:
    """Show the merge screen of a section from Trash whose place now has another text."""
    text, screen = editing.entry_clash(entry, file)
    first = {"content": text, "seen": file.version, "window": uuid4()}
    first["note"] = _("restored from Trash")
    return _editor(request, file, FileForm(initial=first), entry=entry, **screen)


@signed_in("POST")
@vary_on_headers("HX-Request")
def preview(request: BeaconRequest, path: str) -> HttpResponse:
    """Preview the typed text as a page, with its changes; nothing is stored."""
    file = editing.current_or_new(request.user, path)
    form = FileForm(request.POST)
    text = request.POST.get("content", "")
    shown = {"preview": editing.preview_of(file, text)}
    if request.htmx:
        meter = editing.meter_of(file, text)
        return render(request, "memory/_file_preview.html", {"file": file, "meter": meter, **shown})
    kept = file_drafts.draft_of(request.user, path)
    is_own = kept is not None and str(kept.pk) == request.POST.get("window")
    return _editor(request, file, form, draft=kept, is_own=is_own, **shown)


@signed_in("POST")
@vary_on_headers("HX-Request")
def draft(request: BeaconRequest, path: str) -> HttpResponse:
    """Save the typed text as a draft, or discard the existing draft."""
    file = editing.current_or_new(request.user, path)
    form = FileForm(request.POST)
    dropped = request.POST.get("drop", "")
    here = reverse("memory:file-edit", args=[path])
    if dropped:
        kept = _dropped(request, path, dropped)
        if dropped == request.POST.get("window"):
            return redirect_to(request, here if file.version else reverse("memory:files"))
    else:
        kept = _save_draft(request, file, form)
    if request.htmx:
        kept["base_version"] = number_of(request.POST.get("base_version", ""))
        return render(request, "memory/_file_draft.html", {"file": file, **kept})
    if kept.get("is_own") and not dropped:
        messages.success(request, _("Draft saved. The file hasn’t changed yet."))
        return redirect(f"{here}?draft=1")
    return _editor(request, file, form, **kept)


def _dropped(request: BeaconRequest, path: str, dropped: str) -> dict[str, Any]:
    kept = file_drafts.draft_of(request.user, path)
    if kept is not None and str(kept.pk) == dropped:
        file_drafts.drop_draft(request.user, path, kept.pk)
        return {}
    return {"draft": kept}


def _editor(request: BeaconRequest, file: MemoryFile, form: FileForm, **more: Any) -> HttpResponse:
    if "meter" not in more:
        more["meter"] = editing.meter_of(file, str(form["content"].value() or ""))
    context: dict[str, Any] = {"file": file, "form": form, "tab": "edit", **more}
    template = "memory/_file_edit.html" if request.htmx else "memory/file_edit.html"
    return render(request, template, context)


# --- entries ---


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def episode_new(request: BeaconRequest) -> HttpResponse:
    """Write an entry; a month's first entry creates its file."""
    first = {"date": timezone.localdate()}
    form = EpisodeForm(request.POST if request.method == "POST" else None, initial=first)
    if request.method == "POST" and form.is_valid():
        try:
            saved = editing.write_episode(request.user, form.cleaned_data, by=request.actor)
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            params = {"path": saved.file.path, "version": saved.file.version}
            message = _("Added to %(path)s, version %(version)d.") % params
            toast_with_undo(request, saved.file, message)
            report_cleaned(request, cleaned_of(form))
            for warning in saved.warnings:
                messages.warning(request, warning)
            return redirect_to(request, saved.file.get_absolute_url())
    template = "memory/_episode_new.html" if request.htmx else "memory/episode_new.html"
    return render(request, template, {"form": form})


# --- history ---


@signed_in("GET", "HEAD")
def history(request: BeaconRequest, path: str) -> HttpResponse:
    """Show who changed the file, when, why and by how much, latest change first."""
    file = file_or_404(request, path)
    page = file_history.history_of(file, cursor=request.GET.get("cursor", ""))
    context = {
        "file": file,
        "tab": "history",
        "changes": page.rows,
        "next_cursor": page.next_cursor,
    }
    return render(request, "memory/file_history.html", context)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def compare(request: BeaconRequest, path: str) -> HttpResponse:
    """Show the differences between any two versions, inline or side by side."""
    file = file_or_404(request, path)
    context: dict[str, Any] = {
        "file": file,
        "tab": "history",
        "comparison": file_history.compare(file, request.GET),
    }
    in_place = request.htmx and request.htmx.target == "file-compare"
    template = "memory/_file_compare.html" if in_place else "memory/file_compare.html"
    return render(request, template, context)


@signed_in("POST")
def restore(request: BeaconRequest, path: str) -> HttpResponse:
    """Restore the text of an older version as a new version."""
    file = file_or_404(request, path)
    wanted, seen = (number_of(request.POST.get(name, "")) or 0 for name in ("version", "seen"))
    try:
        saved = restore_version(
            request.user, path, wanted, by=request.actor, seen=seen or file.version
        )
    except FileConflict as exc:
        messages.warning(
            request,
            _(
                "Nothing was restored because %(path)s has changed and is now at version %(version)d. The changes below show what restoring version %(wanted)d would do now."
            )
            % {"path": path, "version": exc.version, "wanted": wanted},
        )
        here = reverse("memory:file-compare", args=[path])
        return redirect_to(request, f"{here}?from={wanted}&to={exc.version}")
    message = _("Version %(version)d restored.") % {"version": wanted}
    toast_with_undo(request, saved.file, message, seen=file.version)
    return redirect_to(request, file.get_absolute_url())


@signed_in("GET", "HEAD")
def blame(request: BeaconRequest, path: str) -> HttpResponse:
    """Show for each line who wrote it, when, why and in which run; also for older versions."""
    file = file_or_404(request, path)
    version, line = (number_of(request.GET.get(name, "")) or 0 for name in ("version", "line"))
    page = file_history.blame_of(file, version=version, line=line or 1)
    context = {"file": file, "tab": "blame", "page": page}
    return render(request, "memory/file_blame.html", context)


@signed_in("GET", "HEAD")
def timeline(request: BeaconRequest, path: str) -> HttpResponse:
    """Show a month's entries by day, with any problems; other files have none."""
    if not month_of(path):
        raise Http404
    file = file_or_404(request, path)
    page = file_history.timeline_of(file, begin=number_of(request.GET.get("from", "")) or 0)
    context = {"file": file, "tab": "timeline", "page": page}
    return render(request, "memory/file_timeline.html", context)


# --- locks ---


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def lock(request: BeaconRequest, path: str) -> HttpResponse:
    """Show what agents can't change, and lock or unlock the file or one of its sections."""
    file = file_or_404(request, path)
    if request.method == "POST":
        version = file.version
        said = _set(request, file)
        file = file_or_404(request, path)
        toast_with_undo(request, file, said, seen=version)
        if not request.htmx:
            return redirect_to(request, _next(request))
    context = {
        "file": file,
        "tab": "lock",
        "locks": Lock.choices,
        "page": editing.sections_to_lock(file, begin=number_of(request.GET.get("from", "")) or 0),
    }
    in_place = request.htmx and request.htmx.target == "file-locks"
    template = "memory/_file_locks.html" if in_place else "memory/file_locks.html"
    return render(request, template, context)


def _next(request: BeaconRequest) -> str:
    """Return the next page: the section from which it was locked, else this page."""
    anchor = request.POST.get("lock-section") or request.POST.get("unlock") or ""
    page = next_of(request)
    return f"{page}#{anchor}" if page else request.get_full_path()


def _set(request: BeaconRequest, file: MemoryFile) -> str:
    """Carry out the form's action, and return its message."""
    for name, text in (("lock-section", _("Locked: %(it)s")), ("unlock", _("Unlocked: %(it)s"))):
        if anchor := request.POST.get(name):
            locked = name == "lock-section"
            heading = editing.set_section(file, anchor, by=request.actor, locked=locked)
            return text % {"it": heading}
    record_acts.perform("lock", file, by=request.actor, value=request.POST.get("lock", ""))
    return _("Agent access set to “%(lock)s”.") % {"lock": file.get_lock_display()}


# --- files ---


@signed_in("GET", "HEAD")
@at_a_date
def file_list(request: BeaconRequest) -> HttpResponse:
    """List all files: facts with their budget, episodes by month."""
    facts, episodes, own = tree_of(request.user)
    groups = {
        "facts": (_("Long-term facts"), facts),
        "journal": (_("Journal"), episodes),
        "agents": (_("Agents’ own files"), own),
    }
    states: dict[str, tuple[str, Callable[[editing.Row], bool]]] = {
        "draft": (_("unsaved draft"), lambda row: row["has_draft"]),
        "locked": (_("locked"), lambda row: row["file"].lock != Lock.OPEN),
        "problem": (_("not imported from disk"), lambda row: bool(row["problem"])),
    }
    rows = [*facts, *episodes, *own]
    facets = [
        Facet("group", _("Group"), [Choice(n, said, len(some)) for n, (said, some) in groups.items()]),
        Facet("state", _("State"), [Choice(n, said, sum(map(has, rows))) for n, (said, has) in states.items()]),
    ]  # fmt: skip
    asked = filter_bar.read(request.GET, facets)
    words, state = asked.get("q", "").casefold().split(), states.get(asked.get("state", ""))
    shown = [
        (
            name,
            said,
            [row for row in some if _says(row["file"], words) and (not state or state[1](row))],
        )
        for name, (said, some) in groups.items()
        if asked.get("group", name) in (name, "")
    ]
    bar = FilterBar(
        reverse("memory:files"), "files", asked,
        label=_("Search files"), placeholder=_("Search paths and summaries"), facets=facets,
        count=ngettext("%(n)d file", "%(n)d files", len(rows)) % {"n": len(rows)}, views_page="files",
    )  # fmt: skip
    bar = saved_views.with_views(request.user, bar)
    context = {
        "bar": bar,
        "budget": budget(sum(row["file"].size for row in facts), MAX_FACTS),
        "groups": shown,
        "is_found": any(one[2] for one in shown),
    }
    over_htmx = request.htmx and request.htmx.target == "files"
    return render(request, f"memory/{'_files' if over_htmx else 'files'}.html", context)


def _says(file: MemoryFile, words: Sequence[str]) -> bool:
    """Return True if its path and summary contain all the words, which are in lower case."""
    text = f"{file.path} {file.summary}".casefold()
    return all(word in text for word in words)


@signed_in("GET", "HEAD")
@at_a_date
def file_page(request: BeaconRequest, path: str) -> HttpResponse:
    """Show one file, with its Markdown rendered."""
    file = file_or_404(request, path)
    context = {"page": page_of(request.user, file), "file": file, "tab": "read"}
    if file.mounted_folder and not request.date.is_past:
        context["commit"] = agent_folders.last_commit(file)
        folders = MountedFolder.objects.for_user(request.user)
        context["folder"] = folders.filter(name=file.mounted_folder).first()
    return render(request, "memory/file.html", context)


@signed_in("GET", "HEAD")
@at_a_date
def file_source(request: BeaconRequest, path: str) -> HttpResponse:
    """Send a file's exact bytes, for apps and editors."""
    file = file_or_404(request, path)
    response = HttpResponse(file.content, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="{file.path.rpartition("/")[2]}"'
    return response


# --- mounted folders of agents ---

FOLDER_PAGE = 100


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def folder_list(request: BeaconRequest) -> HttpResponse:
    """Show the person's mounted folders, and their files."""
    folders = list(MountedFolder.objects.for_user(request.user))
    facets = [
        Facet(
            "folder",
            _("Folder"),
            [Choice(folder.name, folder.name, folder.files) for folder in folders],
        )
    ]
    asked = filter_bar.read(request.GET, facets)
    rows = MemoryFile.objects.for_user(request.user).live().mounted(asked.get("folder", ""))
    rows = with_words(rows, asked.get("q", ""), "path", "summary")
    found = keyset.page_of(
        rows.defer("content", "blame"), by="path", falling=False, cursor=request.GET.get("cursor", ""),
        size=FOLDER_PAGE,
    )  # fmt: skip
    bar = FilterBar(
        reverse("memory:agent-folders"), "agent-files", asked,
        label=_("Search the files"), placeholder=_("Search paths and the start of each file"),
        facets=facets if len(folders) > 1 else [],
        count=_file_count_label(sum(folder.files for folder in folders)),
    )  # fmt: skip
    context: dict[str, Any] = {
        "folders": folders,
        "bar": bar,
        "rows": file_rows(request.user, found.rows),
        "next_cursor": found.next_cursor,
        "is_set": bool(settings.BEACON_AGENT_DIRS),
        "prefix": MOUNTED,
    }
    over_htmx = request.htmx and request.htmx.target == "agent-files"
    return render(
        request, f"memory/{'_agent_files' if over_htmx else 'agent_folders'}.html", context
    )


def _file_count_label(files: int) -> str:
    return ngettext("%(n)d file", "%(n)d files", files) % {"n": files}
