"""Sign-in methods besides a password: the second step of a sign-in, and adding and removing methods."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from beacon_site.web.http import BeaconRequest
from memory.accounts import methods, sign_ins
from memory.models import User
from memory.models.errors import InvalidValue
from memory.pages.accounts.forms import ConfirmForm
from memory.pages.accounts.views import HOME, locked_out, too_many_from_here

GET_POST = require_http_methods(["GET", "POST"])


class CodeForm(forms.Form):
    """A code of the authenticator app, or a recovery code."""

    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=40,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "spellcheck": "false", "autofocus": True}
        ),
        error_messages={"required": gettext_lazy("Enter a code.")},
    )


class AppForm(ConfirmForm):
    """A code that shows that the app was set up, and the person's password."""

    code = forms.CharField(
        label=gettext_lazy("Code from the app"),
        max_length=40,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
        ),
        error_messages={
            "required": gettext_lazy("Enter the 6 digits that the app shows for Beacon.")
        },
    )
    field_order = ("code", "password")


# --- the second step of a sign-in ---


@never_cache
@sensitive_post_parameters("code")
@GET_POST
def sign_in_code(request: BeaconRequest) -> HttpResponse:
    """Ask for the code of the authenticator app, after the password was right."""
    found = methods.pending(request)
    if found is None:
        return redirect(HOME if request.user.is_authenticated else "memory:sign-in")
    person, goal = found
    form = CodeForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        if refusal := _closed(request, person):
            return refusal
        if methods.takes_code(person, form.cleaned_data["code"]):
            sign_ins.begin(request, person)
            request.session.pop(methods.PENDING_FIELD, None)
            return redirect(goal)
        methods.count_failure(request, person)
        form.add_error(
            "code",
            _(
                "Wrong code, or it was already used. Enter the app’s next code, or a recovery code. After 5 failures, sign-in is locked for 15 minutes."
            ),
        )
    return render(request, "memory/sign_in_code.html", {"form": form})


def _closed(request: BeaconRequest, person: User) -> HttpResponse | None:
    """Return the answer to an attempt if there were too many, from this address or for the person."""
    if wait := sign_ins.closed_for(sign_ins.counted_address_of(request)):
        return too_many_from_here(request, wait)
    if wait := methods.code_wait(person):
        context = {"seconds": wait, "minutes": -(-wait // 60), "is_code": True}
        answer = render(request, "memory/locked_out.html", context, status=429)
        answer["Retry-After"] = str(wait)
        return answer
    if methods.is_locked(request, person):
        return locked_out(request)
    return None


# --- adding and removing methods ---


@never_cache
@sensitive_post_parameters()
@GET_POST
@login_required
def app_set_up(request: BeaconRequest) -> HttpResponse:
    """Set up an authenticator app: its QR code, and a code that shows that it works."""
    if methods.has_second_step(request.user):
        messages.info(request, _("An authenticator app is already set up. Remove it first."))
        return redirect("memory:sign-ins")
    form = AppForm(request.POST if request.method == "POST" else None, person=request.user)
    secret = totp.get_totp_secret()
    if request.method == "POST" and form.is_valid():
        try:
            methods.check_confirmed(request, form.cleaned_data.get("password", ""))
            codes = methods.turn_on_app(request.user, secret, form.cleaned_data["code"])
        except InvalidValue as exc:
            form.take(exc)
        else:
            totp.clear_totp_secret(request)
            return _codes_page(request, codes, is_new=True)
    context = {
        "form": form,
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "qr": methods.qr_code(request.user, secret),
        "tab": "sign-ins",
    }
    return render(request, "memory/authenticator_app.html", context)


@never_cache
@sensitive_post_parameters()
@GET_POST
@login_required
def recovery_codes(request: BeaconRequest) -> HttpResponse:
    """Replace the recovery codes and show the new ones once."""
    if not methods.has_second_step(request.user):
        messages.info(
            request, _("Recovery codes replace an authenticator app’s code. Set up an app first.")
        )
        return redirect("memory:sign-ins")
    form = _confirmed(request)
    if form.is_confirmed:
        return _codes_page(request, methods.new_recovery_codes(request.user))
    return _confirm_page(
        request,
        form,
        title=_("New recovery codes"),
        text=_("You’ll get 10 new codes. Your current ones stop working."),
        button=_("Create new codes"),
    )


def _codes_page(request: BeaconRequest, codes: list[str], *, is_new: bool = False) -> HttpResponse:
    context = {"codes": codes, "is_new": is_new, "tab": "sign-ins"}
    return render(request, "memory/recovery_codes.html", context)


@never_cache
@sensitive_post_parameters()
@GET_POST
@login_required
def method_remove(request: BeaconRequest, pk: int) -> HttpResponse:
    """Remove the authenticator app or a passkey, after the person confirms who they are."""
    mine = Authenticator.objects.filter(user=request.user)
    row = get_object_or_404(mine.exclude(type=methods.Type.RECOVERY_CODES), pk=pk)
    form = _confirmed(request)
    if form.is_confirmed:
        try:
            methods.remove(row, by=request.user)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("Removed: %(name)s.") % {"name": methods.name_of(row)})
            return redirect("memory:sign-ins")
    if row.type == methods.Type.TOTP:
        text = _(
            "Your password will be enough to sign in. The recovery codes are deleted too. Also remove Beacon from the app."
        )
    else:
        text = _("You can no longer sign in with this passkey. Also delete it from your device.")
    title = _("Remove %(name)s") % {"name": methods.name_of(row)}
    return _confirm_page(request, form, title=title, text=text, button=_("Remove"), is_risky=True)


def _confirmed(request: BeaconRequest) -> ConfirmForm:
    """Return the form in which people confirm who they are; `is_confirmed` if they did."""
    form = ConfirmForm(request.POST if request.method == "POST" else None, person=request.user)
    if request.method == "POST" and form.is_valid():
        try:
            methods.check_confirmed(request, form.cleaned_data.get("password", ""))
        except InvalidValue as exc:
            form.take(exc)
        else:
            form.is_confirmed = True
    return form


def _confirm_page(request: BeaconRequest, form: ConfirmForm, **context: Any) -> HttpResponse:
    return render(
        request, "memory/confirm_method.html", {"form": form, "tab": "sign-ins", **context}
    )
