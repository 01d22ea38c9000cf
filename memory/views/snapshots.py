"""Snapshots of the content store: taken, looked at, brought back, downloaded and taken in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.content import snapshot_as_json, snapshot_from_json, take_snapshot
from memory.content_pages import list as content_list
from memory.content_pages import snapshots as snapshot_page
from memory.double_submit import idempotent_post
from memory.errors import InvalidValue, MemoryRefused
from memory.forms.snapshots import RestoreForm, TakeForm, UploadSnapshotForm
from memory.models import Snapshot
from memory.responses import go_back, go_to, refused, undo_tag


@require_safe
@login_required
@vary_on_headers("HX-Request")
def snapshot_list(request: BeaconRequest) -> HttpResponse:
    """Show the snapshots, the newest first, and how one is taken or taken in."""
    first = {"scope": request.GET.get("scope", "") or "owner"}
    return _list(request, take=TakeForm(initial=first))


def _list(request: BeaconRequest, **forms: Any) -> HttpResponse:
    listing = snapshot_page.page(request.user, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "take": forms.get("take") or TakeForm(),
        "upload": forms.get("upload") or UploadSnapshotForm(),
        "scopes": content_list.scopes_of(request.user, content_list.Wanted()),
    }
    template = "_snapshots" if request.htmx else "snapshots"
    return render(request, f"memory/{template}.html", context)


@require_http_methods(["GET", "POST"])
@login_required
@idempotent_post
def snapshot_take(request: BeaconRequest) -> HttpResponse:
    """Keep what a scope holds now."""
    form = TakeForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = take_snapshot(request.user, data["scope"], by=request.actor, title=data["title"])
        except InvalidValue as exc:
            for field, errors in (exc.errors or {"scope": [str(exc)]}).items():
                form.add_error(field if field in form.fields else None, errors)
        else:
            words = ngettext(
                "%(n)s item is kept as it is now.", "%(n)s items are kept as they are now.",
                made.count,
            )  # fmt: skip
            words %= {"n": f"{made.count:,}"}
            messages.success(request, words, extra_tags=undo_tag(made))
            return go_to(request, made.get_absolute_url())
    return _list(request, take=form)


@require_http_methods(["GET", "POST"])
@login_required
@idempotent_post
def snapshot_upload(request: BeaconRequest) -> HttpResponse:
    """Take in a snapshot that was downloaded as JSON."""
    posted = request.method == "POST"
    form = UploadSnapshotForm(request.POST, request.FILES) if posted else UploadSnapshotForm()
    if posted and form.is_valid():
        try:
            made = snapshot_from_json(request.user, form.text(), by=request.actor)
        except ValidationError as exc:
            form.refuse(exc)
        except MemoryRefused as exc:
            form.refuse(str(exc))
        else:
            said = _("The snapshot is here. Nothing is in the store yet: restore it into a scope.")
            messages.success(request, said, extra_tags=undo_tag(made))
            return go_to(request, made.get_absolute_url())
    return _list(request, upload=form)


def _snapshot(request: BeaconRequest, pk: UUID) -> Any:
    """Return the person's own snapshot, from the trash too; 404 for another's."""
    found = get_object_or_404(Snapshot.objects.filter(owner=request.user), pk=pk)
    found.owner = request.user
    return found


@require_safe
@login_required
@vary_on_headers("HX-Request")
def snapshot(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show what a snapshot holds, and how it is brought back."""
    return _one(request, _snapshot(request, pk), RestoreForm())


def _one(request: BeaconRequest, found: Any, form: RestoreForm) -> HttpResponse:
    asked = request.GET.get("page", "")
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 6 else 1
    number = max(1, number)
    items, has_more = snapshot_page.items_of(found, page_number=number)
    context = {
        "row": snapshot_page.rows_of(request.user, [found])[0],
        "record": found,
        "page": {"type": found.record_type()},
        "items": items,
        "number": number,
        "next_number": number + 1 if has_more else 0,
        "form": form,
        "scopes": content_list.scopes_of(request.user, content_list.Wanted()),
    }
    template = "_snapshot" if request.htmx else "snapshot"
    return render(request, f"memory/{template}.html", context)


@require_POST
@login_required
def snapshot_restore(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Bring a snapshot back, into its own scope or another; a toast takes that back."""
    found = _snapshot(request, pk)
    form = RestoreForm(request.POST)
    if not form.is_valid():
        return _one(request, found, form)
    try:
        done = snapshot_page.restore(found, by=request.actor, scope=form.cleaned_data["scope"])
    except InvalidValue as exc:
        form.add_error("scope", str(exc))
        return _one(request, found, form)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = ngettext(
        "%(n)s item is back in %(scope)s.", "%(n)s items are back in %(scope)s.", done.number
    )
    told = {"n": f"{done.number:,}", "scope": done.scope}
    messages.success(request, words % told, extra_tags=f"undo:{done.undo_url}")
    return go_to(request, snapshot_page.list_url(done.scope))


@require_POST
@login_required
def snapshot_take_back(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Let the scope hold again what it held before a restoration."""
    before = _snapshot(request, pk)
    try:
        snapshot_page.take_back(before, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    said = _("Taken back: %(scope)s holds again what it held before.") % {"scope": before.scope}
    messages.success(request, said)
    return go_back(request, snapshot_page.list_url(before.scope))


@require_safe
@login_required
def snapshot_json(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Give a snapshot as JSON, which a Beacon takes in again."""
    found = _snapshot(request, pk)
    answer = HttpResponse(snapshot_as_json(found), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="snapshot-{found.pk}.json"'
    return answer
