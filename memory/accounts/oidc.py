"""The protocol of single sign-on: OpenID Connect with `allauth.socialaccount`, and stricter checks.

This loads `requests` and `jwt`, so it's imported only when someone uses single sign-on.
"""

from __future__ import annotations

import hmac
import secrets
from functools import cache
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import requests
import structlog
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from beacon_site.net.errors import ProviderError
from beacon_site.net.http import ServiceHttp
from memory.accounts.single_sign_on import Refused

logger = structlog.get_logger(__name__)

WELL_KNOWN = "/.well-known/openid-configuration"
# Never HS256, which would make a key of what the provider publishes, and never "none".
ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]
LEEWAY = 60  # seconds that clocks may differ
SECONDS = 10  # for each request to the provider
FAILURES = (
    OAuth2Error,
    ProviderError,
    requests.RequestException,
    jwt.PyJWTError,
    AttributeError,  # these four: the provider's JSON isn't as it should be
    KeyError,
    TypeError,
    ValueError,
)


@cache
def _http(name: str) -> ServiceHttp:
    """Return the one client for the provider: a new one would read all root certificates again."""
    return ServiceHttp(name, timeout=SECONDS)


class _Limited(BaseAdapter):
    """Sends what `requests` prepared with Beacon's limits on time and size, and without redirects."""

    def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> requests.Response:
        body = request.body or b""
        headers = {
            name: str(value)
            for name, value in request.headers.items()
            if name.lower() in ("accept", "authorization", "content-type")
        }
        reply = _http(settings.BEACON_OIDC_NAME).send(
            request.method or "GET",
            request.url or "",
            body if isinstance(body, bytes) else str(body).encode(),
            headers,
        )
        response = requests.Response()
        response.status_code, response._content = reply.status, reply.content
        response.headers = CaseInsensitiveDict(reply.headers)
        response.url, response.request = request.url or "", request
        return response

    def close(self) -> None:
        pass


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """What allauth asks Beacon for (SOCIALACCOUNT_ADAPTER)."""

    def get_requests_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.max_redirects = 0
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Limited())
        return session


