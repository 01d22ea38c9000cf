"""Pages of accounts: deleting one, sign-in, invitations, people, settings, tokens and agents."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog
from allauth.mfa.models import Authenticator
from axes.helpers import get_cool_off
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect
from redis.exceptions import RedisError

from beacon_site.text.dates import zone_of
from beacon_site.web.http import BeaconRequest, current_page
from beacon_site.web.responses import next_of, redirect_to, safe_local_path, signed_in, staff_only
from memory.accounts import agents as accounts_agents
from memory.accounts import methods, people, sign_ins, single_sign_on, tokens
from memory.accounts.archive import exporter, jobs
from memory.accounts.forms import (
    AccountDeletionForm,
    FirstPasswordForm,
    InvitationForm,
    NewAccountForm,
    NewPasswordForm,
    ProfileForm,
    SignInForm,
    TokenForm,
)
from memory.accounts.people import works_here_alone
from memory.models import Activity, ApiToken, Invitation, Note, SignIn, User
from memory.models.accounts import MAX_NAME_LENGTH
from memory.models.errors import InvalidValue
from memory.pages.accounts.oauth import opened_by_app
from memory.pages.shared.double_submit import submission
from memory.pages.shared.undo import offer, offer_settings, settings_now, undoes
from memory.services.context import identity


@never_cache
@sensitive_post_parameters("password")
@signed_in("GET", "POST")
def account_delete(request: BeaconRequest) -> HttpResponse:
    """Delete your own account, after you confirm its name and password."""
    form = AccountDeletionForm(_posted(request), person=request.user, is_own=True)
    if request.method == "POST" and _is_deleted(request, request.user, form):
        logout(request)
        messages.success(request, _("Your account and all its data have been deleted."))
        return redirect_to(request, reverse("memory:sign-in"))
    return _page(request, request.user, form)


@signed_in("POST")
def account_export(request: BeaconRequest) -> HttpResponse:
    """Export the account before it is deleted, and return to the page that deletes it."""
    jobs.start(jobs.ask_export(request.user))
    return redirect("memory:account-delete")


@never_cache
@sensitive_post_parameters("password")
@staff_only("GET", "POST")
def person_delete(request: BeaconRequest, pk: int) -> HttpResponse:
    """Delete another person's account as an admin, confirmed by its name and the admin's password."""
    person = get_object_or_404(User, pk=pk)
    if person.pk == request.user.pk:
        return redirect("memory:account-delete")
    form = AccountDeletionForm(_posted(request), person=request.user, is_own=False)
    if request.method == "POST" and _is_deleted(request, person, form):
        text = _("%(name)s’s account and all its data have been deleted.")
        messages.success(request, text % {"name": person})
        return redirect_to(request, reverse("memory:people"))
    return _page(request, person, form)


def _posted(request: BeaconRequest) -> QueryDict | None:
    return request.POST if request.method == "POST" else None


def _is_deleted(request: BeaconRequest, person: User, form: AccountDeletionForm) -> bool:
    """Delete the account if everything typed is right; otherwise add errors to the form."""
    if not form.is_valid():
        return False
    try:
        people.check_typed(person, form.cleaned_data["name"])
        people.check_not_last_admin(person)
    except InvalidValue as exc:
        form.add_error("name" if exc.errors else None, str(exc))
        return False
    try:
        methods.check_confirmed(request, form.cleaned_data.get("password", ""))
        people.delete_account(person, typed=form.cleaned_data["name"], by=request.user)
    except InvalidValue as exc:
        form.take(exc)
        return False
    return True


def _page(request: BeaconRequest, person: User, form: AccountDeletionForm) -> HttpResponse:
    is_own = person.pk == request.user.pk
    context: dict[str, Any] = {
        "person": person,
        "is_own": is_own,
        "form": form,
        "goes": people.deletion_summary(person),
        "stays": _why_it_stays(person),
        "tab": "sign-ins" if is_own else "people",
    }
    if is_own:
        row = exporter.last_export(person)
        context |= {"export": row, "is_old": row and exporter.is_older_than_something(row)}
    return render(request, "memory/account_delete.html", context)


def _why_it_stays(person: User) -> str:
    try:
        people.check_not_last_admin(person)
    except InvalidValue as exc:
        return str(exc)
    return ""


# --- sign-in, the first account, invitations ---

logger = structlog.get_logger(__name__)

HOME = "/"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: BeaconRequest) -> HttpResponse:
    """Ask for username and password; without any account, explain how to create the first."""
    goal = next_of(request, HOME)
    if request.htmx and request.method == "GET":
        # A fragment was requested after the session ended: return the whole page.
        return HttpResponseClientRedirect(
            sign_in_address(safe_local_path(current_page(request), HOME))
        )
    if request.user.is_authenticated:
        return redirect(goal)
    if not User.objects.exists():
        return redirect("memory:welcome")
    address = sign_ins.counted_address_of(request)
    if request.method == "POST" and (wait := sign_ins.closed_for(address)):
        return too_many_from_here(request, wait)
    named = single_sign_on.named_by_proxy(request)
    person = User.objects.filter(username=named, is_active=True).first() if named else None
    if person is not None:
        return entered(request, person, goal)
    # Bound to a POST even if nothing in it could be read: an unbound form shows no errors.
    form = SignInForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return entered(request, form.get_user(), goal)
    if request.method == "POST" and form.cleaned_data.get("password"):
        sign_ins.note_failure(request, form.cleaned_data.get("username", ""))
    context = {
        "form": form,
        "next": goal,
        "named": named,
        "provider": single_sign_on.provider_name(),
        "sign_out_url": single_sign_on.take_sign_out(request),
        "passkeys": not methods.passkeys_blocked(),
    }
    response = render(request, "memory/sign_in.html", context)
    return (
        opened_by_app(response) if goal.startswith(reverse("memory:oauth-authorize")) else response
    )


def entered(request: HttpRequest, person: User, goal: str) -> HttpResponse:
    """Sign the person in and show the page they wanted, or ask for the second step first."""
    if methods.is_locked(request, person):
        return locked_out(request)
    return redirect(goal if methods.enter(request, person, goal) else "memory:sign-in-code")


def sign_in_address(goal: str) -> str:
    return f"{resolve_url('memory:sign-in')}?{urlencode({'next': goal})}"


@require_POST
def sign_out(request: BeaconRequest) -> HttpResponse:
    if request.user.is_authenticated:
        sign_out_url = single_sign_on.take_sign_out(request)
        sign_ins.end(request)
        single_sign_on.keep_sign_out(request, sign_out_url)
        messages.success(request, _("You’re signed out."))
    return redirect("memory:sign-in")


# --- forms that were sent after the session had expired, kept until the person has signed in again ---

# Over htmx a form stays on its page, so only forms sent without JavaScript are kept: in the cache, for
# the account that was signed in in this browser, and without files and secrets.
KEPT_SECONDS = 15 * 60
MAX_CHARACTERS = 500_000  # the longest text of a form is a memory file's
# Fields whose values must not be stored: passwords, keys and codes, and the form's own token.
_SECRET = re.compile(r"pass|secret|token|credential|api_?key|code$", re.I)
_TYPED = re.compile(r"\s|[^\x00-\x7f]")  # what a person typed, and not an ID or a choice


def keep_form(request: HttpRequest, back: str) -> str:
    """Keep the form, and return the page to show after the sign-in.

    That is `back` for a form without text, or if it isn't known whose it is.
    """
    owner, kept = sign_ins.last_person(request), sent_form(request, back)
    if owner is None or kept is None:
        return back
    key = uuid4()
    try:
        cache.set(_kept_key(owner, key), kept, KEPT_SECONDS)
    except RedisError as exc:
        logger.warning("form not kept", error=type(exc).__name__)
        return back
    return reverse("memory:kept-form", args=[key])


def sent_form(request: HttpRequest, back: str) -> dict[str, Any] | None:
    """Return the context of `kept_form.html`, or None for a form without text or with too much."""
    fields = [
        (name, str(value))
        for name, values in request.POST.lists()
        for value in values
        if not _SECRET.search(name)
    ]
    size = sum(len(name) + len(value) for name, value in fields)
    typed = [value for _name, value in fields if _TYPED.search(value.strip())]
    if not typed or size > MAX_CHARACTERS:
        return None
    return {"address": request.get_full_path(), "fields": fields, "typed": typed, "back": back}


@never_cache
@signed_in("GET")
def kept_form(request: BeaconRequest, key: UUID) -> HttpResponse:
    """Show a form that was sent after the session had ended, to send it again."""
    try:
        kept: dict[str, Any] | None = cache.get(_kept_key(request.user.pk, key))
    except RedisError:
        kept = None
    if kept is None:
        why = _("The form you sent before signing in is no longer available.")
        return render(request, "404.html", {"why": why}, status=404)
    return render(request, "memory/kept_form.html", kept)


def _kept_key(owner: int, key: UUID) -> str:
    return f"kept-form:{owner}:{key}"


@require_safe
def welcome(request: HttpRequest) -> HttpResponse:
    """Explain how to create the first account, while there is none."""
    if User.objects.exists():
        return redirect("memory:sign-in")
    return render(request, "memory/first_visit.html", {"data_folder": settings.DATA_DIR})


@never_cache
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "POST"])
def first_account(request: BeaconRequest, token: str) -> HttpResponse:
    """Create the first account, by the link printed on startup."""
    return _account_by_link(request, token, "memory/first_account.html")


@never_cache
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "POST"])
def invitation(request: BeaconRequest, token: str) -> HttpResponse:
    """Create an account, by a link from an admin."""
    return _account_by_link(request, token, "memory/invitation.html")


def _account_by_link(request: BeaconRequest, token: str, template: str) -> HttpResponse:
    """Show the form of an open link, or create its account and sign in."""
    invitation = Invitation.open_for(token)
    if invitation is None:
        return dead_link(request)
    form = NewAccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                user = invitation.accept(**form.wanted())
        except IntegrityError:  # two links used with one name at the same time
            form.add_error("username", _("This username has just been taken."))
        else:
            if user is None:
                return dead_link(request)
            sign_ins.begin(request, user)
            messages.success(request, _("Welcome, %(name)s.") % {"name": user})
            return redirect(HOME)
    context = {"form": form, "invitation": invitation, "token": token}
    return render(request, template, context | {"provider": single_sign_on.provider_name()})


def dead_link(request: HttpRequest) -> HttpResponse:
    first = not User.objects.exists()
    return render(request, "memory/dead_link.html", {"no_account_yet": first}, status=404)


def too_many_from_here(request: HttpRequest, wait: int) -> HttpResponse:
    """Answer a sign-in if its IP address has used up the attempts of this minute."""
    logger.warning("sign-in blocked for an address", ip=sign_ins.address_of(request))
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

    Each earlier attempt restarts the wait, so the answer is always the full time.
    """
    wait: timedelta = get_cool_off(request) or timedelta(minutes=15)
    logger.warning("sign-in blocked after too many failures", ip=sign_ins.address_of(request))
    context = {"again_at": timezone.now() + wait, "minutes": round(wait.total_seconds() / 60)}
    answer = render(request, "memory/locked_out.html", context, status=429)
    answer["Retry-After"] = str(round(wait.total_seconds()))
    return answer


