"""OAuth for MCP: an app asks, a person allows it, and the app gets a token of one of their agents.

This is the part of OAuth 2.1 that the MCP authorization specification (2026-07-28) needs: codes with
PKCE (S256), rotating refresh tokens, registration (RFC 7591), client-ID metadata documents, and
resource indicators (RFC 8707). What an app gets is an `ApiToken` with a grant, so scopes, review,
limits, the list of tokens and revoking are the same as for any other token.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import unicodedata
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beacon_site.net.bounded import Limits
from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.text.cleaning import clean, is_visible, shorten
from memory.accounts import tokens
from memory.accounts.tokens import SCOPES_FOR_APPS as SCOPES
from memory.accounts.tokens import is_mcp_url, mcp_url
from memory.models import (
    Activity,
    Agent,
    ApiToken,
    Invitation,
    OAuthClient,
    OAuthGrant,
    Topic,
    User,
)
from memory.models.accounts import MAX_NAME_LENGTH, MAX_URI_LENGTH
from memory.models.actors import SYSTEM, Actor
from memory.models.errors import InvalidValue

CODE_LIFETIME = timedelta(minutes=1)
ACCESS_LIFETIME = timedelta(hours=1)
REFRESH_LIFETIME = timedelta(days=90)  # without use
CODE, REFRESH = "bcc_", "bcr_"

MAX_METADATA = 16 * 1024  # bytes of what an app says about itself
MAX_REDIRECTS = 20
MAX_UNUSED = 1_000  # registered apps that no one has allowed
UNUSED_KEPT = timedelta(days=30)
UNUSED_SAFE = timedelta(hours=1)  # younger ones don't make room for others
DOCUMENT_KEPT = timedelta(hours=1)
DOCUMENT_LIMITS = Limits(connect_seconds=3.0, whole_seconds=5.0, slow_seconds=3.0, redirects=0)

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# A scheme that an app claims on this computer contains a dot (RFC 8252); these editors' don't.
APP_SCHEMES = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf", "zed"})
_PRINTABLE = re.compile(r"[!-~]+")
_PLACE = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")  # host and port
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class OAuthError(Exception):
    """A refusal: an error code of the specification, and a sentence that says why."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class OAuthRedirectError(OAuthError):
    """A refusal with the URL that takes it to the app."""

    def __init__(self, code: str, words: str, url: str) -> None:
        super().__init__(code, words)
        self.url = url


# --- metadata ---


def server_metadata() -> dict[str, Any]:
    """Return the authorization server's metadata (RFC 8414)."""
    base = settings.BEACON_URL
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "registration_endpoint": f"{base}/oauth/register",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "scopes_supported": SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


# --- apps ---


class Metadata(BaseModel):
    """What an app says about itself, as far as Beacon uses it."""

    model_config = ConfigDict(strict=True)

    redirect_uris: list[str] = Field(min_length=1, max_length=MAX_REDIRECTS)
    client_name: str = ""
    client_id: str = ""  # only in a metadata document
    grant_types: list[str] = ["authorization_code"]
    response_types: list[str] = ["code"]


def _metadata(body: bytes) -> Metadata:
    """Return what an app says about itself. Raises OAuthError."""
    try:
        value = json.loads(body)
        if not isinstance(value, dict):
            raise OAuthError("invalid_client_metadata", _("The metadata must be a JSON object."))
        # Some clients send null for what they leave out.
        found = Metadata.model_validate({k: one for k, one in value.items() if one is not None})
    except ValidationError as exc:
        first = exc.errors()[0]
        params = {"field": ".".join(map(str, first["loc"])), "why": first["msg"]}
        words = _("The metadata field %(field)s is invalid: %(why)s.") % params
        raise OAuthError("invalid_client_metadata", words) from exc
    except (ValueError, RecursionError) as exc:
        raise OAuthError("invalid_client_metadata", _("The metadata must be valid JSON.")) from exc
    if "authorization_code" not in found.grant_types or "code" not in found.response_types:
        words = _("The app must use the grant type authorization_code and the response type code.")
        raise OAuthError("invalid_client_metadata", words)
    for uri in found.redirect_uris:
        check_redirect(uri)
    return found


