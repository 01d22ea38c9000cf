"""Pages of the library: the list with its search, a document, adding, editing and Trash."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import PurePath
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import BooleanField, Count, ExpressionWrapper, Q
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from beacon_site.db.keyset import page_of
from beacon_site.net import charsets as media_types
from beacon_site.text.cleaning import one_line, plain, shorten, text_param
from beacon_site.text.markdown import MAX_LENGTH, by_direction, without_title
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    cleaned_of,
    redirect_back,
    redirect_to,
    report_cleaned,
    signed_in,
    staff_only,
)
from memory.models import LibraryDocument, Sensitivity, Trust
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.pages.records import saved_views
from memory.pages.records.record import TRUST_MEANS
from memory.pages.shared import filter_bar
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import toast_with_undo
from memory.services.library import documents as library_services
from memory.services.library import folder as library_folder
from memory.services.library import reading as library_reading
from memory.services.library.reading import MAX_BYTES, MAX_TITLE_LENGTH
from memory.services.search.snippets import marked

ENDINGS = tuple(library_reading.MEDIA_TYPES)
MAX_TEXT_LENGTH = 2_000_000  # characters accepted by a form
MAX_URL_LENGTH = 2048
MAX_FILES = 100  # in one upload
MAX_SELECTED = 4000  # characters of a selection, since a URL has a limit
_NO_TEXT = gettext_lazy("Enter some text. To delete the document, move it to Trash.")


class ManyFilesInput(forms.FileInput):
    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """Up to `MAX_FILES` files. Each is checked like a single one."""

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[bytes]]:
        files = data if isinstance(data, list | tuple) else [data] if data else []
        if len(files) > MAX_FILES:
            raise forms.ValidationError(
                _("Add at most %(most)d files at a time.") % {"most": MAX_FILES}
            )
        return [super(ManyFilesField, self).clean(file, initial) for file in files]


class AddDocumentForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """New documents: pasted text, a web page, or files."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        max_length=MAX_TITLE_LENGTH,
        required=False,
        help_text=gettext_lazy("Leave empty to use the document’s own title."),
    )
    text = CleanTextField(
        label=gettext_lazy("Text"),
        required=False,
        max_length=MAX_TEXT_LENGTH,
        strip=False,
        # The placeholder lets CSS find out whether the field is empty.
        widget=forms.Textarea(attrs={"rows": 12, "placeholder": " "}),
        help_text=gettext_lazy("Use Markdown or plain text."),
    )
    url = CleanTextField(
        label=gettext_lazy("URL"),
        required=False,
        max_length=MAX_URL_LENGTH,
        widget=forms.URLInput(attrs={"placeholder": "https://…", "autocomplete": "off"}),
        help_text=gettext_lazy("Enter the URL of the page to save, or of the text’s source."),
    )
    file = ManyFilesField(
        label=gettext_lazy("Files"),
        required=False,
        allow_empty_file=True,  # the reader reports an empty file
        widget=ManyFilesInput(attrs={"accept": ",".join(ENDINGS)}),
        help_text=gettext_lazy(
            "Markdown, text, HTML, PDF, Word, PowerPoint, Excel, CSV, JSON, YAML, EPUB, LaTeX, calendars, email or subtitles, at most 5 MiB each."
        ),
    )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        if url and not url.startswith(("http://", "https://")):
            raise forms.ValidationError(_("Enter a URL that starts with https:// or http://."))
        return url

    def clean_file(self) -> list[UploadedFile[bytes]]:
        """Reject files that are too large or of another type, before any is read."""
        files: list[UploadedFile[bytes]] = self.cleaned_data["file"]
        for file in files:
            self._check_file(file)
        return files

    def _check_file(self, file: UploadedFile[bytes]) -> None:
        if PurePath(file.name or "").suffix.lower() not in ENDINGS:
            raise forms.ValidationError(
                _("“%(name)s” isn’t supported. Use one of: %(endings)s.")
                % {"name": file.name, "endings": ", ".join(ENDINGS)}
            )
        if (file.size or 0) > MAX_BYTES:
            raise forms.ValidationError(
                _("“%(name)s” is %(size).1f MiB, but the limit is 5 MiB.")
                % {"name": file.name, "size": (file.size or 0) / 1024 / 1024}
            )

    def clean(self) -> dict[str, Any]:
        """Require either a text or a page, or files."""
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        is_typed = bool(data["text"].strip() or data["url"])
        if not is_typed and not data["file"]:
            self.add_error("text", _("Paste text, enter the URL of a web page, or select a file."))
        elif is_typed and data["file"]:
            self.add_error(
                "file",
                _(
                    "Add one of these: text, a web page or files. To add more, create another document."
                ),
            )
        return data


class EditDocumentForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """A document's title and text, and the version they are based on."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        max_length=MAX_TITLE_LENGTH,
        error_messages={"required": gettext_lazy("Enter a title.")},
    )
    text = CleanTextField(
        label=gettext_lazy("Text"),
        max_length=MAX_TEXT_LENGTH,
        strip=False,
        error_messages={"required": _NO_TEXT},
        widget=forms.Textarea(attrs={"rows": 24, "class": "mono"}),
    )
    why = CleanTextField(label=gettext_lazy("Reason"), max_length=300, required=False)
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def clean_text(self) -> str:
        """Return the text as it can be stored, with line feeds only."""
        text: str = self.cleaned_data["text"].replace("\r\n", "\n").replace("\r", "\n")
        if not text.strip():
            raise forms.ValidationError(_NO_TEXT)
        return text


# --- pages ---

PAGE = 50
MAX_FOUND = 50
BEGINNING = 240  # characters of a document in the list
_ONLY_LINK = re.compile(r"<?https?://\S+")
CHECK_SECONDS = 8.0  # how long a person waits for a check of the folder; the task does the rest
SHOWN = MAX_LENGTH  # characters of a document on its page
KINDS = {
    media_types.MARKDOWN: _lazy("Markdown"),
    media_types.PLAIN: _lazy("plain text"),
    media_types.HTML: _lazy("web page (HTML)"),
    media_types.PDF: _lazy("PDF"),
    media_types.DOCX: _lazy("Word document"),
    media_types.PPTX: _lazy("PowerPoint presentation"),
    media_types.XLSX: _lazy("Excel workbook"),
    media_types.EPUB: _lazy("e-book (EPUB)"),
    media_types.EML: _lazy("email"),
    media_types.SRT: _lazy("subtitles"),
    media_types.VTT: _lazy("subtitles"),
}


@signed_in("GET", "HEAD")
def library_list(request: BeaconRequest) -> HttpResponse:
    """List the documents that the person can read, newest first, or those that match `q`."""
    facets, total = _facets(request)
    asked = filter_bar.read(request.GET, facets)
    query = asked.get("q", "").strip()[:500]
    documents = _narrowed(LibraryDocument.objects.live(), asked)
    bar = FilterBar(
        reverse("memory:library"), "documents", asked,
        label=_("Search the library"), placeholder=_("Search titles and text"), facets=facets,
        count=ngettext("%(n)d document", "%(n)d documents", total) % {"n": total}, most=500,
        views_page="library",
    )  # fmt: skip
    bar = saved_views.with_views(request.user, bar)
    context: dict[str, Any] = {"bar": bar, "query": query, "watched": settings.BEACON_LIBRARY_DIR}
    if query:
        found = library_services.find(request.user, query, limit=MAX_FOUND, among=documents)
        context["found"] = [
            (_with_format(one), marked(passage, query)) for one, passage, _score in found
        ]
    else:
        context |= _page(request, documents)
    if request.htmx and request.htmx.target == "documents":
        return render(request, "memory/_library_documents.html", context)
    context["folder"] = library_folder.state()
    return render(request, "memory/library.html", context)


def _facets(request: BeaconRequest) -> tuple[list[Facet], int]:
    """Return what documents can be filtered by, with counts, and their number: one query."""
    rows = LibraryDocument.objects.readable_by(request.user).live().order_by()
    kinds: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    rows = rows.annotate(is_mine=ExpressionWrapper(Q(path=""), BooleanField()))
    marks: Counter[str] = Counter()
    counts = rows.values_list("media_type", "is_mine", "sensitivity").annotate(n=Count("pk"))
    for kind, is_mine, mark, number in counts:
        kinds[kind] += number
        marks[mark] += number
        origins["added" if is_mine else "folder"] += number
    facets = [
        Facet("kind", _("Format"), [Choice(name, KINDS.get(name, name), kinds[name]) for name in kinds]),
        Facet(
            "origin", _("From"),
            [
                Choice("added", _("added manually"), origins["added"]),
                Choice("folder", _("the watched folder"), origins["folder"]),
            ],
        ),
        Facet(
            "sensitivity", _("Sensitive"),
            [
                Choice("sensitive", _("sensitive"), marks["sensitive"]),
                Choice("normal", _("not sensitive"), marks["normal"]),
            ],
        ),
    ]  # fmt: skip
    return facets, kinds.total()


def _narrowed(documents: Any, query: QueryDict) -> Any:
    if kind := text_param(query, "kind"):
        documents = documents.filter(media_type=kind)
    if (origin := query.get("origin")) in ("added", "folder"):
        documents = documents.filter(path="") if origin == "added" else documents.exclude(path="")
    if (mark := query.get("sensitivity")) in Sensitivity.values:
        documents = documents.filter(sensitivity=mark)
    return documents


def _page(request: BeaconRequest, documents: Any) -> dict[str, Any]:
    """Return one page of the list by keyset (created, ID), and the cursor of the next."""
    documents = documents.readable_by(request.user).defer("text")
    documents = documents.annotate(beginning=Left("text", BEGINNING))
    cursor = request.GET.get("cursor", "")
    page = page_of(documents, by="created", falling=True, cursor=cursor, size=PAGE)
    for document in page.rows:
        document.beginning = _beginning(_with_format(document))
    return {"documents": page.rows, "next_cursor": page.next_cursor}


def _with_format(document: Any) -> Any:
    """Add the document's format in words, for its row."""
    document.format = KINDS.get(document.media_type, document.media_type)
    return document