# --- accounts and invitations, for admins ---


@never_cache
@staff_only("GET", "POST")
def people_list(request: BeaconRequest) -> HttpResponse:
    """List accounts and open invitations; POST creates an invitation, whose link is shown once."""
    form = InvitationForm(request.POST or None)
    link = ""
    if request.method == "POST" and form.is_valid():
        with submission(request) as (previous, remember):
            wanted = form.cleaned_data | {"instead_of": previous}
            invitation, token = people.invite(by=request.user, **wanted)
            remember(str(invitation.pk))
        link = settings.BEACON_URL + reverse("memory:invitation", args=[token])
        form = InvitationForm()
        more = {"form": form, "link": link, "invitation": invitation}
        return _people_page(request, more | {"here_alone": works_here_alone()})
    return _people_page(request, {"form": form})


def _people_page(request: BeaconRequest, more: dict[str, Any]) -> HttpResponse:
    template = "memory/_people.html" if request.htmx else "memory/people.html"
    return render(request, template, _people() | {"tab": "people"} | more)


def _people() -> dict[str, Any]:
    seen = SignIn.objects.filter(owner=OuterRef("pk")).values("owner")
    accounts = User.objects.annotate(
        seen_at=Subquery(seen.annotate(last=Max("last_seen_at")).values("last")),
        has_app=Exists(Authenticator.objects.filter(user=OuterRef("pk"), type="totp")),
    )
    waiting = Invitation.objects.filter(used_at=None, expires_at__gt=timezone.now(), is_first=False)
    return {
        "people": accounts.order_by("-is_active", "username"),
        "invitations": waiting.select_related("invited_by"),
    }


