"""What the buttons of one remembered record do, each with the way back; and its permanent deletion."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue, MemoryRefused
from memory.models import Note, Remembered, Revision
from memory.records import acts as record_acts
from memory.records import kinds as record_kinds
from memory.records import page as record_page
from memory.records import undoing
from memory.responses import go_back, go_to, next_of, refused
from memory.trash import acts as trash_acts
from memory.trash import page as trash_page
from memory.trash import traces

# Whose acts are research's, on pages of their own, and which of them are done here.
OWN_PAGES = {"topic": ("restore",), "report": ("restore", "purge")}


def _record(request: BeaconRequest, type: str, pk: UUID, *, act: str = "restore") -> Any:
    model = record_kinds.models().get(type)
    if model is None or act not in OWN_PAGES.get(type, (act,)):
        raise Http404
    record: Remembered = get_object_or_404(model.objects.of(request.user), pk=pk)
    record.owner = request.user
    return record


def page_of(record: Any) -> str:
    """Return the address of the record's own page, or the trash's for a record without one."""
    has_page = hasattr(record, "get_absolute_url")
    return str(record.get_absolute_url()) if has_page else reverse("memory:trash")


@require_POST
@login_required
def act(request: BeaconRequest, type: str, pk: UUID, act: str) -> HttpResponse:
    """Carry out one act, say so with the way back, and show the record anew."""
    record = _record(request, type, pk, act=act)
    said = str(record_acts.ACTS[act].said(record))
    value, name = request.POST.get("lock", ""), str(record)
    try:
        revision = record_acts.carry_out(act, record, by=request.actor, value=value)
    except MemoryRefused as exc:
        return refused(request, str(exc), way=getattr(exc, "way", ""))
    if act == "restore" and str(record) != name:
        said = trash_acts.renamed(name, record)
    if revision is not None:
        undo = reverse("memory:record-undo", args=[type, pk, revision.pk])
        messages.success(request, said, extra_tags=f"undo:{undo}")
    return _shown(request, record)


def _shown(request: BeaconRequest, record: Any) -> HttpResponse:
    """Show the panel anew where the act came from there, else the page that asked for it."""
    if request.htmx and request.htmx.target == "record-panel":
        record.refresh_from_db()
        page = record_page.page_of(record)
        context = {"page": page, "record": record, "in_panel": True}
        response = render(request, "memory/_record_panel.html", context)
        response["HX-Trigger"] = "record-changed"
        return response
    return go_back(request, page_of(record))


@require_POST
@login_required
def undo(request: BeaconRequest, type: str, pk: UUID, revision: int) -> HttpResponse:
    """Take one change of the record back, by a new revision."""
    return _by_revision(request, type, pk, revision, undoing.undo, _("Taken back."))


@require_POST
@login_required
def restore_revision(request: BeaconRequest, type: str, pk: UUID, revision: int) -> HttpResponse:
    """Put the record back as it was with an older revision, by a new one."""
    said = _("The record is as it was then. What it was until now stays in the history.")
    return _by_revision(request, type, pk, revision, undoing.restore_to, said)


def _by_revision(
    request: BeaconRequest, type: str, pk: UUID, number: int, do: Any, said: str
) -> HttpResponse:
    record = _record(request, type, pk)
    revisions = Revision.objects.of(request.user).filter(record_type=type, record_id=pk)
    before = record.version
    try:
        record = do(get_object_or_404(revisions, pk=number), by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    made = revisions.filter(version__gt=before).order_by("-id").first()
    if made is None:
        messages.info(request, _("It is like that already."))
    else:
        back = reverse("memory:record-undo", args=[type, pk, made.pk])
        messages.success(request, said, extra_tags=f"undo:{back}")
    return go_back(request, page_of(record))


@require_http_methods(["GET", "POST"])
@login_required
def purge(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Delete a record in Trash permanently, once its name is typed."""
    record = _record(request, type, pk, act="purge")
    context: dict[str, Any] = {
        "record": record,
        "type": type,
        "noun": record_kinds.kind_of(type).noun,
        "name": record_acts.typed_name(record),
        "next": next_of(request, reverse("memory:trash")),
        "predecessors": record.supersedes.count() if isinstance(record, Note) else 0,
        "goes": trash_page.what_goes(record),
        "stays": record_kinds.kind_of(type).stays,
        "repeats": traces.what_stays(record),
    }
    if request.method == "POST":
        typed = request.POST.get("name", "")
        try:
            record_acts.purge(record, typed=typed, by=request.actor)
        except InvalidValue as exc:
            context |= {"problem": str(exc), "typed": typed}
        except MemoryRefused as exc:
            return refused(request, str(exc))
        else:
            messages.success(request, _("Deleted permanently, with its history."))
            return go_to(request, context["next"])
    template = "memory/_record_purge.html" if request.htmx else "memory/record_purge.html"
    return render(request, template, context)
