"""Pages of import, export and backups: upload, preview and import a file, and download exports."""

from __future__ import annotations

import uuid
from datetime import UTC, date
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.embedded.places import BY_HAND
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_to, signed_in, staff_only
from memory.accounts.archive import jobs
from memory.accounts.archive.app_exports import MAX_PAGES, App
from memory.accounts.archive.foreign_formats import Shape
from memory.accounts.archive.zips import ImportRejected
from memory.models import (
    Activity,
    Archive,
    BackupFile,
    BackupPlan,
    LibraryDocument,
    Note,
    Observation,
)
from memory.models.archive import KEPT
from memory.services import backups

ENDINGS = ".zip,.jsonl,.ndjson,.json,.md,.markdown,.txt,.html,.htm,.af"
_FROM_ELSEWHERE = (Note.Kind.LOG, Note.Kind.SUMMARY)


class UploadForm(forms.Form):
    """The file to import."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        widget=forms.FileInput(attrs={"accept": ENDINGS}),
        allow_empty_file=True,  # the importer reports an empty file
        error_messages={"required": gettext_lazy("Select a file.")},
        help_text=gettext_lazy(
            "Select a Beacon archive, an export from ChatGPT, Claude or another app, or a Markdown, JSON Lines or bookmarks file. At most 512 MiB."
        ),
    )


class ReadingForm(forms.Form):
    """How to read a file. The fields depend on its format."""

    own = forms.BooleanField(
        label=gettext_lazy("I created this archive myself"),
        required=False,
        help_text=gettext_lazy(
            "Select this to keep authors and trust levels. Otherwise, Beacon marks everything as external and pauses schedules."
        ),
    )
    bullets = forms.ChoiceField(
        label=gettext_lazy("Import each file as"),
        choices=[
            ("no", gettext_lazy("one note containing the whole file")),
            ("yes", gettext_lazy("observations, one per bullet")),
        ],
        widget=forms.RadioSelect,
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Import notes without a type as"),
        choices=[(kind.value, kind.label) for kind in _FROM_ELSEWHERE],
    )
    category = forms.ChoiceField(
        label=gettext_lazy("Import observations without a category as"),
        choices=Observation.Category.choices,
    )

    memories = forms.BooleanField(
        label=gettext_lazy("Memories"),
        required=False,
        help_text=gettext_lazy(
            "Memories wait in your Inbox. Nothing takes effect until you accept it."
        ),
    )
    documents = forms.BooleanField(
        label=gettext_lazy("Conversations, files and bookmarks"),
        required=False,
        help_text=gettext_lazy(
            "Beacon adds these items to the Library, where you can search them."
        ),
    )
    private = forms.BooleanField(
        label=gettext_lazy("Hide conversations and files from models and research"),
        required=False,
        help_text=gettext_lazy(
            "Beacon marks conversations and files as sensitive. You can change this for each document in the Library."
        ),
    )

    pages = forms.BooleanField(
        required=False,
        help_text=gettext_lazy(
            "Beacon visits each page and keeps its text in the Library, for search and research. This runs in the background, and you can stop it."
        ),
    )

    def __init__(self, data: Any = None, *, options: dict[str, Any], pages: int = 0) -> None:
        shape = options.get("shape")
        initial = options | {"bullets": "yes" if options.get("bullets") else "no"}
        super().__init__(data, initial=initial)
        names = {
            Shape.BEACON: ("own",),
            Shape.MARKDOWN: ("bullets", "kind", "category"),
            Shape.LINES: ("category",),
            Shape.APP: ("memories", "documents", "private"),
        }[Shape(str(shape))]
        if options.get("app") == App.BOOKMARKS:
            names = ("pages",) if pages else ()
            self.fields["pages"].label = _pages_label(pages)
        for name in set(self.fields) - set(names):
            del self.fields[name]

    def options(self) -> dict[str, Any]:
        """Return the selected options, as the row stores them."""
        chosen = dict(self.cleaned_data)
        if "bullets" in self.fields:
            chosen["bullets"] = self.cleaned_data["bullets"] == "yes"
        return chosen


def _pages_label(pages: int) -> str:
    if pages > MAX_PAGES:
        words = _("Also fetch the first %(n)s of %(all)s web pages")
        return words % {"n": grouped(MAX_PAGES), "all": grouped(pages)}
    words = ngettext("Also fetch %(n)s web page", "Also fetch %(n)s web pages", pages)
    return words % {"n": grouped(pages)}


# --- pages ---

_SHOWN = 20  # from the last week


def _row(request: BeaconRequest, pk: uuid.UUID) -> Archive:
    mine = Archive.objects.filter(owner=request.user).select_related("owner")
    row: Archive = get_object_or_404(mine, pk=pk)
    return row


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def archive_page(request: BeaconRequest) -> HttpResponse:
    """Show import and export, and the recent ones."""
    return _page(request, UploadForm())


def _page(request: BeaconRequest, form: UploadForm) -> HttpResponse:
    rows = list(Archive.objects.filter(owner=request.user)[:_SHOWN])
    exported = [row for row in rows if row.kind == Archive.Kind.EXPORT and row.has_file]
    context = {
        "form": form,
        "rows": rows,
        "last_export": next((row for row in exported if row.state == Archive.State.DONE), None),
        "tab": "archive",
        "kept": KEPT.days,
    }
    name = "_archive" if request.htmx else "settings_archive"
    return render(request, f"memory/{name}.html", context)


@signed_in("POST")
def archive_export(request: BeaconRequest) -> HttpResponse:
    """Export everything; a worker writes a large archive."""
    row = jobs.ask_export(request.user)
    jobs.start(row)
    return redirect_to(request, reverse("memory:archive-row", args=[row.pk]))


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def archive_import(request: BeaconRequest) -> HttpResponse:
    """Accept a file and preview it; nothing is stored until the preview is confirmed."""
    if request.method != "POST":
        return redirect("memory:archive")
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            row = jobs.upload(request.user, form.cleaned_data["file"])
        except ImportRejected as exc:
            form.add_error("file", str(exc))
        else:
            jobs.start(row)
            return redirect_to(request, reverse("memory:archive-row", args=[row.pk]))
    return _page(request, form)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def archive_row(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show an import's or export's progress, preview or result."""
    return _show(request, _row(request, pk))


