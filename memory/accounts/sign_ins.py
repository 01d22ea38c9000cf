"""Sign-ins: limits on failed attempts, and the browsers in which a person is signed in.

django-axes blocks a username for an IP address after five failures.  It would also store what was typed,
in a row that grows with every attempt and could fill the disk, so none of that is kept.  All attempts
from one address are counted too, whatever the username, since each costs a deliberately slow hash.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import redis
import structlog
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.sessions.models import Session as BrowserSession
from django.core.cache import cache
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.db.errors import GONE, failure_of
from beacon_site.web.http import BeaconRequest, Respond
from memory.models import Activity, SignIn, User
from memory.models.actors import SYSTEM

logger = structlog.get_logger(__name__)

WINDOW = 60  # seconds


class Failures(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts failures as axes does, without storing what was sent."""

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any
    ) -> None:
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is not None:
            about = {"username": credentials.get("username"), "ip_address": request.axes_ip_address}
            AccessAttempt.objects.filter(**about).update(get_data="", post_data="")


def is_logged(request: HttpRequest, username: str) -> bool:
    """Whether a failure is logged for the account's owner: up to the one that blocks sign-in.

    Further attempts would flood the log at no cost, since a blocked name isn't hashed.
    """
    failures = AxesProxyHandler.get_failures(request, {"username": username})
    return bool(failures <= settings.AXES_FAILURE_LIMIT)


def closed_for(address: str | None) -> int:
    """Count a sign-in attempt from an IP address; return the seconds it has to wait, or 0."""
    return over_limit("sign-ins", address, settings.BEACON_SIGN_INS_PER_MINUTE)


def over_limit(kind: str, who: object, most: int, window: int = WINDOW) -> int:
    """Count an attempt of this kind; return the seconds to wait if there were more than `most`.

    Without Redis nothing is counted, and people can still sign in.
    """
    number, gone = divmod(int(time.time()), window)
    key = f"{kind}:{who}:{number}"
    try:
        cache.add(key, 0, 2 * window)
        tries = cache.incr(key)
    except (redis.RedisError, ValueError) as exc:  # ValueError: the key expired in between
        logger.warning("attempts not counted", kind=kind, error=type(exc).__name__)
        return 0
    return window - gone if tries > most else 0


def forget_old_failures() -> int:
    """Delete expired failures; return how many.

    The typed name could be a password, and axes would keep it until the next failure.
    """
    over = timezone.now() - timedelta(hours=settings.AXES_COOLOFF_TIME)
    return int(AccessAttempt.objects.filter(attempt_time__lte=over).delete()[0])


# --- sign-ins and browsers ---

BACKEND = "django.contrib.auth.backends.ModelBackend"
SESSION_FIELD = "sign_in"
SEEN_EVERY = 60.0  # seconds between two writes of last_seen_at for one browser
FORGOTTEN_AFTER = timedelta(days=1)
MAX_REMEMBERED = 10_000  # browsers whose last write one process remembers

# The first match counts, since Edge and Chrome name the others too.
BROWSERS = {
    "Edg/": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
    "curl/": "curl",
}
SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


def begin(request: HttpRequest, user: User) -> SignIn:
    """Sign `user` in, and record the browser."""
    login(request, user, backend=BACKEND)
    try:
        row = SignIn.objects.create(
            owner=user,
            session_key=request.session.session_key or "",
            user_agent=request.headers.get("User-Agent", "").replace("\0", "")[:300],
            address=address_of(request),
            forms_digest=_forms_digest(request),
        )
    except DatabaseError:
        # A session without its row would be missing from the person's list of browsers.
        with suppress(DatabaseError):
            request.session.flush()
        raise
    request.session[SESSION_FIELD] = row.pk
    Activity.log(user, user.actor, "signed-in", label=browser_of(row.user_agent))
    return row


def _forms_digest(request: HttpRequest) -> str:
    """Return the digest of the secret in this browser's forms, which each sign-in renews."""
    secret = request.META.get("CSRF_COOKIE", "")
    return hashlib.sha256(secret.encode()).hexdigest() if secret else ""


def last_person(request: HttpRequest) -> int | None:
    """Return the ID of who was signed in in this browser until their session expired.

    None if that was long ago, or if they signed out.
    """
    if not (digest := _forms_digest(request)):
        return None
    rows = SignIn.objects.filter(forms_digest=digest)
    return rows.values_list("owner", flat=True).first()


