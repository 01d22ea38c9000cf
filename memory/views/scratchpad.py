"""The scratchpad's pages: the list by prefix, setting a value, editing one on the version seen."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.forms.fields import cleaned_of
from memory.forms.scratchpad import EditEntryForm, EntryForm
from memory.models import ScratchpadEntry
from memory.models.base import OWNER_SCOPE
from memory.responses import go_to, next_of, say_cleaned, undo_tag
from memory.scratchpads import entries as scratchpad
from memory.scratchpads import page as scratchpad_page


@require_safe
@login_required
@vary_on_headers("HX-Request")
def scratchpad_list(request: BeaconRequest) -> HttpResponse:
    """Show the entries of a scope, by prefix or by words; over htmx the list alone."""
    wanted = scratchpad_page.Wanted.of(request.GET)
    listing = scratchpad_page.page(request.user, wanted, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "wanted": wanted,
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "chips": scratchpad_page.chips(request.user, wanted),
        "kept": scratchpad.kept_in_words(wanted.scope),
    }
    if request.htmx and request.htmx.target == "scratchpad":
        return render(request, "memory/_scratchpad.html", context)
    context["scopes"] = scratchpad_page.scopes(request.user, wanted)
    return render(request, "memory/scratchpad.html", context)


@require_http_methods(["GET", "POST"])
@login_required
def scratchpad_new(request: BeaconRequest) -> HttpResponse:
    """Set a value under a key; one that is taken is told, not replaced."""
    first = {name: request.GET.get(name, "") for name in ("key", "scope")}
    first["scope"] = first["scope"] or OWNER_SCOPE
    form = EntryForm(request.POST if request.method == "POST" else None, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            _refuse_taken(request, data["key"], data["scope"])
            entry = scratchpad.set_value(
                request.user, data["key"], data["value"], by=request.actor, scope=data["scope"]
            )
        except InvalidValue as exc:
            _tell(form, exc)
        else:
            return _saved(request, entry, form)
    template = "_scratchpad_new" if request.htmx else "scratchpad_new"
    return render(request, f"memory/{template}.html", {"form": form})


def _refuse_taken(request: BeaconRequest, key: str, scope: str) -> None:
    """Raise InvalidValue if there is such a key: who adds one does not mean to replace it."""
    key, scope = scratchpad.checked_key(key), scratchpad.checked_scope(scope)
    if ScratchpadEntry.objects.of(request.user).live().in_scope(scope).filter(key=key).exists():
        problem = _("There is a value under “%(key)s” already: edit that one, or take another key.")
        raise InvalidValue(problem % {"key": key}, errors={"key": [problem % {"key": key}]})


def _tell(form: Any, exc: InvalidValue) -> None:
    told: dict[str, Any] = exc.errors or {"": [str(exc)]}
    for field, errors in told.items():
        form.add_error(field if field in form.fields else None, errors)


def _saved(request: BeaconRequest, entry: ScratchpadEntry, form: Any) -> HttpResponse:
    words = _("“%(key)s” is saved.") % {"key": entry}
    messages.success(request, words, extra_tags=undo_tag(entry))
    say_cleaned(request, cleaned_of(form))
    wanted = scratchpad_page.Wanted(scope=entry.scope)
    here = f"{reverse('memory:scratchpad')}?{wanted.address('')}".rstrip("?")
    return go_to(request, next_of(request, here))


@require_http_methods(["GET", "POST"])
@login_required
def scratchpad_edit(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Edit an entry on the version seen; if somebody else wrote meanwhile, show theirs beside."""
    entry = get_object_or_404(ScratchpadEntry.objects.of(request.user).live(), pk=pk)
    first = {"key": entry.key, "value": entry.value, "version": entry.version}
    form = EditEntryForm(request.POST if request.method == "POST" else None, initial=first)
    context: dict[str, Any] = {"entry": entry, "form": form, "next": next_of(request)}
    if request.method == "POST" and form.is_valid():
        try:
            scratchpad.edit_entry(
                entry,
                key=form.cleaned_data["key"],
                value=form.cleaned_data["value"],
                by=request.actor,
                expected_version=form.cleaned_data["version"],
            )
        except StaleWrite as exc:
            context |= _conflict(form, str(exc), entry)
        except InvalidValue as exc:
            _tell(form, exc)
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            return _saved(request, entry, form)
    template = "_scratchpad_edit" if request.htmx else "scratchpad_edit"
    return render(request, f"memory/{template}.html", context)


def _conflict(form: EditEntryForm, why: str, entry: ScratchpadEntry) -> dict[str, Any]:
    """Keep what was typed, now as a change of the newer version, which is shown beside it."""
    entry.refresh_from_db()
    typed = {**form.cleaned_data, "version": entry.version}
    return {"form": EditEntryForm(initial=typed), "theirs": entry, "why_refused": why}
