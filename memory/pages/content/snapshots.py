"""Snapshots of the content store: list, create, upload, download and restore, with undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models.functions import Left
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import Page, page_of
from beacon_site.text.cleaning import number_of, one_line, shorten
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, get_owned_or_404, redirect_to, signed_in
from memory.models import ContentItem, Snapshot, SnapshotItem, User, origins
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.remembered import OWNER_SCOPE
from memory.pages.content import items as content_list
from memory.pages.content.items import BEGINNING, title_of
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import offer, toast_with_undo, undoes
from memory.services.content.snapshots import (
    restore_snapshot,
    snapshot_as_json,
    snapshot_from_json,
    take_snapshot,
)

PAGE, ITEMS = 50, 100


def page(user: User, *, cursor: str = "") -> Page:
    """Return one page of the snapshots, newest first."""
    rows = Snapshot.objects.filter(owner=user, trashed_at=None)
    found = page_of(rows, by="created", falling=True, cursor=cursor, size=PAGE)
    return Page(rows_of(user, found.rows), found.next_cursor)


def rows_of(user: User, snapshots: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the snapshots with the labels of their scopes and creators."""
    places = origins.of(user, [text for one in snapshots for text in (one.scope, one.source)])
    rows = []
    for one in snapshots:
        rows.append(
            {
                "snapshot": one,
                "name": snapshot_title(one, places),
                "scope": places.get(one.scope) or origins.Origin(one.scope, one.scope),
                "maker": places.get(one.source) or origins.Origin(one.source, one.source),
            }
        )
    return rows


def snapshot_title(snapshot: Any, places: Mapping[str, origins.Origin] | None = None) -> str:
    """Return the snapshot's title, or its scope and time. `places` has the labels of scopes."""
    if snapshot.title:
        return str(snapshot.title)
    scope = snapshot.scope
    if places is None:
        places = origins.of(snapshot.owner, [scope])
    words = places[scope].words if scope in places else scope
    words = _("the shared scope") if scope == OWNER_SCOPE else words
    at = date_format(timezone.localtime(snapshot.created), "j M Y, H:i")
    return one_line(f"{capfirst(words)}, {at}")


def items_of(snapshot: Any, *, page_number: int) -> tuple[list[dict[str, Any]], bool]:
    """Return a page of its items, oldest first, and whether there are more.

    `is_here` means that the store still has the item.
    """
    start = (page_number - 1) * ITEMS
    rows = SnapshotItem.objects.filter(snapshot=snapshot).defer("content").order_by("position")
    copies = list(rows.annotate(beginning=Left("content", BEGINNING))[start : start + ITEMS + 1])
    live = ContentItem.objects.for_user(snapshot.owner).live().filter(scope=snapshot.scope)
    here = set(live.filter(pk__in=[one.item_id for one in copies]).values_list("pk", flat=True))
    shown = [
        {
            "item": one,
            "title": title_of(one),
            "first_line": shorten(one.beginning, 160) if one.title else "",
            "is_here": one.item_id in here,
        }
        for one in copies[:ITEMS]
    ]
    return shown, len(copies) > ITEMS


def restore(snapshot: Any, *, by: Actor, scope: str = "") -> tuple[Snapshot, int]:
    """Restore a snapshot to a scope (default: its own), after saving the scope's current items.

    Return those as another snapshot, which undoes the restore, and how many were restored.  Raises InvalidValue for an
    invalid scope, and Locked; nothing is changed then.
    """
    into = scope or snapshot.scope
    with transaction.atomic():
        title = _("%(scope)s before “%(name)s” was restored") % {
            "scope": into, "name": shorten(snapshot_title(snapshot), 80)
        }  # fmt: skip
        before = take_snapshot(snapshot.owner, into, by=by, title=title)
        items = restore_snapshot(snapshot, by=by, scope=scope or None)
    return before, len(items)


def _state_of(owner: User, scope: str) -> str:
    """Return a digest of the items in a scope with their versions."""
    items = ContentItem.objects.for_user(owner).live().filter(scope=scope).order_by("pk")
    return sha256(repr(list(items.values_list("pk", "version"))).encode()).hexdigest()