@staff_only("POST")
def disable(request: BeaconRequest, pk: int) -> HttpResponse:
    _set_active(request, pk, active=False)
    return _done(request)


@staff_only("POST")
def enable(request: BeaconRequest, pk: int) -> HttpResponse:
    _set_active(request, pk, active=True)
    return _done(request)


def _set_active(request: BeaconRequest, pk: int, *, active: bool) -> None:
    person = get_object_or_404(User, pk=pk)
    if active:
        people.enable(person, by=request.user)
        words = _("%(name)s can sign in again.")
    else:
        people.disable(person, by=request.user)
        words = _("%(name)s is signed out and can no longer sign in. Nothing was deleted.")
    if not active or person.pk != request.user.pk:
        undo = offer(request, "person-access", pk=pk, was_active=not active)
        messages.success(request, words % {"name": person}, extra_tags=undo)


@undoes("person-access")
def _undo_access(request: BeaconRequest, pk: int, *, was_active: bool) -> str:
    if not request.user.is_staff:
        raise PermissionDenied
    if get_object_or_404(User, pk=pk).is_active == was_active:
        raise InvalidValue(
            _("This account’s access has changed since then, so your change couldn’t be undone.")
        )
    _set_active(request, pk, active=was_active)
    return reverse("memory:people")