def end(request: BeaconRequest) -> None:
    """Sign the person out of this browser."""
    user = request.user
    SignIn.objects.for_user(user).filter(pk=request.session.get(SESSION_FIELD)).delete()
    logout(request)
    Activity.log(user, user.actor, "signed-out", subject=user)


def note_failure(request: HttpRequest, username: str) -> None:
    """Log a failed sign-in, for the account's owner if the account exists.

    An unknown name isn't stored, since it could be a password typed into the wrong field.
    """
    user = User.objects.filter(username=username).first()
    logger.warning("sign-in failed", account=user.pk if user else None, ip=address_of(request))
    if not is_logged(request, username):
        return
    Activity.log(
        user,
        user.actor if user else SYSTEM,
        "sign-in-failed",
        label=str(user) if user else _("an unknown username"),
        warning=True,
        address=address_of(request),
    )


def open_ones(user: User) -> QuerySet[SignIn]:
    """Return the user's active sign-ins, the last seen first."""
    alive = BrowserSession.objects.filter(expire_date__gt=timezone.now())
    rows: QuerySet[SignIn] = SignIn.objects.for_user(user)
    return rows.filter(session_key__in=alive.values("session_key"))


def end_elsewhere(rows: QuerySet[SignIn]) -> int:
    """End the sessions of `rows`; return how many browsers were signed out."""
    keys = list(rows.values_list("session_key", flat=True))
    BrowserSession.objects.filter(session_key__in=keys).delete()
    SignIn.objects.filter(session_key__in=keys).delete()
    return len(keys)


def end_everywhere_else(request: BeaconRequest) -> int:
    """End all sessions of the person except this one; return how many."""
    others = SignIn.objects.for_user(request.user).exclude(pk=request.session.get(SESSION_FIELD))
    return end_elsewhere(others)


def forget_over() -> int:
    """Delete expired sessions, and sign-ins without a session; return the number of sessions.

    Sign-ins of the last day are kept, since one can exist before its session while a person signs in.
    """
    now = timezone.now()
    gone, _kinds = BrowserSession.objects.filter(expire_date__lt=now).delete()
    stale = SignIn.objects.filter(last_seen_at__lt=now - FORGOTTEN_AFTER)
    stale.exclude(session_key__in=BrowserSession.objects.values("session_key")).delete()
    return int(gone)


def address_of(request: HttpRequest) -> str | None:
    """Return the visitor's IP address, or None if it is unknown."""
    try:
        return str(ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")))
    except ValueError:
        return None


def counted_address_of(request: HttpRequest, bits: int = 64) -> str | None:
    """Return the address for counting sign-in attempts (AXES_CLIENT_IP_CALLABLE).

    For IPv6 this is the network of so many bits: a subscriber has all addresses of a /64, and many
    have a /48.
    """
    text = address_of(request)
    if text is None:
        return None
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return text
    return str(
        address.ipv4_mapped or ipaddress.IPv6Address(int(address) >> 128 - bits << 128 - bits)
    )


def browser_of(user_agent: str) -> str:
    """Return a readable name of the browser, such as `Firefox on Linux`."""
    browser = next((name for mark, name in BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), "")
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or _("an unknown browser")


class LastSeenMiddleware:
    """Record when each browser was last seen: at most once a minute, on full pages only.

    Fragments that a page polls don't show that the person is there.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response
        self._written: dict[int, float] = {}
        self._clock: Callable[[], float] = time.monotonic

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "GET" and "HX-Request" not in request.headers:
            self._touch(request)
        return self.get_response(request)

    def _touch(self, request: HttpRequest) -> None:
        # The session stores its row's ID, since Django can change the session's key.
        row = request.session.get(SESSION_FIELD) if request.user.is_authenticated else None
        now = self._clock()
        if row is None or now - self._written.get(row, -SEEN_EVERY) < SEEN_EVERY:
            return
        if len(self._written) >= MAX_REMEMBERED:
            self._written.clear()
        self._written[row] = now
        try:
            SignIn.objects.for_user(request.user).filter(pk=row).update(
                last_seen_at=timezone.now(),
                session_key=request.session.session_key,
                address=address_of(request),
            )
        except DatabaseError as exc:
            # A full disk or a locked row: the page still works.
            if failure_of(exc) in (None, GONE):
                raise
            logger.warning("last visit not recorded", error=type(exc.__cause__).__name__)
