"""The authorization server for MCP: metadata, the consent page, and the URLs that apps call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import structlog
from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, signed_in
from memory.accounts import oauth, sign_ins, tokens
from memory.accounts.forms import LimitToTopics
from memory.accounts.oauth import MAX_METADATA, Asked, OAuthError, OAuthRedirectError
from memory.accounts.tokens import resource_metadata
from memory.models import User
from memory.models.accounts import MAX_NAME_LENGTH
from memory.models.errors import InvalidValue

logger = structlog.get_logger(__name__)

REGISTRATIONS_PER_HOUR = 20  # from one address
NETWORK_REGISTRATIONS_PER_HOUR = 60  # from one IPv6 /48
REQUESTS_PER_MINUTE = 60  # of one person, since each can make Beacon fetch a document
STATUS = {"invalid_client": 401, "temporarily_unavailable": 429}


# --- metadata ---


@require_safe
def server_metadata(request: HttpRequest) -> HttpResponse:
    return JsonResponse(oauth.server_metadata())


@require_safe
def mcp_metadata(request: HttpRequest) -> HttpResponse:
    """Describe the MCP server. With https, a proxy serves it on the same host as the pages."""
    return JsonResponse(resource_metadata())


# --- consent ---


class ConsentForm(LimitToTopics):
    """What the app can do, and the name of the agent that it acts as."""

    field_order = ("scopes", "name", "topics")

    scopes = forms.ChoiceField(label=gettext_lazy("Permissions"), widget=forms.RadioSelect)
    name = CleanTextField(
        label=gettext_lazy("Agent name"),
        max_length=MAX_NAME_LENGTH,
        error_messages={"required": gettext_lazy("Enter a name. It shows who wrote what.")},
        help_text=gettext_lazy(
            "This name appears on everything the app writes. If you enter the name of an existing agent, the app shares that agent’s working data."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    READ = ("read", gettext_lazy("Read: search and view memory"))
    WRITE = (
        "read write",
        gettext_lazy("Read and write as an agent: risky writes wait for your approval"),
    )
    ONLY_WRITE = (
        "write",
        gettext_lazy("Write only, as an agent: risky writes wait for your approval"),
    )

    def __init__(self, asked: Asked, owner: User, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.offer(tokens.topics_for(owner))
        choices = {
            ("read", "write"): [self.WRITE, self.READ],
            ("read",): [self.READ],
            ("write",): [self.ONLY_WRITE],
        }[asked.scopes]
        self.fields["scopes"].choices = choices  # type: ignore[attr-defined]
        self.fields["scopes"].initial = choices[0][0]


Page = Callable[[BeaconRequest, Asked], HttpResponse]


def _asked_by(method: str) -> Callable[[Page], Callable[[BeaconRequest], HttpResponse]]:
    """Check the authorization request in the form or query string before the page is shown."""

    def wrapped(page: Page) -> Callable[[BeaconRequest], HttpResponse]:
        @wraps(page)
        def answer(request: BeaconRequest) -> HttpResponse:
            values: QueryDict = getattr(request, method)
            wait = sign_ins.over_limit("oauth-asked", request.user.pk, REQUESTS_PER_MINUTE)
            if wait:
                return _too_many(request, wait)
            try:
                asked = oauth.check_request(dict(values.lists()))
            except OAuthRedirectError as exc:
                # A link to Beacon mustn't lead elsewhere by itself (RFC 9700, 4.11.2).
                return _sent(exc.url) if method == "POST" else _refused(request, exc, exc.url)
            except OAuthError as exc:
                return _refused(request, exc)
            return page(request, asked)

        return answer

    return wrapped


@never_cache
@signed_in("GET", "HEAD")
@_asked_by("GET")
def authorize(request: BeaconRequest, query: Asked) -> HttpResponse:
    """Show what an app asks for. The person is signed in, so no stranger makes Beacon fetch."""
    name = oauth.suggested_name(request.user, query)
    return _consent_page(request, query, ConsentForm(query, request.user, initial={"name": name}))


@never_cache
@signed_in("POST")
@_asked_by("POST")
def consent(request: BeaconRequest, query: Asked) -> HttpResponse:
    """Allow what the app asked for, or refuse it; the browser goes back to the app either way."""
    if request.POST.get("answer") != "allow":
        return _sent(query.answer(error="access_denied"))
    form = ConsentForm(query, request.user, request.POST)
    if form.is_valid():
        name, scopes = form.cleaned_data["name"], form.cleaned_data["scopes"].split()
        try:
            code = oauth.allow(
                query,
                request.user,
                name=name,
                scopes=scopes,
                topics=form.wanted_topics,
                by=request.actor,
            )
        except InvalidValue as exc:
            form.add_error("name", str(exc))
        else:
            return _sent(query.answer(code=code))
    return _consent_page(request, query, form)


def _consent_page(request: BeaconRequest, query: Asked, form: ConsentForm) -> HttpResponse:
    again = [(name, value) for name in oauth.PARAMETERS for value in _values(request, name)]
    context = {"asked": query, "form": form, "again": again, "days": oauth.REFRESH_LIFETIME.days}
    response = render(request, "memory/oauth_consent.html", context)
    # Browsers apply this policy to the redirect after the form, too.
    response._csp_update = {"form-action": [query.origin]}  # type: ignore[attr-defined]
    return opened_by_app(response)


def opened_by_app(response: HttpResponse) -> HttpResponse:
    """Let the site that opened this window know when it comes back, as sites in popups need."""
    response["Cross-Origin-Opener-Policy"] = "unsafe-none"
    return response


def _values(request: BeaconRequest, name: str) -> list[str]:
    return (request.POST if request.method == "POST" else request.GET).getlist(name)


def _sent(url: str) -> HttpResponse:
    """Send the browser to the app. Django's own class knows only the schemes of the web."""
    return opened_by_app(HttpResponse(status=303, headers={"Location": url}))