@staff_only("POST")
def code_off(request: BeaconRequest, pk: int) -> HttpResponse:
    """Remove the authenticator app of a person who lost the phone and the recovery codes."""
    person = get_object_or_404(User, pk=pk)
    if person == request.user:
        messages.error(request, _("Remove your own authenticator app in Settings → Security."))
    elif methods.reset_second_step(person, by=request.user):
        text = _("%(name)s can now sign in without a code. Ask them to set up an app again.")
        messages.success(request, text % {"name": person})
    return _done(request)


@staff_only("POST")
def revoke_invitation(request: BeaconRequest, pk: int) -> HttpResponse:
    """Revoke a link that hasn't been used."""
    invitation = get_object_or_404(Invitation, pk=pk, used_at=None)
    people.revoke(invitation, by=request.user)
    text = _("Link for %(note)s revoked.")
    messages.success(request, text % {"note": invitation})
    return _done(request)


def _done(request: BeaconRequest) -> HttpResponse:
    return (
        _people_page(request, {"form": InvitationForm()})
        if request.htmx
        else redirect("memory:people")
    )


# --- profile, password, sign-ins ---


@signed_in("GET", "HEAD")
def profile_settings(request: BeaconRequest) -> HttpResponse:
    return redirect("memory:profile")


@signed_in("GET", "POST")
def profile(request: BeaconRequest) -> HttpResponse:
    # A copy, so that a rejected form's values don't appear in the frame as saved.
    person = User.objects.get(pk=request.user.pk) if request.method == "POST" else request.user
    form = ProfileForm(request.POST or None, instance=person)
    before = settings_now(request.user, "profile") if request.method == "POST" else {}
    if request.method == "POST" and form.is_valid():
        # The user note repeats the profile and is updated with it (R202).
        with transaction.atomic():
            request.user = form.save()
            identity.write_profile(request.user, by=request.actor)
            Activity.log(request.user, request.actor, "profile-changed", subject=request.user)
        timezone.activate(zone_of(request.user.time_zone))
        undo = offer_settings(request, "profile", before)
        messages.success(request, _("Profile saved."), extra_tags=undo)
        if not request.htmx:
            return redirect("memory:profile")
        form = ProfileForm(instance=request.user)
    template = "memory/_profile_form.html" if request.htmx else "memory/settings_profile.html"
    note = identity.active(request.user, Note.Kind.USER)
    return render(request, template, {"form": form, "note": note, "tab": "profile"})