def _reading(row: Archive, data: Any = None) -> ReadingForm:
    return ReadingForm(data, options=row.options, pages=row.result.get("pages", 0))


def _show(request: BeaconRequest, row: Archive, reading: ReadingForm | None = None) -> HttpResponse:
    labels = jobs.labels()  # in the order of the list, which JSON doesn't keep
    found, counts = row.result.get("kinds", {}), row.result.get("counts", {})
    kinds = [(label, found[n]) for n, label in labels.items() if _has_content(found.get(n))]
    own = f"import:{row.name}"  # the origin of all items that name no other
    context: dict[str, Any] = {
        "row": row,
        "tab": "archive",
        "made_on": _day(row.options.get("made_at", "")),
        "first": [
            one | {"created_on": _day(one["created"]), "is_of_file": one["source"] == own}
            for one in row.result.get("first", [])
        ],
        "kinds": kinds,
        "touched": [(label, one) for label, one in kinds if one["new"] or one["differing"]],
        "written": [(label, counts[n]) for n, label in labels.items() if counts.get(n)],
        "so_far": jobs.progress_count(row) if row.is_unfinished else None,
        "has_file": row.has_file,
    }
    if name := row.options.get("app"):
        context["app_name"] = App(name).label
    if row.kind == Archive.Kind.PAGES:
        failed = {one["document"]: one["why"] for one in row.result["failed"]}
        documents = LibraryDocument.objects.for_user(request.user).filter(pk__in=failed)
        context["failed"] = [(one, failed[str(one.pk)]) for one in documents.defer("text")]
    if row.kind == Archive.Kind.IMPORT:
        context["reading"] = reading or _reading(row)
    name = "_archive_row" if request.htmx else "archive_row"
    return render(request, f"memory/{name}.html", context)


def _day(text: str) -> date | None:
    try:
        return parse_date(text[:10])
    except ValueError:
        return None


def _has_content(counted: dict[str, Any] | None) -> bool:
    """Return True if there were any rows of a kind."""
    names = ("new", "identical", "differing", "refused")
    return counted is not None and any(counted[name] for name in names)


