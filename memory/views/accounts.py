"""Coming in and going out: sign-in, the first account, accounts by invitation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from axes.helpers import get_cool_off
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from beacon_site.http import BeaconRequest, current_page, page_of_ours
from memory.accounts import sign_in_failures, sign_ins
from memory.forms.accounts import NewAccountForm, SignInForm
from memory.models import Invitation, User

logger = structlog.get_logger(__name__)

HOME = "/"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: BeaconRequest) -> HttpResponse:
    """Ask for username and password; without any account, tell how to make the first."""
    goal = page_of_ours(request.POST.get("next") or request.GET.get("next", ""), HOME)
    if request.htmx and request.method == "GET":
        # A fragment was asked for when the session was over: the whole page must go.
        return HttpResponseClientRedirect(
            _sign_in_address(page_of_ours(current_page(request), HOME))
        )
    if request.user.is_authenticated:
        return redirect(goal)
    if not User.objects.exists():
        return redirect("memory:welcome")
    address = sign_ins.counted_address_of(request)
    if request.method == "POST" and (wait := sign_in_failures.closed_for(address)):
        return _too_many_from_here(request, wait)
    # Bound to a POST even where nothing of it could be read: an unbound form explains nothing.
    form = SignInForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        sign_ins.begin(request, form.get_user())
        return redirect(goal)
    if request.method == "POST" and form.cleaned_data.get("password"):
        sign_ins.note_failure(request, form.cleaned_data.get("username", ""))
    return render(request, "memory/sign_in.html", {"form": form, "next": goal})


def _sign_in_address(goal: str) -> str:
    return f"{resolve_url('memory:sign-in')}?{urlencode({'next': goal})}"


@require_POST
def sign_out(request: BeaconRequest) -> HttpResponse:
    """Sign out of this browser."""
    if request.user.is_authenticated:
        sign_ins.end(request)
        messages.success(request, _("You are signed out."))
    return redirect("memory:sign-in")


@require_safe
def welcome(request: HttpRequest) -> HttpResponse:
    """Say how the first account is made, while there is none."""
    if User.objects.exists():
        return redirect("memory:sign-in")
    return render(request, "memory/first_visit.html", {"data_folder": settings.DATA_DIR})


@never_cache
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "POST"])
def first_account(request: BeaconRequest, token: str) -> HttpResponse:
    """Make the first account, by the link that the start printed."""
    return _account_by_link(request, token, "memory/first_account.html")


@never_cache
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "POST"])
def invitation(request: BeaconRequest, token: str) -> HttpResponse:
    """Make an account, by a link that staff gave out."""
    return _account_by_link(request, token, "memory/invitation.html")


def _account_by_link(request: BeaconRequest, token: str, template: str) -> HttpResponse:
    """Show the form of a link that is still open, or make its account and sign in."""
    invitation = Invitation.open_for(token)
    if invitation is None:
        return _dead_link(request)
    form = NewAccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                user = invitation.accept(**form.wanted())
        except IntegrityError:  # two links, one name, the same moment
            form.add_error("username", _("Somebody has just taken this username."))
        else:
            if user is None:
                return _dead_link(request)
            sign_ins.begin(request, user)
            messages.success(request, _("Welcome, %(name)s.") % {"name": user})
            return redirect(HOME)
    return render(request, template, {"form": form, "invitation": invitation})


def _dead_link(request: HttpRequest) -> HttpResponse:
    first = not User.objects.exists()
    return render(request, "memory/dead_link.html", {"no_account_yet": first}, status=404)


def _too_many_from_here(request: HttpRequest, wait: int) -> HttpResponse:
    """Answer a sign-in where its address has used up the tries of this minute."""
    logger.warning("sign-in closed for an address", ip=sign_ins.address_of(request))
    most = settings.BEACON_SIGN_INS_PER_MINUTE
    answer = render(request, "memory/locked_out.html", {"most": most, "seconds": wait}, status=429)
    answer["Retry-After"] = str(wait)
    return answer


def locked_out(
    request: HttpRequest,
    response: HttpResponse | None = None,
    credentials: dict[str, Any] | None = None,
) -> HttpResponse:
    """Answer a sign-in after too many failures (AXES_LOCKOUT_CALLABLE): when to try again.

    Each try before then begins the wait anew, so it is always the whole one.
    """
    wait: timedelta = get_cool_off(request) or timedelta(minutes=15)
    logger.warning("sign-in closed after too many failures", ip=sign_ins.address_of(request))
    context = {"again_at": timezone.now() + wait, "minutes": round(wait.total_seconds() / 60)}
    answer = render(request, "memory/locked_out.html", context, status=429)
    answer["Retry-After"] = str(round(wait.total_seconds()))
    return answer