@signed_in("GET", "HEAD")
def sign_in_list(request: BeaconRequest) -> HttpResponse:
    """Show where the person is signed in, and the form for a new password."""
    return _sign_ins_page(request, _password_form(request))


def _password_form(request: BeaconRequest) -> NewPasswordForm | FirstPasswordForm:
    data = request.POST if request.method == "POST" else None
    if request.user.has_usable_password():
        return NewPasswordForm(request.user, data)
    return FirstPasswordForm(request.user, data)


def _sign_ins_page(
    request: BeaconRequest, form: NewPasswordForm | FirstPasswordForm
) -> HttpResponse:
    return render(request, "memory/settings_sign_ins.html", {"form": form, **_security(request)})


def _sign_ins(request: BeaconRequest) -> dict[str, object]:
    here = request.session.get(sign_ins.SESSION_FIELD)
    rows = list(sign_ins.open_ones(request.user))
    for row in rows:
        row.browser = sign_ins.browser_of(row.user_agent)  # type: ignore[attr-defined]
        row.is_here = row.pk == here  # type: ignore[attr-defined]
    rows.sort(key=lambda row: row.pk != here)
    return {"rows": rows, "others": sum(row.pk != here for row in rows), "tab": "sign-ins"}


def _security(request: BeaconRequest) -> dict[str, object]:
    links = single_sign_on.links_of(request.user) if single_sign_on.provider_name() else []
    linked = [row.extra_data.get("name") or row.uid for row in links]
    return {
        **_sign_ins(request),
        **methods.summary(request.user),
        "provider": single_sign_on.provider_name(),
        "linked": linked,
        "has_password": request.user.has_usable_password(),
    }


@sensitive_post_parameters()
@signed_in("POST")
def password(request: BeaconRequest) -> HttpResponse:
    """Set a new password, which signs out every other browser."""
    form = _password_form(request)
    if form.is_valid() and _is_confirmed(request, form):
        form.save()
        update_session_auth_hash(request, request.user)
        sign_ins.end_everywhere_else(request)
        Activity.log(request.user, request.actor, "password-changed", subject=request.user)
        text = _("Password changed. All other browsers are signed out.")
        messages.success(request, text)
        return redirect("memory:sign-ins")
    return _sign_ins_page(request, form)


def _is_confirmed(request: BeaconRequest, form: NewPasswordForm | FirstPasswordForm) -> bool:
    """Return True if the current password was right, or a person without one has just signed in."""
    try:
        methods.check_confirmed(request, form.cleaned_data.get("old_password", ""))
    except InvalidValue as exc:
        form.add_error("old_password" if exc.errors else None, str(exc))
        return False
    return True