def _beginning(document: Any) -> str:
    """Return the first whole words, without Markdown syntax, the title, and links above the text."""
    lines = [plain(line) for line in document.beginning.splitlines() if line.strip()]
    while lines and (
        lines[0].rstrip(".") == document.title.rstrip(".") or _ONLY_LINK.fullmatch(lines[0])
    ):
        del lines[0]
    document.labels = _bookmark_labels(lines) if document.is_imported else []
    text = one_line(" ".join(lines))
    is_cut = len(document.beginning) == BEGINNING
    return shorten(text, len(text) - 1) if is_cut else text


def _bookmark_labels(lines: list[str]) -> list[str]:
    """Remove the folder and tags of an imported bookmark from its first lines, and return each once."""
    labels: dict[str, str] = {}
    for first in (_("Folder: %(folder)s"), _("Tags: %(tags)s")):
        prefix = first.partition("%")[0]
        if lines and lines[0].startswith(prefix):
            for label in lines.pop(0).removeprefix(prefix).split(", "):
                labels.setdefault(label.casefold(), label)
    return list(labels.values())


@signed_in("GET", "POST")
@idempotent_post
def library_add(request: BeaconRequest) -> HttpResponse:
    """Add a document by pasting or uploading it."""
    posted = request.method == "POST"
    # A bookmarklet, or a phone's share menu, opens the page with these.
    given = {name: request.GET.get(name, "") for name in ("title", "text", "url")}
    first = _shared(given) if any(given.values()) else None
    form = (
        AddDocumentForm(request.POST, request.FILES) if posted else AddDocumentForm(initial=first)
    )
    if posted and form.is_valid() and len(form.cleaned_data["file"]) > 1:
        return _add_files(request, form.cleaned_data["file"])
    if posted and form.is_valid():
        data = form.cleaned_data
        try:
            document = library_services.add_document(
                request.user,
                title=data["title"],
                text=data["text"],
                file=data["file"][0] if data["file"] else None,
                url=data["url"],
                by=request.actor,
            )
        except InvalidValue as exc:
            form.take(exc)
        else:
            words = _("“%(title)s” added to Library.") % {"title": document}
            return _saved(request, document, form, words)
    template = "memory/_library_add.html" if request.htmx else "memory/library_add.html"
    return render(request, template, {"form": form, "bookmarklet": _bookmarklet(request)})