def check_redirect(uri: str) -> None:
    """Check that a browser can be sent to this URI with a code. Raises OAuthError."""
    try:
        parts = urlsplit(uri)
        fits = parts.port is None or parts.port > 0
    except ValueError:
        fits = False
    if fits:
        fits = (
            len(uri) <= MAX_URI_LENGTH
            and _PRINTABLE.fullmatch(uri) is not None
            and not set(uri) & set("#\\<>\"'`{}|^")
            and "@" not in parts.netloc
            and _is_safe_target(parts)
        )
    if not fits:
        words = _(
            "A redirect URI must use https, http on this computer (such as http://127.0.0.1/callback) or an app’s private scheme. It can’t have a fragment, username or password."
        )
        raise OAuthError("invalid_redirect_uri", words)


def _is_safe_target(parts: SplitResult) -> bool:
    if parts.scheme in ("http", "https"):
        is_host = _PLACE.fullmatch(parts.netloc) is not None
        return is_host and (parts.scheme == "https" or parts.hostname in LOOPBACK)
    return parts.scheme in APP_SCHEMES or "." in parts.scheme


def register(body: bytes) -> dict[str, Any]:
    """Register an app by its metadata (RFC 7591) and return the response. Raises OAuthError."""
    found = _metadata(body)
    _make_room(is_document=False)
    client = OAuthClient.objects.create(
        client_id=secrets.token_urlsafe(24),
        name=_shown_name(found.client_name),
        redirect_uris=found.redirect_uris,
    )
    return {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",  # nosec B105
        "scope": " ".join(SCOPES),
    }


def forget_unused() -> int:
    """Delete registered apps that no one has allowed for 30 days; return how many."""
    old = OAuthClient.objects.never_allowed().filter(created__lt=timezone.now() - UNUSED_KEPT)
    return int(old.delete()[0])


def _make_room(*, is_document: bool) -> None:
    """Delete the oldest unused app if there are too many. Raises OAuthError if all are new."""
    unused = OAuthClient.objects.never_allowed().filter(read_at__isnull=not is_document)
    unused = unused.order_by("created")
    if unused.count() < MAX_UNUSED:
        return
    oldest = unused.filter(created__lt=timezone.now() - UNUSED_SAFE).first()
    if oldest is None:
        words = _("Too many apps were registered in the last hour. Try again later.")
        raise OAuthError("temporarily_unavailable", words)
    oldest.delete()


def _shown_name(name: str, default: str = "") -> str:
    """Return an app's name for itself, in one line and without invisible characters.

    Marks that reverse text could make the consent page say something else.
    """
    plain = "".join(
        " " if unicodedata.category(char) == "Cc" else char
        for char in clean(name)[0]
        if unicodedata.category(char) != "Cf"
    )
    return shorten(plain, MAX_NAME_LENGTH) if is_visible(plain) else default or _("Unnamed app")


def client_of(client_id: str) -> OAuthClient:
    """Return the app with this ID, reading its metadata document if the ID is a URL.

    Raises OAuthError for an unknown app, and for a document that is missing or invalid.
    """
    known = _registered_client(client_id)
    if not client_id.startswith("https://"):
        if known is None:
            words = _("This app isn’t registered. Remove Beacon from the app and connect it again.")
            raise OAuthError("invalid_client", words)
        return known
    now = timezone.now()
    if known is not None and known.read_at and known.read_at > now - DOCUMENT_KEPT:
        return known
    try:
        found = _document(client_id)
    except ProviderUnavailable as exc:
        if known is not None:  # a passing failure at its server
            return known
        raise OAuthError("invalid_client", str(exc)) from exc
    except ProviderError as exc:
        raise OAuthError("invalid_client", str(exc)) from exc
    if known is None:
        _make_room(is_document=True)
    host = urlsplit(client_id).hostname or ""
    values = {
        "name": _shown_name(found.client_name, host),
        "redirect_uris": found.redirect_uris,
        "read_at": now,
    }
    return OAuthClient.objects.update_or_create(client_id=client_id, defaults=values)[0]


def _registered_client(client_id: str) -> OAuthClient | None:
    if not _PRINTABLE.fullmatch(client_id) or len(client_id) > MAX_URI_LENGTH:
        return None
    return OAuthClient.objects.filter(client_id=client_id).first()


