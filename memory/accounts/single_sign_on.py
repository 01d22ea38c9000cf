"""Single sign-on: which account a provider's identity, or a header of a trusted proxy, opens.

An identity is the provider's address and its subject.  An email address or a username never links one to
an account, since people can choose them at many providers.  An account is linked by its signed-in owner, or
created with an invitation.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import structlog
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth import logout
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import one_line
from beacon_site.web.http import Middleware
from memory.accounts import people
from memory.models import Activity, Invitation, User
from memory.models.errors import InvalidValue
from memory.models.llm import seal, unseal

logger = structlog.get_logger(__name__)

MAX_SUBJECT_LENGTH = 191  # the width of the column; the specification allows 255
Claims = dict[str, Any]


class Refused(Exception):
    """The provider, or what it says, opens no account. The message says what to do."""


def provider_name() -> str:
    """Return the provider's name, or "" if none is configured."""
    return settings.BEACON_OIDC_NAME if settings.BEACON_OIDC_URL else ""


SIGN_OUT_FIELD = "provider_sign_out"  # of the session


def keep_sign_out(request: HttpRequest, url: str) -> None:
    """Keep where the provider's own session is ended. The URL says who signed in, so it's encrypted."""
    if url:
        request.session[SIGN_OUT_FIELD] = seal(url)


def take_sign_out(request: HttpRequest) -> str:
    """Return where the provider's own session is ended, once, or ""."""
    return unseal(request.session.pop(SIGN_OUT_FIELD, ""))


def links_of(person: User) -> QuerySet[SocialAccount]:
    """Return the person's linked accounts at the configured provider."""
    rows: QuerySet[SocialAccount] = SocialAccount.objects.filter(
        user=person, provider=settings.BEACON_OIDC_URL
    )
    return rows


def account_of(claims: Claims, invitation: Invitation | None) -> User:
    """Return the account that the identity opens, which an invitation can create.  Raises Refused."""
    check_groups(claims)
    row = _row(claims)
    if row is not None:
        person: User = row.user
        if not person.is_active:
            raise Refused(_("This account is disabled. Contact your admin."))
        SocialAccount.objects.filter(pk=row.pk).update(last_login=timezone.now())
    elif invitation is not None:
        person = _invited(claims, invitation)
    else:
        raise Refused(
            _(
                "Your %(name)s account isn’t linked to a Beacon account. If you have a Beacon account, sign in another way and link it in Settings → Security. Otherwise, ask your admin for an invite link."
            )
            % {"name": settings.BEACON_OIDC_NAME}
        )
    _follow_groups(person, claims)
    return person


def _row(claims: Claims) -> SocialAccount | None:
    uid = _uid(claims)
    rows = SocialAccount.objects.filter(provider=settings.BEACON_OIDC_URL, uid=uid)
    return rows.select_related("user").first()


def _uid(claims: Claims) -> str:
    uid = claims["sub"]
    if not isinstance(uid, str) or len(uid) > MAX_SUBJECT_LENGTH or "\0" in uid:
        raise Refused(
            _("%(name)s sent an ID that Beacon can’t store. Contact your admin.")
            % {"name": settings.BEACON_OIDC_NAME}
        )
    return uid


def _invited(claims: Claims, invitation: Invitation) -> User:
    wanted, name = claims.get("preferred_username"), claims.get("name")
    try:
        with transaction.atomic():
            person = invitation.accept(
                username=_free_username(wanted if isinstance(wanted, str) else ""),
                password=None,
                display_name=one_line(name)[:150] if isinstance(name, str) else "",
            )
            if person is not None:
                link(person, claims)
    except IntegrityError:  # two sign-ups at the same time
        raise Refused(_("This username has just been taken. Open the invite link again.")) from None
    if person is None:
        raise Refused(
            _("This invite link has expired or was already used. Ask your admin for a new one.")
        )
    return person


def _free_username(value: str) -> str:
    """Return a username like the wanted one that can't be confused with another account's."""
    base = "".join(sign for sign in value if sign.isalnum() or sign in "@.+-_")[:140] or "user"
    name, number = base, 1
    while people.is_confusable(name):
        number += 1
        name = f"{base}{number}"
    return name