def _shared(given: dict[str, str]) -> dict[str, str]:
    """Return the form's first values. Some phones share the address as the text."""
    text, url = given["text"].strip()[:MAX_TEXT_LENGTH], given["url"].strip()
    if not url and re.fullmatch(r"https?://\S+", text):
        text, url = "", text
    return {"title": given["title"][:MAX_TITLE_LENGTH], "text": text, "url": url[:MAX_URL_LENGTH]}


def _bookmarklet(request: BeaconRequest) -> str:
    """Return a bookmark that opens the form with the current page and its selected text."""
    address = json.dumps(request.build_absolute_uri(reverse("memory:library-add")))
    return (
        "javascript:(()=>{const q=new URLSearchParams({url:location.href,title:document.title,"
        f"text:String(getSelection()).slice(0,{MAX_SELECTED})}});open({address}+'?'+q)}})()"
    )


def _add_files(request: BeaconRequest, files: list[UploadedFile[bytes]]) -> HttpResponse:
    """Add each file, and say which ones couldn't be added."""
    added = 0
    for file in files:
        try:
            library_services.add_document(request.user, file=file, by=request.actor)
        except InvalidValue as exc:
            why = " ".join(message for told in exc.errors.values() for message in told)
            messages.warning(request, f"{shorten(file.name or '', 100)}: {why}")
        else:
            added += 1
    if added:
        told = ngettext("%(n)d document added.", "%(n)d documents added.", added) % {"n": added}
        messages.success(request, told)
    return redirect_to(request, reverse("memory:library"))