def undo_change(before: Any, *, by: Actor, state: str) -> int:
    """Undo a restore with the snapshot of what the scope had before, which is then deleted.

    Raises InvalidValue if the scope isn't in the state after the restore.
    """
    with transaction.atomic():
        if _state_of(before.owner, before.scope) != state:
            problem = _(
                "The items in %(scope)s have changed since then, so your change couldn’t be undone. The previous items are in the snapshot “%(name)s”."
            )
            raise InvalidValue(problem % {"scope": before.scope, "name": snapshot_title(before)})
        items = restore_snapshot(before, by=by)
        before.trash(by=by, why=_("the snapshot’s items were restored"))
    return len(items)


def list_url(scope: str) -> str:
    return f"{reverse('memory:content')}?{urlencode({'scope': scope})}"


# --- forms ---

MAX_BYTES = 64 * 1024 * 1024  # bytes of a file that a page accepts


class SnapshotForm(forms.Form):
    """A scope to save as a named snapshot."""

    scope = CleanTextField(
        label=gettext_lazy("Agent, topic or run"),
        max_length=200,
        initial="owner",
        error_messages={"required": gettext_lazy("Select an agent, topic or run.")},
        widget=forms.Select,
    )
    title = CleanTextField(
        label=gettext_lazy("Name"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Leave empty for a name with the date and time."),
    )

    def offer(self, user: User) -> None:
        """Offer the scopes that have items, the shared one and the one that was asked for."""
        scopes = content_list.scopes_of(user)
        field = self.fields["scope"]
        if len(scopes) >= content_list.MAX_SCOPES:
            field.help_text = _(
                "Only %(n)s scopes are listed. To take a snapshot of another scope, open its items and select “Take a snapshot”."
            ) % {"n": grouped(content_list.MAX_SCOPES)}
        words = dict([(OWNER_SCOPE, ""), *scopes]) | {OWNER_SCOPE: _("the shared scope")}
        name = str(self["scope"].value() or OWNER_SCOPE)
        if "scope" in self.errors:
            words = {"": _("Select…")} | words  # an invalid scope selects none of the others
        elif name not in words:
            words |= dict(content_list.scope_labels(user, [name]))
        field.widget.choices = [(value, capfirst(said)) for value, said in words.items()]


class RestoreForm(forms.Form):
    """Where to restore a snapshot. Empty: the scope it was taken of."""

    scope = CleanTextField(
        label=gettext_lazy("Restore to"),
        max_length=200,
        required=False,
        widget=forms.Select,
        help_text=gettext_lazy(
            "Where it was taken, changed items are reverted, and newer items move to Trash. Anywhere else, the items are added. Beacon takes a snapshot first, so you can undo this."
        ),
    )

    def offer(self, user: User, own: str) -> None:
        """Offer the snapshot's own scope first, and then the others that have items."""
        words = dict([(own, ""), *content_list.scopes_of(user)])
        words[own] = dict(content_list.scope_labels(user, [own]))[own]
        words |= {scope: _("the shared scope") for scope in words if scope == OWNER_SCOPE}
        choices = [("" if scope == own else scope, capfirst(said)) for scope, said in words.items()]
        self.fields["scope"].widget.choices = choices


class UploadSnapshotForm(forms.Form):
    """A snapshot that was downloaded as JSON."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        allow_empty_file=True,  # the reader reports an empty file
        widget=forms.FileInput(attrs={"accept": ".json,application/json"}),
        help_text=gettext_lazy("Select a JSON file from Beacon (at most 64 MiB)."),
    )

    def clean_file(self) -> UploadedFile[bytes]:
        """Reject a file that is too large before any of it is read."""
        file: UploadedFile[bytes] = self.cleaned_data["file"]
        if (file.size or 0) > MAX_BYTES:
            params = {"size": (file.size or 0) / 1024 / 1024}
            raise forms.ValidationError(
                _("The file is %(size).1f MiB, but the limit is 64 MiB.") % params
            )
        return file

    def text(self) -> str:
        """Return the file's text.  Raises ValidationError if it isn't UTF-8."""
        try:
            return bytes(self.cleaned_data["file"].read()).decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise forms.ValidationError(
                _("This file isn’t UTF-8 text. Select a snapshot from Beacon.")
            ) from exc


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def snapshot_list(request: BeaconRequest) -> HttpResponse:
    """List the snapshots, newest first, with the forms to create or upload one."""
    first = {"scope": request.GET.get("scope", "") or "owner"}
    return _list(request, take=SnapshotForm(initial=first))


def _list(request: BeaconRequest, **forms: Any) -> HttpResponse:
    listing = page(request.user, cursor=request.GET.get("cursor", ""))
    take = forms.get("take") or SnapshotForm()
    take.offer(request.user)
    context: dict[str, Any] = {
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "take": take,
        "upload": forms.get("upload") or UploadSnapshotForm(),
    }
    template = "_snapshots" if request.htmx else "snapshots"
    return render(request, f"memory/{template}.html", context)


@signed_in("GET", "POST")
@idempotent_post
def snapshot_create(request: BeaconRequest) -> HttpResponse:
    """Save a scope's current items as a snapshot."""
    form = SnapshotForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = take_snapshot(request.user, data["scope"], by=request.actor, title=data["title"])
        except InvalidValue as exc:
            for field, errors in (exc.errors or {"scope": [str(exc)]}).items():
                if field == "scope":  # its choices are words, so its value means nothing here
                    errors = [str(form.fields["scope"].error_messages["required"])]
                form.add_error(field if field in form.fields else None, errors)
        else:
            words = ngettext(
                "Snapshot of %(n)s item created.", "Snapshot of %(n)s items created.",
                made.count,
            )  # fmt: skip
            words %= {"n": grouped(made.count)}
            toast_with_undo(request, made, words)
            return redirect_to(request, made.get_absolute_url())
    return _list(request, take=form)


@signed_in("GET", "POST")
@idempotent_post
def snapshot_upload(request: BeaconRequest) -> HttpResponse:
    """Upload a snapshot that was downloaded as JSON."""
    posted = request.method == "POST"
    form = UploadSnapshotForm(request.POST, request.FILES) if posted else UploadSnapshotForm()
    if posted and form.is_valid():
        try:
            made = snapshot_from_json(request.user, form.text(), by=request.actor)
        except ValidationError as exc:
            form.add_error("file", exc)
        except MemoryRefused as exc:
            form.add_error("file", str(exc))
        else:
            message = _("Snapshot uploaded. To add its items to the store, restore it to a scope.")
            toast_with_undo(request, made, message)
            return redirect_to(request, made.get_absolute_url())
    return _list(request, upload=form)


def _snapshot(request: BeaconRequest, pk: UUID) -> Any:
    """Return the person's own snapshot, also from Trash; 404 for another's."""
    return get_owned_or_404(request, Snapshot.objects.filter(owner=request.user), pk)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def snapshot(request: BeaconRequest, pk: UUID) -> HttpResponse:
    return _one(request, _snapshot(request, pk), RestoreForm())


def _one(request: BeaconRequest, found: Any, form: RestoreForm) -> HttpResponse:
    number = number_of(request.GET.get("page", "")) or 1
    items, has_more = items_of(found, page_number=number)
    form.offer(request.user, found.scope)
    context = {
        "row": rows_of(request.user, [found])[0],
        "record": found,
        "page": {"type": found.record_type()},
        "items": items,
        "number": number,
        "next_number": number + 1 if has_more else 0,
        "form": form,
    }
    template = "_snapshot" if request.htmx else "snapshot"
    return render(request, f"memory/{template}.html", context)


@signed_in("POST")
def snapshot_restore(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Restore a snapshot to its own scope or another, with an Undo in the toast."""
    found = _snapshot(request, pk)
    form = RestoreForm(request.POST)
    if not form.is_valid():
        return _one(request, found, form)
    try:
        before, number = restore(found, by=request.actor, scope=form.cleaned_data["scope"])
    except InvalidValue as exc:
        form.add_error("scope", str(exc))
        return _one(request, found, form)
    words = ngettext(
        "%(n)s item restored to %(scope)s.", "%(n)s items restored to %(scope)s.", number
    )
    params = {"n": grouped(number), "scope": before.scope}
    state = _state_of(request.user, before.scope)
    undo = offer(request, "snapshot-restored", before=before.pk, state=state)
    messages.success(request, words % params, extra_tags=undo)
    return redirect_to(request, list_url(before.scope))


@undoes("snapshot-restored")
def _undo_restore(request: BeaconRequest, before: str, state: str) -> str:
    """Undo a restore: the scope has its previous items again."""
    found = _snapshot(request, UUID(before))
    undo_change(found, by=request.actor, state=state)
    message = _("Undone. The previous items in %(scope)s are back.") % {"scope": found.scope}
    messages.success(request, message)
    return list_url(found.scope)


@signed_in("GET", "HEAD")
def snapshot_json(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Download a snapshot as JSON, which can be uploaded again."""
    found = _snapshot(request, pk)
    answer = HttpResponse(snapshot_as_json(found), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="snapshot-{found.pk}.json"'
    return answer
