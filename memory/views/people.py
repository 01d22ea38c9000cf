"""The people of this Beacon: accounts and invitations, for staff."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Max, OuterRef, Subquery
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from beacon_site.http import BeaconRequest
from memory.accounts import people
from memory.accounts.guards import staff_only
from memory.accounts.people import works_here_alone
from memory.double_submit import submission
from memory.errors import InvalidValue
from memory.forms.accounts import InvitationForm
from memory.models import Invitation, SignIn, User


@never_cache
@require_http_methods(["GET", "POST"])
@staff_only
def people_list(request: BeaconRequest) -> HttpResponse:
    """List accounts and open invitations; POST makes an invitation, whose link is shown once."""
    form = InvitationForm(request.POST or None)
    link = ""
    if request.method == "POST" and form.is_valid():
        with submission(request) as submitted:
            wanted = form.cleaned_data | {"instead_of": submitted.previous}
            invitation, token = people.invite(by=request.user, **wanted)
            submitted.remember(str(invitation.pk))
        link = settings.BEACON_URL + reverse("memory:invitation", args=[token])
        form = InvitationForm()
        more = {"form": form, "link": link, "invitation": invitation}
        return _page(request, more | {"here_alone": works_here_alone()})
    return _page(request, {"form": form})


def _page(request: BeaconRequest, more: dict[str, Any]) -> HttpResponse:
    template = "memory/_people.html" if request.htmx else "memory/people.html"
    return render(request, template, _people() | {"tab": "people"} | more)


def _people() -> dict[str, Any]:
    seen = SignIn.objects.filter(owner=OuterRef("pk")).values("owner")
    accounts = User.objects.annotate(
        seen_at=Subquery(seen.annotate(last=Max("last_seen_at")).values("last"))
    )
    waiting = Invitation.objects.filter(used_at=None, expires_at__gt=timezone.now(), is_first=False)
    return {
        "people": accounts.order_by("-is_active", "username"),
        "invitations": waiting.select_related("invited_by"),
    }


@require_POST
@staff_only
def disable(request: BeaconRequest, pk: int) -> HttpResponse:
    """Close an account."""
    person = get_object_or_404(User, pk=pk)
    try:
        people.disable(person, by=request.user)
    except InvalidValue as exc:
        messages.error(request, str(exc))
    else:
        text = _("%(name)s is signed out and cannot sign in any more. Nothing was deleted.")
        undo = "undo:" + reverse("memory:person-enable", args=[pk])
        messages.success(request, text % {"name": person}, extra_tags=undo)
    return _done(request)


@require_POST
@staff_only
def enable(request: BeaconRequest, pk: int) -> HttpResponse:
    """Open a disabled account again."""
    person = get_object_or_404(User, pk=pk)
    people.enable(person, by=request.user)
    if person.pk != request.user.pk:
        undo = "undo:" + reverse("memory:person-disable", args=[pk])
        words = _("%(name)s can sign in again.") % {"name": person}
        messages.success(request, words, extra_tags=undo)
    return _done(request)


@require_POST
@staff_only
def revoke_invitation(request: BeaconRequest, pk: int) -> HttpResponse:
    """Take back a link that nobody has used."""
    invitation = get_object_or_404(Invitation, pk=pk, used_at=None)
    people.revoke(invitation, by=request.user)
    text = _("The link for %(note)s does not work any more.")
    messages.success(request, text % {"note": invitation})
    return _done(request)


def _done(request: BeaconRequest) -> HttpResponse:
    return _page(request, {"form": InvitationForm()}) if request.htmx else redirect("memory:people")
