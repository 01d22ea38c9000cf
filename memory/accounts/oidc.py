"""The protocol of single sign-on: OpenID Connect with `allauth.socialaccount`, and stricter checks.

This loads `requests` and `jwt`, so it's imported only when somebody uses single sign-on.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any

import jwt
import redis
import requests
import structlog
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import jwtkit, statekit
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
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SECONDS = 10  # for each request to the provider
FAILURES = (
    OAuth2Error,
    ProviderError,
    requests.RequestException,
    redis.RedisError,  # in which used tokens are remembered
    jwt.PyJWTError,
    AttributeError,  # these four: the provider's JSON isn't as it should be
    KeyError,
    TypeError,
    ValueError,
)


class _Limited(BaseAdapter):
    """Sends what `requests` prepared with Beacon's limits on time and size, and without redirects."""

    def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> requests.Response:
        body = request.body or b""
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in ("accept", "authorization", "content-type")
        }
        reply = ServiceHttp(settings.BEACON_OIDC_NAME, timeout=SECONDS).send(
            request.method or "GET",
            request.url or "",
            body.encode() if isinstance(body, str) else bytes(body),
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

        allauth trusts a token that it fetched itself.  Here its signature is always checked, and that it
        was issued for this attempt to sign in.
        """
        text = token["id_token"]
        if jwt.get_unverified_header(text).get("alg") not in ALGORITHMS:
            raise OAuth2Error("unexpected algorithm")
        config, client = self.openid_config, settings.BEACON_OIDC_CLIENT_ID
        found: dict[str, Any] = jwtkit.verify_and_decode(
            credential=text,
            keys_url=config["jwks_uri"],
            issuer=config["issuer"],
            audience=client,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
        if not hmac.compare_digest(str(found["nonce"]).encode(), nonce.encode()):
            raise OAuth2Error("another nonce")
        if found.get("azp", client) != client or not found["sub"] or "exp" not in found:
            raise OAuth2Error("incomplete token")
        if "userinfo_endpoint" in config:
            more = self._fetch_user_info(token["access_token"])
            if more["sub"] == found["sub"]:  # otherwise it's about someone else
                found = more | found
        return found


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


def finish(request: HttpRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the browser wanted, and the person's claims.  Raises Refused.

    What the browser wanted is dropped first, so that an answer works only once.
    """
    ours = provider(request)
    state = statekit.unstash_state(
        request, state_id=request.GET.get("state", ""), provider_id=ours.sub_id
    )
    if state is None:
        raise Refused(
            _(
                "This sign-in has expired, was already used, or was started in another browser. Start again."
            )
        )
    if "code" not in request.GET:
        logger.info("single sign-on refused", error=request.GET.get("error", "")[:60])
        raise Refused(
            _("%(name)s didn’t sign you in. Start again, or contact your admin.")
            % {"name": settings.BEACON_OIDC_NAME}
        )
    protocol = _Protocol(request, ours.sub_id)
    try:
        token = protocol.get_access_token_data(
            request,
            ours.app,
            protocol.get_client(request, ours.app),
            pkce_code_verifier=state["pkce_code_verifier"],
        )
        return state, protocol.claims(token, state["nonce"])
    except FAILURES as exc:
        raise _failed(exc) from None


def _failed(exc: Exception) -> Refused:
    # Not the exception's text: it can contain what the provider answered.
    known = isinstance(exc, OAuth2Error) and str(exc).replace(" ", "").isalpha()
    cause = exc.__cause__ or exc
    logger.warning("single sign-on failed", why=str(exc) if known else type(cause).__name__)
    return Refused(
        _(
            "%(name)s doesn’t respond as expected, so nothing was changed and you aren’t signed in by it. Try again. If this keeps happening, contact your admin."
        )
        % {"name": settings.BEACON_OIDC_NAME}
    )