@signed_in("GET", "HEAD")
def library_document(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show a document, rendered or, with `view=source`, as it was written."""
    document = get_object_or_404(LibraryDocument.objects.readable_by(request.user), pk=pk)
    source = request.GET.get("view") == "source"
    text = document.text[:SHOWN]
    is_laid_out = document.is_markdown and not source
    context = {
        "document": document,
        "source": source,
        "text": text,
        "is_cut": len(document.text) > SHOWN,
        "rendered": by_direction(render_markdown(without_title(text, document.title)))
        if is_laid_out
        else "",
        "may_edit": _may_edit(request, document),
        "kind": KINDS.get(document.media_type, document.media_type),
        "trust_means": TRUST_MEANS[Trust(document.trust)],
        "origin": _origin(request, document),
    }
    template = "memory/_library_text.html" if request.htmx else "memory/library_document.html"
    return render(request, template, context)


def _origin(request: BeaconRequest, document: LibraryDocument) -> str:
    """Return in words how the document came into the library."""
    if document.path:
        return _("the watched folder")
    if document.source == str(request.actor):
        return _("added by you")
    if document.is_imported:
        return _("the import “%(name)s”") % {"name": document.source.removeprefix("import:")}
    return _("added by %(who)s") % {"who": document.source.removeprefix("human:")}


def _may_edit(request: BeaconRequest, document: LibraryDocument) -> bool:
    """Return True if the page can edit it: files in the watched folder are edited on disk."""
    return document.owner_id == request.user.pk and not document.path


@signed_in("GET", "POST")
def library_edit(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Edit a document; if someone else did too, show their version beside what was typed."""
    document = get_object_or_404(
        LibraryDocument.objects.for_user(request.user).live().filter(path=""), pk=pk
    )
    first = {"title": document.title, "text": document.text, "version": document.version}
    posted = request.method == "POST"
    form = EditDocumentForm(request.POST if posted else None, initial=first)
    context: dict[str, Any] = {"document": document, "form": form}
    if posted and form.is_valid():
        data = form.cleaned_data
        try:
            document.rewrite(
                title=data["title"],
                text=data["text"],
                by=request.actor,
                expected_version=data["version"],
                why=data["why"],
            )
        except StaleWrite as exc:
            document.refresh_from_db()
            context |= form.on_newest(document, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            return _saved(request, document, form, _("“%(title)s” saved.") % {"title": document})
    template = "memory/_library_edit.html" if request.htmx else "memory/library_edit.html"
    return render(request, template, context)


def _saved(
    request: BeaconRequest, document: LibraryDocument, form: Any, words: str
) -> HttpResponse:
    toast_with_undo(request, document, words, seen=form.cleaned_data.get("version"))
    report_cleaned(request, cleaned_of(form))
    return redirect_to(request, document.get_absolute_url())


@signed_in("POST")
def library_sensitivity(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Mark a document as sensitive, or remove the mark, with an Undo in the toast."""
    own = LibraryDocument.objects.for_user(request.user).live().filter(path="")
    document = get_object_or_404(own, pk=pk)
    wanted = Sensitivity.SENSITIVE if request.POST.get("mark") else Sensitivity.NORMAL
    message = _("Marked as sensitive. Runs and models can’t use it.")
    if wanted == Sensitivity.NORMAL:
        message = _("No longer sensitive. Runs and models can use it.")
    document.change(by=request.actor, sensitivity=wanted)
    toast_with_undo(request, document, message)
    return redirect_to(request, document.get_absolute_url())


@signed_in("POST")
def library_trash(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Move a document to Trash, with an Undo in the toast."""
    document = get_object_or_404(
        LibraryDocument.objects.for_user(request.user).filter(path=""), pk=pk
    )
    document.trash(by=request.actor)
    toast_with_undo(
        request, document, _("“%(title)s” moved to Trash for 30 days.") % {"title": document}
    )
    return redirect_to(request, reverse("memory:library"))


@signed_in("POST")
def library_restore(request: BeaconRequest, pk: UUID) -> HttpResponse:
    document = get_object_or_404(
        LibraryDocument.objects.for_user(request.user).filter(path=""), pk=pk
    )
    document.restore(by=request.actor)
    words = _("“%(title)s” restored.") % {"title": document}
    toast_with_undo(request, document, words)
    return redirect_back(request, reverse("memory:library"))


@staff_only("POST")
def library_check(request: BeaconRequest) -> HttpResponse:
    """Check the watched folder now, and report the result."""
    folder = library_folder.scan_if_due(every=0, seconds=CHECK_SECONDS)
    if folder is None:
        messages.error(request, _("No folder is watched because BEACON_LIBRARY_DIR isn’t set."))
    elif folder.problem:
        messages.error(request, folder.problem)
    else:
        text = ngettext("%(n)d searchable file.", "%(n)d searchable files.", folder.files)
        messages.success(request, text % {"n": folder.files})
    return redirect_to(request, reverse("memory:library"))


# --- sharing from a phone ---


@require_safe
@cache_control(public=True, max_age=3600)
def manifest(request: HttpRequest) -> JsonResponse:
    """Return the web app manifest: installed on a phone, Beacon is in its share menu.

    What is shared there opens the form for a new document, filled in.
    """
    icon = {"src": static("favicon.svg"), "sizes": "any", "type": "image/svg+xml"}
    return JsonResponse(
        {
            "id": "/",
            "name": "Beacon",
            "short_name": "Beacon",
            "description": _("See, search and correct your AI agent’s memory"),
            "start_url": "/",
            "scope": "/",
            "display": "standalone",
            "background_color": "#fbfaf7",
            "theme_color": "#1c2430",
            "icons": [icon],
            "share_target": {
                "action": reverse("memory:library-add"),
                "method": "GET",
                "enctype": "application/x-www-form-urlencoded",
                "params": {"title": "title", "text": "text", "url": "url"},
            },
        },
        content_type="application/manifest+json",
    )