class _Protocol(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The provider that the settings name."""

    def get_provider(self) -> Provider:
        return provider(self.request)

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return settings.BEACON_URL + reverse("memory:single-sign-on-done")

    @property
    def openid_config(self) -> dict[str, Any]:
        """Return the provider's configuration, which must name the configured address as its issuer."""
        config: dict[str, Any] = super().openid_config
        issuer = settings.BEACON_OIDC_URL.removesuffix(WELL_KNOWN).rstrip("/")
        if str(config["issuer"]).rstrip("/") != issuer:
            raise OAuth2Error("another issuer")
        return config

    def claims(self, token: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return what the provider says about the person.

        allauth trusts a token that it fetched itself, and its own check needs named keys and the cache.
        Here the signature is always checked, and that the token was issued for this attempt to sign in.
        """
        config, client = self.openid_config, settings.BEACON_OIDC_CLIENT_ID
        found: dict[str, Any] = jwt.decode(
            token["id_token"],
            self._key_of(token["id_token"], config["jwks_uri"]),
            algorithms=ALGORITHMS,
            issuer=config["issuer"],
            audience=client,
            leeway=LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
        )
        if not hmac.compare_digest(str(found["nonce"]).encode(), nonce.encode()):
            raise OAuth2Error("another nonce")
        if found.get("azp", client) != client:
            raise OAuth2Error("another app")
        if "userinfo_endpoint" in config:
            more = self._fetch_user_info(token["access_token"])
            if more["sub"] == found["sub"]:  # otherwise it's about someone else
                found = more | found
        return found

    def sign_out_url(self, token: dict[str, Any]) -> str:
        """Return the page at the provider that ends its own session, or "" if it names none."""
        address = str(self.openid_config.get("end_session_endpoint") or "")
        parts = urlsplit(address)
        # An http provider is only for tests and networks that already trust it.
        secure = {"https", urlsplit(settings.BEACON_OIDC_URL).scheme}
        if parts.scheme not in secure or not parts.netloc:
            return ""
        query = urlencode(
            {
                "id_token_hint": token["id_token"],
                "client_id": settings.BEACON_OIDC_CLIENT_ID,
                "post_logout_redirect_uri": settings.BEACON_URL + reverse("memory:sign-in"),
            }
        )
        return f"{address}{'&' if parts.query else '?'}{query}"

    def _key_of(self, token: str, url: str) -> jwt.PyJWK:
        """Return the provider's key that signed the token.  It's read each time, since keys change."""
        wanted = jwt.get_unverified_header(token).get("kid")
        with Adapter().get_requests_session() as session:
            keys = jwt.PyJWKSet.from_dict(session.get(url).json()).keys
        usable = [
            key for key in keys if key.key_type != "oct" and key.public_key_use in (None, "sig")
        ]
        # A provider with one key doesn't need to name it.
        named = [key for key in usable if key.key_id == wanted] if wanted else usable
        if len(named) != 1:
            raise OAuth2Error("unknown key")
        return named[0]


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = _Protocol


def provider(request: HttpRequest) -> Provider:
    """Return the configured provider.

    Its address is part of each linked identity, so another provider's people don't get in.
    """
    address = settings.BEACON_OIDC_URL
    server = address.rstrip("/") + ("" if "/.well-known/" in address else WELL_KNOWN)
    app = SocialApp(
        provider="openid_connect",
        provider_id=address,
        name=settings.BEACON_OIDC_NAME,
        client_id=settings.BEACON_OIDC_CLIENT_ID,
        secret=settings.BEACON_OIDC_CLIENT_SECRET,
        settings={
            "server_url": server,
            "oauth_pkce_enabled": True,
            "scope": settings.BEACON_OIDC_SCOPES,
        },
    )
    return Provider(request, app=app)


def start(request: HttpRequest, goal: str, process: str, **kept: Any) -> str:
    """Remember what this browser wants, and return the provider's page to send it to.

    Raises Refused if the provider doesn't answer.
    """
    nonce = secrets.token_urlsafe(24)
    try:
        answer = provider(request).redirect(
            request, process, goal, auth_params={"nonce": nonce}, nonce=nonce, data=kept
        )
    except FAILURES as exc:
        raise _failed(exc) from None
    return str(answer["Location"])


def finish(request: HttpRequest) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return what the browser wanted, the person's claims, and where to sign out at the provider.

    Raises Refused. What the browser wanted is dropped first, so that an answer works only once.
    """
    ours = provider(request)
    state = statekit.unstash_state(
        request, state_id=request.GET.get("state", ""), provider_id=ours.sub_id
    )
    if "code" not in request.GET:
        logger.info("single sign-on refused", error=request.GET.get("error", "")[:60])
        raise Refused(
            _("%(name)s didn’t sign you in. Start again, or contact your admin.")
            % {"name": settings.BEACON_OIDC_NAME}
        )
    if state is None:
        raise Refused(
            _(
                "This sign-in has expired, was already used, or was started in another browser. Start again."
            )
        )
    protocol = _Protocol(request, ours.sub_id)
    try:
        token = protocol.get_access_token_data(
            request,
            ours.app,
            protocol.get_client(request, ours.app),
            pkce_code_verifier=state["pkce_code_verifier"],
        )
        return state, protocol.claims(token, state["nonce"]), protocol.sign_out_url(token)
    except FAILURES as exc:
        raise _failed(exc) from None


def _failed(exc: Exception) -> Refused:
    # Not the exception's text: it can contain what the provider answered.
    known = isinstance(exc, OAuth2Error) and str(exc).replace(" ", "").isalpha()
    cause = exc.__cause__ or exc
    logger.warning("single sign-on failed", why=str(exc) if known else type(cause).__name__)
    return Refused(
        _(
            "%(name)s didn’t respond as expected, so nothing was changed and you weren’t signed in. Try again. If this keeps happening, contact your admin."
        )
        % {"name": settings.BEACON_OIDC_NAME}
    )