def _document(url: str) -> Metadata:
    """Return a metadata document, fetched through the guard. Raises OAuthError, ProviderError."""
    try:
        check_redirect(url)
        path = urlsplit(url).path
        is_valid = path not in ("", "/") and not {".", ".."} & set(path.split("/"))
    except OAuthError:
        is_valid = False
    if not is_valid:
        words = _("The client ID isn’t a valid URL of a metadata document.")
        raise OAuthError("invalid_client", words)
    fetcher = GuardedFetcher(limits=DOCUMENT_LIMITS)
    reply = fetcher.get_bytes(url, headers={"Accept": "application/json"}, max_bytes=MAX_METADATA)
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        words = _("The metadata document must have the content type application/json.")
        raise OAuthError("invalid_client", words)
    found = _metadata(reply.content)
    if found.client_id != url:
        words = _("The metadata document is for another client ID.")
        raise OAuthError("invalid_client", words)
    return found


# --- asking and allowing ---


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked authorization request."""

    client: OAuthClient
    redirect_uri: str
    scopes: tuple[str, ...]
    challenge: str
    state: str
    resource: str

    def answer(self, **values: str) -> str:
        """Return the URL that sends these values to the app."""
        return _sent_to(self.redirect_uri, self.state, values)

    @property
    def target(self) -> str:
        """Return the host that the browser is sent to, or "" for an app on the same computer."""
        return host_of(self.redirect_uri)

    @property
    def origin(self) -> str:
        """Return the redirect URI's origin, or its scheme, as a source for the content policy."""
        parts = urlsplit(self.redirect_uri)
        is_named = parts.scheme in ("http", "https") and "[" not in parts.netloc
        return f"{parts.scheme}://{parts.netloc}" if is_named else f"{parts.scheme}:"


def host_of(uri: str) -> str:
    """Return the host of an https URL, or "" for another redirect URI."""
    parts = urlsplit(uri)
    return parts.hostname or "" if parts.scheme == "https" else ""


PARAMETERS = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
)


def check_request(values: Mapping[str, Sequence[str]]) -> Asked:
    """Check an authorization request, given as lists of values by name.

    Raises OAuthError if the app or its redirect URI isn't known, so nothing can be sent there, and
    OAuthRedirectError for everything else.
    """
    given = {name: list(values.get(name, ())) for name in PARAMETERS}
    repeated = [name for name, found in given.items() if len(found) > 1 and name != "resource"]
    one = {name: found[0] if found else "" for name, found in given.items()}
    client = client_of(one["client_id"])
    uri = one["redirect_uri"]
    if {"client_id", "redirect_uri"} & set(repeated) or not _is_registered(client, uri):
        words = _("The redirect URI isn’t one that the app registered.")
        raise OAuthError("invalid_request", words)

    def refuse(code: str, words: str) -> OAuthRedirectError:
        values = {"error": code, "error_description": words}
        return OAuthRedirectError(code, words, _sent_to(uri, one["state"], values))

    if repeated:
        raise refuse("invalid_request", _("A parameter is repeated."))
    if one["response_type"] != "code":
        raise refuse("unsupported_response_type", _("The response type must be “code”."))
    is_s256 = one["code_challenge_method"] == "S256"
    if not is_s256 or not _CHALLENGE.fullmatch(one["code_challenge"]):
        raise refuse("invalid_request", _("PKCE with the method S256 is required."))
    if not all(is_mcp_url(resource) for resource in given["resource"]):
        words = _("The resource must be the URL of this MCP server: %(url)s") % {"url": mcp_url()}
        raise refuse("invalid_target", words)
    wanted = one["scope"].split() or SCOPES
    scopes = tuple(scope for scope in SCOPES if scope in wanted)
    if not scopes:
        raise refuse("invalid_scope", _("The scope must include read or write."))
    resource = one["resource"] or mcp_url()
    return Asked(client, uri, scopes, one["code_challenge"], one["state"], resource)


def _is_registered(client: OAuthClient, uri: str) -> bool:
    """Whether the app registered the URI. On this computer, the port can be another (RFC 8252)."""
    return uri in client.redirect_uris or (
        (bare := _without_port(uri)) is not None
        and bare in {_without_port(known) for known in client.redirect_uris}
    )


