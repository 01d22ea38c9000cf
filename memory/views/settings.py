"""Settings of the person: profile, password, and where they are signed in."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest, zone_of
from memory.accounts import settings_undo, sign_ins
from memory.contexts import identity
from memory.forms.accounts import NewPasswordForm, ProfileForm
from memory.models import Activity, Note, SignIn, User
from memory.responses import undo_settings_tag


@require_safe
@login_required
def settings(request: BeaconRequest) -> HttpResponse:
    """Lead to the first tab."""
    return redirect("memory:profile")


@require_http_methods(["GET", "POST"])
@login_required
def profile(request: BeaconRequest) -> HttpResponse:
    """Show and change what the person says about themselves."""
    # A copy: what a refused form held must not show in the frame as saved.
    person = User.objects.get(pk=request.user.pk) if request.method == "POST" else request.user
    form = ProfileForm(request.POST or None, instance=person)
    before = settings_undo.now(request.user, "profile") if request.method == "POST" else {}
    if request.method == "POST" and form.is_valid():
        # The user note says what the profile says, from the same moment on (R202).
        with transaction.atomic():
            request.user = form.save()
            identity.write_profile(request.user, by=request.actor)
            Activity.log(request.user, request.actor, "profile-changed", subject=request.user)
        timezone.activate(zone_of(request.user.time_zone))
        undo = undo_settings_tag(request, "profile", before)
        messages.success(request, _("Your profile is saved."), extra_tags=undo)
        if not request.htmx:
            return redirect("memory:profile")
        form = ProfileForm(instance=request.user)
    template = "memory/_profile_form.html" if request.htmx else "memory/settings_profile.html"
    note = identity.active(request.user, Note.Kind.USER)
    return render(request, template, {"form": form, "note": note, "tab": "profile"})


@require_safe
@login_required
def sign_in_list(request: BeaconRequest) -> HttpResponse:
    """Show where the person is signed in, and the form for a new password."""
    return _sign_ins_page(request, NewPasswordForm(request.user))


def _sign_ins_page(request: BeaconRequest, form: NewPasswordForm) -> HttpResponse:
    return render(request, "memory/settings_sign_ins.html", {"form": form, **_sign_ins(request)})


def _sign_ins(request: BeaconRequest) -> dict[str, object]:
    here = request.session.get(sign_ins.SESSION_FIELD)
    rows = list(sign_ins.open_ones(request.user))
    for row in rows:
        row.browser = sign_ins.browser_of(row.user_agent)  # type: ignore[attr-defined]
        row.is_here = row.pk == here  # type: ignore[attr-defined]
    rows.sort(key=lambda row: row.pk != here)
    return {"rows": rows, "others": sum(row.pk != here for row in rows), "tab": "sign-ins"}


@sensitive_post_parameters()
@require_POST
@login_required
def password(request: BeaconRequest) -> HttpResponse:
    """Set a new password; every other browser is signed out by it."""
    form = NewPasswordForm(request.user, request.POST)
    if form.is_valid():
        form.save()
        update_session_auth_hash(request, request.user)
        sign_ins.end_everywhere_else(request)
        Activity.log(request.user, request.actor, "password-changed", subject=request.user)
        text = _("Your password is changed. Every other browser has been signed out.")
        messages.success(request, text)
        return redirect("memory:sign-ins")
    return _sign_ins_page(request, form)


@require_POST
@login_required
def end_sign_in(request: BeaconRequest, pk: int) -> HttpResponse:
    """Sign out one other browser."""
    row = get_object_or_404(SignIn.objects.of(request.user), pk=pk)
    if row.pk == request.session.get(sign_ins.SESSION_FIELD):
        messages.error(request, _("That is this browser: sign out by the menu at your name."))
    else:
        sign_ins.end_elsewhere(SignIn.objects.of(request.user).filter(pk=row.pk))
        Activity.log(request.user, request.actor, "sign-in-ended", subject=row)
        messages.success(request, _("That browser is signed out."))
    return _after_ending(request)


@require_POST
@login_required
def end_other_sign_ins(request: BeaconRequest) -> HttpResponse:
    """Sign out every browser but this one."""
    ended = sign_ins.end_everywhere_else(request)
    Activity.log(request.user, request.actor, "sign-ins-ended", subject=request.user, ended=ended)
    text = ngettext("One browser is signed out.", "%(count)d browsers are signed out.", ended)
    messages.success(request, text % {"count": ended})
    return _after_ending(request)


def _after_ending(request: BeaconRequest) -> HttpResponse:
    if request.htmx:
        return render(request, "memory/_sign_ins.html", _sign_ins(request))
    return redirect("memory:sign-ins")