def _refused(request: BeaconRequest, why: OAuthError, back: str = "") -> HttpResponse:
    """Say why the app got no access, with a link back to it if it registered the URL."""
    context = {"why": str(why), "back": back, "host": oauth.host_of(back)}
    return opened_by_app(render(request, "memory/oauth_refused.html", context, status=400))


def _too_many(request: BeaconRequest, wait: int) -> HttpResponse:
    answer = render(request, "429.html", {"retry_after": wait}, status=429)
    answer["Retry-After"] = str(wait)
    return answer


# --- URLs that apps call ---


def _for_apps(
    kind: str, most: Callable[[], int], window: int
) -> Callable[[Callable[[HttpRequest], HttpResponse]], Callable[[HttpRequest], HttpResponse]]:
    """Limit the requests from one address, and answer a refusal as the specification says.

    Cookies aren't read, so no form token is needed.
    """

    def wrapped(
        run: Callable[[HttpRequest], HttpResponse],
    ) -> Callable[[HttpRequest], HttpResponse]:
        @csrf_exempt
        @sensitive_post_parameters()
        @require_POST
        @wraps(run)
        def answer(request: HttpRequest) -> HttpResponse:
            wait = sign_ins.over_limit(kind, sign_ins.counted_address_of(request), most(), window)
            try:
                if wait:
                    words = _("Too many requests from this address. Try again later.")
                    raise OAuthError("temporarily_unavailable", words)
                response = run(request)
            except OAuthError as exc:
                logger.info("app refused", url=kind, error=exc.code)
                told = {"error": exc.code, "error_description": str(exc)}
                response = JsonResponse(told, status=STATUS.get(exc.code, 400))
                if response.status_code == 429:
                    response["Retry-After"] = str(wait or window)
            response["Cache-Control"] = "no-store"
            return response

        return answer

    return wrapped


@_for_apps("oauth-token", lambda: settings.BEACON_SIGN_INS_PER_MINUTE, 60)
def token(request: HttpRequest) -> HttpResponse:
    """Exchange a code or a refresh token."""
    return JsonResponse(oauth.exchange(_form_of(request)))


@_for_apps("oauth-register", lambda: REGISTRATIONS_PER_HOUR, 3600)
def register(request: HttpRequest) -> HttpResponse:
    """Register an app by its metadata."""
    network = sign_ins.counted_address_of(request, bits=48)
    if sign_ins.over_limit("oauth-network", network, NETWORK_REGISTRATIONS_PER_HOUR, 3600):
        words = _("Too many requests from this network. Try again later.")
        raise OAuthError("temporarily_unavailable", words)
    if _length(request) > MAX_METADATA:
        words = _("The metadata is larger than %(most)s bytes.") % {"most": grouped(MAX_METADATA)}
        raise OAuthError("invalid_client_metadata", words)
    return JsonResponse(oauth.register(request.body), status=201)


@_for_apps("oauth-revoke", lambda: settings.BEACON_SIGN_INS_PER_MINUTE, 60)
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke a grant by one of its tokens."""
    oauth.give_up(_form_of(request))
    return HttpResponse()


def _form_of(request: HttpRequest) -> dict[str, str]:
    """Return the form's values. Raises OAuthError for another media type or a repeated value."""
    is_form = request.content_type == "application/x-www-form-urlencoded"
    if not is_form or _length(request) > MAX_METADATA:
        words = _(
            "Send a form of at most %(most)d bytes with the content type application/x-www-form-urlencoded."
        )
        raise OAuthError("invalid_request", words % {"most": MAX_METADATA})
    if any(len(found) > 1 for _name, found in request.POST.lists()):
        raise OAuthError("invalid_request", _("A parameter is repeated."))
    return request.POST.dict()


def _length(request: HttpRequest) -> int:
    """Return the announced length; without one, a body is read as empty."""
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0