def _without_port(uri: str) -> tuple[str, str, str] | None:
    """Return host, path and query of a valid loopback URI, else None."""
    try:
        check_redirect(uri)
    except OAuthError:
        return None
    parts = urlsplit(uri)
    if parts.scheme != "http":
        return None
    return parts.hostname or "", parts.path, parts.query


def _sent_to(uri: str, state: str, values: Mapping[str, str]) -> str:
    parts = urlsplit(uri)
    more = {**values, "iss": settings.BEACON_URL} | ({"state": state} if state else {})
    query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *more.items()])
    return parts._replace(query=query).geturl()


def suggested_name(owner: User, query: Asked) -> str:
    """Return a name for the app's agent.

    It's never the name of an agent that another app uses: the app chose its name itself, and would
    see that agent's working data. An app gets the name it had before only if the code goes to the
    site that publishes its metadata document. On this computer, any app can use that document.
    """
    client = query.client
    if client.host and client.host == query.target:
        before = ApiToken.objects.for_user(owner).filter(grant__client=client).order_by("-created")
        if (last := before.select_related("agent").first()) is not None:
            return last.agent.name
    try:
        name = tokens.checked_name(client.name.replace(":", " "))
    except InvalidValue:
        name = _("Connected app")
    taken = {
        one.casefold() for one in Agent.objects.filter(owner=owner).values_list("name", flat=True)
    }
    number, free = 1, name
    while free.casefold() in taken:
        number += 1
        free = f"{name[: MAX_NAME_LENGTH - 8]} {number}"
    return free


def allow(
    query: Asked,
    owner: User,
    *,
    name: str,
    scopes: Sequence[str],
    by: Actor,
    topics: Collection[Topic] = (),
) -> str:
    """Allow the app to act as the owner's agent of this name; return the code for it.

    With `topics` (of `tokens.topics_for`), the app can use only these. Raises InvalidValue for a name or scopes that can't be used.
    """
    name = tokens.checked_name(name)
    granted = [scope for scope in query.scopes if scope in scopes]
    if not granted or set(scopes) - set(query.scopes):
        text = _("Choose one of the permissions that the app asked for.")
        raise InvalidValue(text, errors={"scopes": [text]})
    family, code = _secret(CODE)
    now = timezone.now()
    with transaction.atomic():
        stale = ApiToken.objects.for_user(owner).filter(expires_at__lt=now)
        stale.filter(grant__access_until=None, grant__isnull=False).delete()
        agent, _made = Agent.objects.get_or_create(owner=owner, name=name)
        token = ApiToken.objects.create(
            agent=agent,
            hash=Invitation.hash_of(secrets.token_urlsafe(32)),
            scopes=granted,
            expires_at=now + CODE_LIFETIME,
            topic_ids=[topic.pk for topic in topics],
        )
        grant = OAuthGrant.objects.create(
            token=token,
            client=query.client,
            resource=query.resource,
            redirect_uri=query.redirect_uri,
            challenge=query.challenge,
            family=Invitation.hash_of(family),
            secret=Invitation.hash_of(code),
        )
        Activity.log(
            owner, by, "app-allowed", subject=token, app=query.client.name, host=grant.host
        )
    return code


def _secret(prefix: str, family: str = "") -> tuple[str, str]:
    """Return a family and a secret of it."""
    family = family or secrets.token_urlsafe(16)
    return family, f"{prefix}{family}.{secrets.token_urlsafe(32)}"


# --- tokens ---


def exchange(form: Mapping[str, str]) -> dict[str, Any]:
    """Return new tokens for a code or a refresh token. Raises OAuthError.

    A code or refresh token that was used before, or that another app sends, was stolen by one of
    two senders, so the whole grant is revoked.
    """
    kind = form.get("grant_type", "")
    if kind not in ("authorization_code", "refresh_token"):
        words = _("The grant type must be authorization_code or refresh_token.")
        raise OAuthError("unsupported_grant_type", words)
    is_code = kind == "authorization_code"
    text = form.get("code" if is_code else "refresh_token", "")
    if not form.get("client_id") or not text:
        raise OAuthError("invalid_request", _("A parameter is missing."))
    with transaction.atomic():
        grant = _locked_grant(text, CODE if is_code else REFRESH)
        if grant is not None:
            if not _is_unused(grant, text, form, is_code=is_code):
                _revoke(grant)
            elif _is_alive(grant):
                _check_wanted(grant, form)
                return _issue(grant, text)
    if _registered_client(form["client_id"]) is None:
        # With this code, an app registers again instead of trying forever.
        raise OAuthError("invalid_client", _("This app is unknown. Register it again."))
    what = _("code") if is_code else _("refresh token")
    words = _("The %(what)s is unknown, expired, revoked or already used. Connect the app again.")
    raise OAuthError("invalid_grant", words % {"what": what})


