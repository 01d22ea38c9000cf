"""Sign-in methods besides a password: the second step of a sign-in, and adding and removing methods."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, next_of, safe_local_path, signed_in
from memory.accounts import methods, sign_ins, single_sign_on
from memory.accounts.forms import ConfirmForm
from memory.models import Invitation, User
from memory.models.errors import InvalidValue
from memory.pages.accounts.views import (
    HOME,
    dead_link,
    entered,
    locked_out,
    sign_in_address,
    too_many_from_here,
)

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
            "required": gettext_lazy(
                "Enter the 6 digits that your authenticator app shows for Beacon."
            )
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
        if refusal := _too_many_attempts(request, person):
            return refusal
        if methods.takes_code(person, form.cleaned_data["code"]):
            sign_ins.begin(request, person)
            request.session.pop(methods.PENDING_FIELD, None)
            return redirect(goal)
        methods.count_failure(request, person)
        form.add_error(
            "code",
            _(
                "This code is wrong or was already used. Enter the app’s next code, or a recovery code. After 5 failed attempts, sign-in is locked for 15 minutes."
            ),
        )
    return render(request, "memory/sign_in_code.html", {"form": form})


def _too_many_attempts(request: BeaconRequest, person: User) -> HttpResponse | None:
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
@signed_in("GET", "POST")
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
@signed_in("GET", "POST")
def recovery_codes(request: BeaconRequest) -> HttpResponse:
    """Replace the recovery codes and show the new ones once."""
    if not methods.has_second_step(request.user):
        messages.info(
            request,
            _("Recovery codes are a backup for an authenticator app. Set up the app first."),
        )
        return redirect("memory:sign-ins")
    form = _confirmed(request)
    if form.is_confirmed:
        return _codes_page(request, methods.new_recovery_codes(request.user))
    return _confirm_page(
        request,
        form,
        title=_("New recovery codes"),
        text=_("You’ll get 10 new codes, and your current ones will stop working."),
        button=_("Create new codes"),
    )


def _codes_page(request: BeaconRequest, codes: list[str], *, is_new: bool = False) -> HttpResponse:
    context = {"codes": codes, "is_new": is_new, "tab": "sign-ins"}
    return render(request, "memory/recovery_codes.html", context)


@never_cache
@sensitive_post_parameters()
@signed_in("GET", "POST")
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
            "You’ll need only your password to sign in. Your recovery codes will also be deleted. Remember to remove Beacon from your authenticator app."
        )
    else:
        text = _(
            "You’ll no longer be able to sign in with this passkey. Remember to delete it from your device as well."
        )
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


# --- single sign-on ---


@never_cache
@require_POST
def single_sign_on_start(request: BeaconRequest) -> HttpResponse:
    """Send a stranger to the provider: to sign in, or with an invitation to create an account."""
    _check_on()
    goal = next_of(request, HOME)
    kept: dict[str, Any] = {}
    if token := request.POST.get("invitation", ""):
        invitation = Invitation.open_for(token)
        if invitation is None:
            return dead_link(request)
        kept = {"invitation": invitation.pk}
    if wait := sign_ins.closed_for(sign_ins.counted_address_of(request)):
        return too_many_from_here(request, wait)
    return _to_provider(request, goal, "login", **kept)


@never_cache
@signed_in("GET", "POST")
def single_sign_on_link(request: BeaconRequest) -> HttpResponse:
    """Link an account at the provider, after the person confirms who they are."""
    _check_on()
    name = settings.BEACON_OIDC_NAME
    form = _confirmed(request)
    if form.is_confirmed:
        return _to_provider(request, reverse("memory:sign-ins"), "connect", person=request.user.pk)
    return _confirm_page(
        request,
        form,
        title=_("Link %(name)s") % {"name": name},
        text=_(
            "You’ll sign in at %(name)s. After that, you can sign in to Beacon with that account too."
        )
        % {"name": name},
        button=_("Continue to %(name)s") % {"name": name},
    )


@never_cache
@signed_in("GET", "POST")
def single_sign_on_unlink(request: BeaconRequest) -> HttpResponse:
    _check_on()
    name = settings.BEACON_OIDC_NAME
    form = _confirmed(request)
    if form.is_confirmed:
        try:
            single_sign_on.unlink(request.user)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("Removed: %(name)s.") % {"name": name})
            return redirect("memory:sign-ins")
    return _confirm_page(
        request,
        form,
        title=_("Unlink %(name)s") % {"name": name},
        text=_("You’ll no longer be able to sign in to Beacon with your account at %(name)s.")
        % {"name": name},
        button=_("Unlink"),
        is_risky=True,
    )


@never_cache
@require_safe
def single_sign_on_done(request: BeaconRequest) -> HttpResponse:
    """Take the provider's answer: sign in, create an account, or link one."""
    _check_on()
    from memory.accounts import oidc

    if wait := sign_ins.closed_for(sign_ins.counted_address_of(request)):
        return too_many_from_here(request, wait)
    try:
        state, claims, sign_out_url = oidc.finish(request)
        if state["process"] == "connect":
            return _linked(request, state, claims)
        answer = _signed_in_by_provider(request, state, claims)
        single_sign_on.keep_sign_out(request, sign_out_url)
        return answer
    except single_sign_on.Refused as exc:
        return _refused_by_provider(request, exc, 403)