@signed_in("POST")
def archive_choose(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Read the file with other options, and preview it again."""
    row = _row(request, pk)
    if row.kind != Archive.Kind.IMPORT:
        raise Http404
    form = _reading(row, request.POST)
    if not form.is_valid():
        return _show(request, row, form)
    if jobs.choose(row, **form.options()):
        jobs.start(row)
    else:
        messages.info(request, _("This import is already done or in progress."))
    return _after(request, row)


@signed_in("POST")
def archive_confirm(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Import a previewed file; if options have changed since, preview it again first."""
    row, options = _row(request, pk), dict[str, Any]()
    if "reading" in request.POST and row.kind == Archive.Kind.IMPORT:
        form = _reading(row, request.POST)
        if not form.is_valid():
            return _show(request, row, form)
        options = form.options()
        if any(row.options.get(name) != options[name] for name in options.keys() - {"pages"}):
            messages.info(request, _("Preview updated. Review it, then import."))
            return archive_choose(request, pk)
    if jobs.confirm(row, **options):
        jobs.start(row)
        if row.state == Archive.State.DONE:
            messages.success(request, _("“%(name)s” imported.") % {"name": row.name})
    else:
        messages.info(request, _("This import is already done, or its preview isn’t ready yet."))
    return _after(request, row)


def _after(request: BeaconRequest, row: Archive) -> HttpResponse:
    return _show(request, row) if request.htmx else redirect("memory:archive-row", row.pk)


@signed_in("POST")
def archive_stop(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Stop fetching an import's web pages; those fetched so far are kept."""
    row = _row(request, pk)
    if not jobs.stop_pages(row):
        messages.info(request, _("No pages are being fetched for this import."))
    row.refresh_from_db()
    return _after(request, row)


@signed_in("POST")
def archive_retry(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Fetch the web pages that failed or are left, or only the one of `document`."""
    row = _row(request, pk)
    if not jobs.retry_pages(row, request.POST.get("document", "")):
        messages.info(request, _("There’s nothing to fetch, or fetching is already in progress."))
    row.refresh_from_db()
    return _after(request, row)


@signed_in("POST")
def archive_discard(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Delete an export's file, or an upload; imported records are kept."""
    row = _row(request, pk)
    if row.state == Archive.State.RUNNING:
        messages.error(request, _("This job is still in progress. Try again when it’s done."))
        return redirect_to(request, reverse("memory:archive-row", args=[row.pk]))
    row.discard()
    messages.success(request, _("File for “%(name)s” deleted.") % {"name": row.name})
    return redirect_to(request, reverse("memory:archive"))


@signed_in("GET", "HEAD")
def archive_file(request: BeaconRequest, pk: uuid.UUID) -> HttpResponseBase:
    """Send the file of an export, to its owner only."""
    row = _row(request, pk)
    if row.kind != Archive.Kind.EXPORT or row.state != Archive.State.DONE or not row.has_file:
        raise Http404
    return FileResponse(row.file.open("rb"), as_attachment=True, filename=row.name)


# --- Settings, Backups ---


_LISTED = 60


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]
    """When to back up, and how many backups to keep."""

    class Meta:
        model = BackupPlan
        fields = ("every", "hour", "keep", "tests_restore")


@staff_only("GET", "HEAD", "POST")
@vary_on_headers("HX-Request")
def backup_list(request: BeaconRequest) -> HttpResponse:
    """Show the backups and the schedule, and save the schedule."""
    if request.method != "POST":
        return _backups_page(request, PlanForm(instance=BackupPlan.current()))
    form = PlanForm(request.POST, instance=BackupPlan.current())
    if not form.is_valid():
        return _backups_page(request, form)
    plan: BackupPlan = form.save(commit=False)
    plan.changed_at = timezone.now()
    plan.save()
    Activity.log(request.user, request.actor, "backup-plan-changed", subject=request.user)
    messages.success(request, _("Schedule saved."))
    return _after_backup(request)


@staff_only("POST")
def backup_now(request: BeaconRequest) -> HttpResponse:
    """Start a backup; a worker writes it."""
    _row, is_new = backups.ask(request.user)
    if is_new:
        messages.success(request, _("Backup started."))
    else:
        messages.info(request, _("A backup is already in progress."))
    return _after_backup(request)


@staff_only("POST")
def backup_delete(request: BeaconRequest, pk: int) -> HttpResponse:
    """Delete a backup and its file permanently."""
    row = get_object_or_404(BackupFile, pk=pk)
    if row.state == BackupFile.State.RUNNING:
        messages.error(
            request, _("This backup is still in progress. You can delete it when it’s done.")
        )
        return _after_backup(request)
    try:
        row.discard()
    except OSError as exc:
        messages.error(
            request,
            _("%(name)s couldn’t be deleted: %(why)s. Nothing was changed.")
            % {"name": row.name, "why": exc},
        )
    else:
        Activity.log(request.user, request.actor, "backup-deleted", label=row.name)
        messages.success(request, _("%(name)s deleted permanently.") % {"name": row.name})
    return _after_backup(request)


def _after_backup(request: BeaconRequest) -> HttpResponse:
    if not request.htmx:
        return redirect("memory:backups")
    return _backups_page(request, PlanForm(instance=BackupPlan.current()))


def _backups_page(request: BeaconRequest, form: PlanForm) -> HttpResponse:
    rows = list(BackupFile.objects.select_related("requested_by")[:_LISTED])
    done = [row for row in rows if row.state == BackupFile.State.DONE]
    plan = BackupPlan.current()
    context: dict[str, Any] = {
        "tab": "backups",
        "form": form,
        "rows": rows,
        "last": done[0] if done else None,
        "failed": rows[0] if rows and rows[0].state == BackupFile.State.FAILED else None,
        "is_waiting": any(row.is_unfinished for row in rows),
        "next": plan.next_due(timezone.now().astimezone(UTC)),
        "written_at": plan.written_at,
        "total": backups.total_size(),
        "bucket": settings.BEACON_BACKUP_S3_BUCKET,
        "folder": backups.folder(),
        "manage": BY_HAND["manage"],
    }
    name = "_backups" if request.htmx else "backups"
    return render(request, f"memory/{name}.html", context)
