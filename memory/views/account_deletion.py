"""Deleting an account: one's own under Settings, another's by staff; what goes is said before."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from beacon_site.broker import send
from beacon_site.http import BeaconRequest
from memory.accounts import deletion as account_deletion
from memory.accounts import sign_ins
from memory.accounts.guards import staff_only
from memory.archive import jobs, verifying
from memory.archive.zips import ImportRejected
from memory.errors import InvalidValue
from memory.forms.account_deletion import AccountDeletionForm
from memory.models import User
from memory.responses import go_to


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@login_required
def account_delete(request: BeaconRequest) -> HttpResponse:
    """Delete one's own account, once its name and password are typed."""
    form = AccountDeletionForm(_posted(request))
    if request.method == "POST" and _is_deleted(request, request.user, form):
        logout(request)
        messages.success(request, _("Your account is deleted with all that was yours."))
        return go_to(request, reverse("memory:sign-in"))
    return _page(request, request.user, form)


@require_POST
@login_required
def account_export(request: BeaconRequest) -> HttpResponse:
    """Make an export before the account goes, and come back to the page that deletes it."""
    try:
        row = jobs.ask_export(request.user)
    except ImportRejected as exc:
        messages.error(request, str(exc))
    else:
        if jobs.is_small(row):
            jobs.carry_out(row.pk)
        else:
            send("memory.tasks.carry_out_archive", str(row.pk), queue="research")
    return redirect("memory:account-delete")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@staff_only
def person_delete(request: BeaconRequest, pk: int) -> HttpResponse:
    """Delete another's account, as staff: by its name and the staff member's own password."""
    person = get_object_or_404(User, pk=pk)
    if person.pk == request.user.pk:
        return redirect("memory:account-delete")
    form = AccountDeletionForm(_posted(request), person=person)
    if request.method == "POST" and _is_deleted(request, person, form):
        text = _("The account of %(name)s is deleted with all that was theirs.")
        messages.success(request, text % {"name": person})
        return go_to(request, reverse("memory:people"))
    return _page(request, person, form)


def _posted(request: BeaconRequest) -> QueryDict | None:
    return request.POST if request.method == "POST" else None


def _is_deleted(request: BeaconRequest, person: User, form: AccountDeletionForm) -> bool:
    """Delete the account if all that was typed is right; else the form says what is not."""
    if not form.is_valid():
        return False
    try:
        account_deletion.check_typed(person, form.cleaned_data["name"])
        account_deletion.check_may_go(person)
    except InvalidValue as exc:
        form.add_error("name" if exc.errors else None, str(exc))
        return False
    by, password = request.user, form.cleaned_data["password"]
    # By the same door as a sign-in: who tries many passwords is locked out here too.
    if authenticate(request, username=by.get_username(), password=password) is None:
        sign_ins.note_failure(request, by.get_username())
        form.add_error("password", _("That is not your password. Nothing was deleted."))
        return False
    try:
        account_deletion.delete_account(person, typed=form.cleaned_data["name"], by=by)
    except InvalidValue as exc:
        form.add_error(None, str(exc))
        return False
    return True


def _page(request: BeaconRequest, person: User, form: AccountDeletionForm) -> HttpResponse:
    is_own = person.pk == request.user.pk
    context: dict[str, Any] = {
        "person": person,
        "is_own": is_own,
        "form": form,
        "goes": account_deletion.what_goes(person),
        "stays": _why_it_stays(person),
        "tab": "sign-ins" if is_own else "people",
    }
    if is_own:
        row = verifying.last_export(person)
        context |= {"export": row, "is_old": row and verifying.is_older_than_something(row)}
    return render(request, "memory/account_delete.html", context)


def _why_it_stays(person: User) -> str:
    try:
        account_deletion.check_may_go(person)
    except InvalidValue as exc:
        return str(exc)
    return ""