def _locked_grant(text: str, prefix: str) -> OAuthGrant | None:
    """Return the grant of a code or refresh token, even a used one, and lock it."""
    family, dot, _rest = text.removeprefix(prefix).partition(".")
    if not (text.startswith(prefix) and dot and len(text) <= tokens.MAX_TEXT_LENGTH):
        return None
    rows = OAuthGrant.objects.filter(family=Invitation.hash_of(family))
    return (
        rows.select_related("token__agent__owner", "client").select_for_update(of=("self",)).first()
    )


def _is_unused(grant: OAuthGrant, text: str, form: Mapping[str, str], *, is_code: bool) -> bool:
    """Whether the right app sends the valid code or refresh token, with all that belongs to it."""
    if not constant_time_compare(grant.secret, Invitation.hash_of(text)):
        return False
    if form["client_id"] != grant.client.client_id:
        return False
    if not is_code:
        return grant.access_until is not None
    verifier = form.get("code_verifier", "")
    return (
        grant.access_until is None
        and form.get("redirect_uri", "") == grant.redirect_uri
        and _VERIFIER.fullmatch(verifier) is not None
        and constant_time_compare(_challenge(verifier), grant.challenge)
    )


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def _is_alive(grant: OAuthGrant) -> bool:
    token = grant.token
    expires = token.expires_at
    in_time = expires is not None and expires > timezone.now()
    return in_time and token.revoked_at is None and token.agent.owner.is_active


def _check_wanted(grant: OAuthGrant, form: Mapping[str, str]) -> None:
    """Check that the app wants no more than it was granted. Raises OAuthError."""
    if form.get("resource", grant.resource) != grant.resource:
        words = _("The resource must be the one that access was granted for.")
        raise OAuthError("invalid_target", words)
    if not set(form.get("scope", "").split()) <= set(grant.token.scopes):
        words = _("The requested scope can’t exceed the granted scope.")
        raise OAuthError("invalid_scope", words)


def _issue(grant: OAuthGrant, used: str) -> dict[str, Any]:
    """Replace the grant's tokens; the ones before stop working at once."""
    family = used[len(CODE) :].partition(".")[0]
    access = tokens.GRANTED + secrets.token_urlsafe(32)
    _family, refresh = _secret(REFRESH, family)
    now = timezone.now()
    ApiToken.objects.filter(pk=grant.token_id).update(
        hash=Invitation.hash_of(access), expires_at=now + REFRESH_LIFETIME
    )
    OAuthGrant.objects.filter(pk=grant.pk).update(
        secret=Invitation.hash_of(refresh), access_until=now + ACCESS_LIFETIME
    )
    return {
        "access_token": access,
        "token_type": "Bearer",  # nosec B105
        "expires_in": int(ACCESS_LIFETIME.total_seconds()),
        "refresh_token": refresh,
        "scope": " ".join(grant.token.scopes),
    }


def _revoke(grant: OAuthGrant) -> None:
    """Revoke a grant because its code or refresh token was sent by the wrong sender."""
    token = grant.token
    if tokens.revoke(token, by=SYSTEM):
        owner, app = token.agent.owner, grant.client.name
        Activity.log(owner, SYSTEM, "app-secret-reused", subject=token, warning=True, app=app)


def give_up(form: Mapping[str, str]) -> None:
    """Revoke the grant of an app that signs out (RFC 7009). An unknown token changes nothing."""
    text = form.get("token", "")
    if text.startswith(REFRESH):
        with transaction.atomic():
            grant = _locked_grant(text, REFRESH)
    else:
        # An access token that has expired still names its grant. A person's own token has none.
        grants = OAuthGrant.objects.filter(token__hash=Invitation.hash_of(text))
        grant = grants.select_related("token__agent", "client").first()
    if grant is not None and grant.client.client_id == form.get("client_id"):
        tokens.revoke(grant.token, by=grant.token.agent.actor)