def _refused_by_provider(
    request: BeaconRequest, exc: single_sign_on.Refused, status: int
) -> HttpResponse:
    if request.user.is_authenticated:
        messages.error(request, str(exc))
        return redirect("memory:sign-ins")
    context = {"why": str(exc)}
    return render(request, "memory/single_sign_on_refused.html", context, status=status)


def _linked(
    request: BeaconRequest, state: dict[str, Any], claims: single_sign_on.Claims
) -> HttpResponse:
    if not request.user.is_authenticated or request.user.pk != state["data"]["person"]:
        raise single_sign_on.Refused(
            _("You were signed out in the meantime, so nothing was linked. Sign in and try again.")
        )
    single_sign_on.link(request.user, claims)
    messages.success(
        request,
        _("Linked. You can now sign in with %(name)s.") % {"name": settings.BEACON_OIDC_NAME},
    )
    return redirect("memory:sign-ins")


def _signed_in_by_provider(
    request: BeaconRequest, state: dict[str, Any], claims: single_sign_on.Claims
) -> HttpResponse:
    pk: int | None = (state["data"] or {}).get("invitation")
    invitation = Invitation.objects.filter(pk=pk).first() if pk else None
    person = single_sign_on.account_of(claims, invitation)
    return entered(request, person, safe_local_path(state.get("next", ""), HOME))


def _to_provider(request: BeaconRequest, goal: str, process: str, **kept: Any) -> HttpResponse:
    """Show a page that leads to the provider at once.

    Not a redirect: browsers apply `form-action` to those, and the provider's origin isn't known before.
    """
    from memory.accounts import oidc

    try:
        url = oidc.start(request, goal, process, **kept)
    except single_sign_on.Refused as exc:
        return _refused_by_provider(request, exc, 503)
    return render(
        request, "memory/to_provider.html", {"url": url, "name": settings.BEACON_OIDC_NAME}
    )


def _check_on() -> None:
    if not single_sign_on.provider_name():
        raise Http404


# --- passkeys ---


class PasskeyForm(forms.Form):
    """A new passkey's name, and what the browser created."""

    name = CleanTextField(
        label=gettext_lazy("Name"),
        max_length=60,
        help_text=gettext_lazy(
            "Enter a name that helps you recognize the passkey, such as the device or password manager."
        ),
        error_messages={"required": gettext_lazy("Enter a name, such as “Laptop”.")},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@never_cache
@sensitive_post_parameters()
@signed_in("GET", "POST")
def passkey_add(request: BeaconRequest) -> HttpResponse:
    """Add a passkey: the person confirms who they are, then the browser creates it."""
    if why := methods.passkeys_blocked():
        messages.error(request, why)
        return redirect("memory:sign-ins")
    if answer := request.POST.get("credential", ""):
        name = PasskeyForm(request.POST)
        shown = name.cleaned_data["name"] if name.is_valid() else _("Passkey")
        try:
            methods.add_passkey(request, answer, shown)
        except InvalidValue as exc:
            messages.error(request, str(exc))
        else:
            messages.success(request, _("Passkey added. You can now sign in with it."))
        return redirect("memory:sign-ins")
    form = _confirmed(request)
    if form.is_confirmed:
        browser = sign_ins.browser_of(request.headers.get("User-Agent", ""))
        context = {
            "form": PasskeyForm(initial={"name": browser}),
            "options": methods.passkey_options(request),
            "tab": "sign-ins",
        }
        return render(request, "memory/passkey_new.html", context)
    return _confirm_page(
        request,
        form,
        title=_("Add a passkey"),
        text=_(
            "A passkey signs you in with your fingerprint, face or PIN, without a password or code. It’s stored on your device, on a security key or in a password manager."
        ),
        button=_("Continue"),
    )


@never_cache
@require_POST
def sign_in_passkey(request: BeaconRequest) -> HttpResponse:
    """Sign in with a passkey: without `credential`, return what the browser needs (JSON)."""
    goal = next_of(request, HOME)
    if request.user.is_authenticated:
        return redirect(goal)
    if wait := sign_ins.closed_for(sign_ins.counted_address_of(request)):
        return too_many_from_here(request, wait)
    if not (answer := request.POST.get("credential", "")):
        return JsonResponse(methods.sign_in_options())
    try:
        person = methods.passkey_person(request, answer)
    except InvalidValue as exc:
        messages.error(request, str(exc))
        return redirect(sign_in_address(goal))
    if methods.is_locked(request, person):
        return locked_out(request)
    if not person.is_active:
        messages.error(request, _("This account is disabled. Contact your admin."))
        return redirect(sign_in_address(goal))
    sign_ins.begin(request, person)
    return redirect(goal)