def link(person: User, claims: Claims) -> None:
    """Link an identity to a person's account.  Raises Refused if it opens another account."""
    check_groups(claims)
    shown = next((claims[k] for k in ("preferred_username", "email", "name") if k in claims), "")
    row, made = SocialAccount.objects.get_or_create(
        provider=settings.BEACON_OIDC_URL,
        uid=_uid(claims),
        defaults={"user": person, "extra_data": {"name": one_line(str(shown))[:150]}},
    )
    if row.user_id != person.pk:
        raise Refused(
            _("This %(name)s account is linked to another Beacon account. Nothing was changed.")
            % {"name": settings.BEACON_OIDC_NAME}
        )
    if made:
        label = settings.BEACON_OIDC_NAME
        Activity.log(person, person.actor, "sign-in-method-added", label=label)


def unlink(person: User) -> None:
    """Remove the links to the provider.  Raises InvalidValue if they're the only way to sign in."""
    with transaction.atomic():
        User.objects.select_for_update().get(pk=person.pk)
        passkeys = Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN)
        if not person.has_usable_password() and not passkeys.exists():
            raise InvalidValue(people.only_way_in())
        if links_of(person).delete()[0]:
            label = settings.BEACON_OIDC_NAME
            Activity.log(person, person.actor, "sign-in-method-removed", label=label)


# --- groups ---


def groups_of(claims: Claims) -> set[str]:
    """Return the person's groups, from the claim that BEACON_OIDC_GROUPS_CLAIM names."""
    told = claims.get(settings.BEACON_OIDC_GROUPS_CLAIM)
    return {str(one) for one in (told if isinstance(told, list) else [told]) if one}


def check_groups(claims: Claims) -> None:
    """Raise Refused unless the person is in an allowed group, if the settings name such groups."""
    allowed = settings.BEACON_OIDC_GROUPS | settings.BEACON_OIDC_ADMIN_GROUPS
    if settings.BEACON_OIDC_GROUPS and not allowed & groups_of(claims):
        raise Refused(
            _("Your account at %(name)s isn’t in a group that can use Beacon. Contact your admin.")
            % {"name": settings.BEACON_OIDC_NAME}
        )


def _follow_groups(person: User, claims: Claims) -> None:
    """Make the person an admin, or no longer one, as their groups say. The last admin stays one."""
    if not settings.BEACON_OIDC_ADMIN_GROUPS:
        return
    is_admin = bool(settings.BEACON_OIDC_ADMIN_GROUPS & groups_of(claims))
    if is_admin != person.is_staff:
        try:
            people.set_admin(person, is_admin)
        except InvalidValue:
            logger.warning("still an admin, as the last one", account=person.pk)


# --- a header of a trusted proxy ---

PEER_FIELD = "beacon.peer"


def named_by_proxy(request: HttpRequest) -> str:
    """Return the username that a trusted proxy's header names, or "".

    The header counts only if the connection itself comes from a listed address.  X-Forwarded-For doesn't
    count, since anyone can send it.
    """
    header = settings.BEACON_TRUSTED_HEADER
    if not header or not (name := request.headers.get(header, "").strip()):
        return ""
    try:
        peer = ipaddress.ip_address(request.META.get(PEER_FIELD, ""))
    except ValueError:
        return ""
    peer = getattr(peer, "ipv4_mapped", None) or peer
    if any(peer in network for network in settings.BEACON_TRUSTED_HEADER_FROM):
        return name
    logger.warning("trusted header ignored", ip=str(peer), header=header)
    return ""


class TrustedHeaderMiddleware(Middleware):
    """Sign people out if a trusted proxy's header names another person.

    Otherwise the next person at a shared browser would continue in the last one's session.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.BEACON_TRUSTED_HEADER and request.user.is_authenticated:
            name = named_by_proxy(request)
            if name and name != request.user.get_username():
                logout(request)
        return self.get_response(request)