@signed_in("POST")
def end_sign_in(request: BeaconRequest, pk: int) -> HttpResponse:
    """Sign out one other browser."""
    row = get_object_or_404(SignIn.objects.for_user(request.user), pk=pk)
    if row.pk == request.session.get(sign_ins.SESSION_FIELD):
        messages.error(
            request,
            _("This is the browser you’re using. To sign out, open the menu under your name."),
        )
    else:
        sign_ins.end_elsewhere(SignIn.objects.for_user(request.user).filter(pk=row.pk))
        Activity.log(request.user, request.actor, "sign-in-ended", subject=row)
        messages.success(request, _("Browser signed out."))
    return _after_ending(request)


@signed_in("POST")
def end_other_sign_ins(request: BeaconRequest) -> HttpResponse:
    ended = sign_ins.end_everywhere_else(request)
    Activity.log(request.user, request.actor, "sign-ins-ended", subject=request.user, ended=ended)
    text = ngettext("1 browser signed out.", "%(count)d browsers signed out.", ended)
    messages.success(request, text % {"count": ended})
    return _after_ending(request)


def _after_ending(request: BeaconRequest) -> HttpResponse:
    if request.htmx:
        return render(request, "memory/_sign_ins.html", _sign_ins(request))
    return redirect("memory:sign-ins")


# --- API tokens and agents ---

MAX_ENDED = 20  # revoked and expired tokens that are still listed, newest first


@never_cache
@signed_in("GET", "POST")
def token_list(request: BeaconRequest) -> HttpResponse:
    """List the person's tokens; POST creates one, whose text is shown once."""
    form = _form(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with submission(request) as (previous, remember):
                token, text = tokens.issue_instead(
                    request.user,
                    instead_of=previous,
                    name=form.cleaned_data["name"],
                    scopes=form.wanted_scopes,
                    expires_at=form.expires_at,
                    topics=form.wanted_topics,
                    by=request.actor,
                )
                remember(str(token.pk))
        except InvalidValue as exc:
            form.take(exc)
        else:
            return _tokens_page(request, _form(request), made=token, text=text)
    return _tokens_page(request, form)


def _form(request: BeaconRequest, data: QueryDict | None = None) -> TokenForm:
    topics = tokens.topics_for(request.user)
    name = {
        "name": request.GET.get("name", "")[:MAX_NAME_LENGTH]
    }  # on the way from an agent's page
    return TokenForm(data, initial=name, is_staff=request.user.is_staff, topics=topics)


def _tokens_page(
    request: BeaconRequest, form: TokenForm, *, made: ApiToken | None = None, text: str = ""
) -> HttpResponse:
    mine = ApiToken.objects.for_user(request.user)
    rows, ended = tokens.listed(mine, form.offered, most_ended=MAX_ENDED)
    apps = accounts_agents.apps(text, with_paths=request.user.is_staff)
    context: dict[str, Any] = {
        "form": form,
        "rows": rows,
        "ended": ended,
        "made": made,
        "text": text,
        "app_groups": [
            (_("Sign in from the app"), [app for app in apps if app[1]]),
            (_("Connect with a token"), [app for app in apps if not app[1]]),
        ],
        "mcp_url": tokens.mcp_url(),
        "rest": accounts_agents.rest_example(text),
        "chat": accounts_agents.chat_example(text),
        "hooks": accounts_agents.hooks_example(),
        "tab": "tokens",
    }
    template = "memory/_tokens.html" if request.htmx else "memory/settings_tokens.html"
    return render(request, template, context)


@signed_in("POST")
def token_revoke(request: BeaconRequest, pk: int) -> HttpResponse:
    mine = ApiToken.objects.for_user(request.user).select_related("agent__owner", "grant")
    token = get_object_or_404(mine, pk=pk)
    if tokens.revoke(token, by=request.actor):
        text = _("Token revoked. To give %(name)s access again, create a new token.")
        if hasattr(token, "grant"):
            text = _("Access revoked. To restore it, connect %(name)s again.")
        messages.success(request, text % {"name": token.agent})
    else:
        messages.info(request, _("This token has already been revoked."))
    if request.htmx:
        return _tokens_page(request, _form(request))
    return redirect(next_of(request, reverse("memory:tokens")))
