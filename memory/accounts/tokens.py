"""API tokens: creating, finding and revoking them, and counting their requests.

Only a token's hash is stored, and its text is shown once.  REST and MCP use the same `find`, so a revoked
or expired token stops working everywhere immediately.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import redis
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.http.request import validate_host
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from redis.exceptions import RedisError

from beacon_site.text.cleaning import clean, is_visible, one_line
from beacon_site.text.messages import grouped
from memory.models import Activity, Agent, ApiToken, Invitation, Topic, User
from memory.models.accounts import MAX_NAME_LENGTH, TokenQuerySet
from memory.models.actors import Actor
from memory.models.errors import InvalidValue

PREFIX = "bcn_"
GRANTED = "bco_"  # access tokens of apps that a person allowed (memory.accounts.oauth)
METRICS = "metrics"  # for admins only: the site's metrics, but no one's memory
CHAT = "chat"  # to use the connected model, with the agent's context added
SCOPES = ("read", "write", "admin", CHAT, METRICS)
NOTED_EACH = timedelta(minutes=1)  # between two updates of a token's last use
MAX_TEXT_LENGTH = 200  # characters; a longer text can't be a token and isn't hashed
# Beacon's own agents; an app with such a name could pose as one of them.
BUILT_IN = frozenset({"research", "reflector", "maintenance", "system", "beacon"})


def listed(
    mine: TokenQuerySet, topics: Iterable[Topic], *, most_ended: int
) -> tuple[list[ApiToken], list[ApiToken]]:
    """Return the usable tokens by agent, with the titles of their `topics`, and the newest ended ones."""
    rows = mine.connected().select_related("agent", "grant__client").order_by("-created", "-pk")
    usable = list(rows.usable().order_by("agent__name", "-created", "-pk"))
    titles = {topic.pk: topic.title for topic in topics}
    for row in usable:
        row.topics = [titles.get(pk, _("a topic you don’t have access to")) for pk in row.topic_ids]  # type: ignore[attr-defined]
    ended = rows.exclude(pk__in=[row.pk for row in usable])
    return usable, list(ended[:most_ended])


def issue(
    owner: User,
    *,
    name: str,
    scopes: Sequence[str],
    by: Actor,
    expires_at: datetime | None = None,
    topics: Collection[Topic] = (),
) -> tuple[ApiToken, str]:
    """Create a token for the owner's agent of this name and return it with its text.

    The agent is created if needed.  With `topics` (of `topics_for`), the token can use only these.
    Raises InvalidValue for a scope that is unknown, reserved for admins or not possible with
    topics, a name that is empty, too long or reserved, and an expiry date in the past.
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise _invalid(
            "scopes",
            _("“%(unknown)s” isn’t a valid scope. Choose from: %(scopes)s.")
            % {"unknown": ", ".join(unknown), "scopes": ", ".join(SCOPES)},
        )
    if METRICS in scopes and not owner.is_staff:
        text = _("Only an admin can create tokens that read Beacon’s metrics.")
        raise _invalid("scopes", text)
    if topics and {METRICS, CHAT} & set(scopes):
        text = _(
            "A token that’s limited to certain topics can’t have this permission. Choose another permission, or remove the topics."
        )
        raise _invalid("scopes", text)
    name = checked_name(name)
    if expires_at is not None and expires_at <= timezone.now():
        text = _("The expiry date is in the past. Choose a later date, or none.")
        raise _invalid("expires_at", text)
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        agent, _made = Agent.objects.get_or_create(owner=owner, name=name)
        token = ApiToken.objects.create(
            agent=agent,
            hash=Invitation.hash_of(text),
            scopes=[scope for scope in SCOPES if scope in scopes],
            expires_at=expires_at,
            topic_ids=[topic.pk for topic in topics],
        )
        Activity.log(owner, by, "token-created", subject=token)
    return token, text


def topics_for(owner: User) -> list[Topic]:
    """Return the topics to which a token of the owner can be limited, also shared ones."""
    own = Topic.objects.for_user(owner).live().order_by("title")
    return [*own, *Topic.objects.shared_with(owner).order_by("title")]


def issue_instead(owner: User, *, instead_of: str, **fields: Any) -> tuple[ApiToken, str]:
    """Create a token as `issue` does, for a form whose response shows its text.

    `instead_of` is the key of a token that an earlier submission of the same form created, or "".  It is
    revoked, since the person only sees the last response.
    """
    with transaction.atomic():
        token, text = issue(owner, **fields)
        if instead_of:
            before = ApiToken.objects.for_user(owner).filter(
                pk=instead_of, last_used_at=None, revoked_at=None
            )
            for unseen in before.select_related("agent__owner"):
                revoke(unseen, by=fields["by"])
    return token, text


def checked_name(name: str) -> str:
    """Return an agent's name, cleaned.  Raises InvalidValue if it can't be used."""
    name = one_line(clean(name)[0])
    if not is_visible(name):
        raise _invalid("name", _("Enter the name of the app that will use this token."))
    if len(name) > MAX_NAME_LENGTH:
        params = {"have": len(name), "most": MAX_NAME_LENGTH}
        text = _("The name has %(have)d characters, but the limit is %(most)d.")
        raise _invalid("name", text % params)
    if ":" in name:
        raise _invalid("name", _("The name can’t contain a colon."))
    if name.casefold() in BUILT_IN:
        text = _("“%(name)s” is reserved for Beacon. Choose another name, such as the app’s.")
        raise _invalid("name", text % {"name": name})
    return name


def find(text: str, *, at_mcp: bool = False) -> ApiToken | None:
    """Return the token with its agent and owner, and record its use.

    None if it is unknown, revoked or expired, or its owner's account is disabled. What an app was
    granted by OAuth is for the MCP server's URL, and isn't found anywhere else.
    """
    is_granted = text.startswith(GRANTED)
    if not text.startswith((PREFIX, GRANTED)) or len(text) > MAX_TEXT_LENGTH or not text.isascii():
        return None
    now = timezone.now()
    kind = Q(grant__access_until__gt=now) if is_granted else Q(grant=None)
    known = ApiToken.objects.usable(now).with_text(text).filter(kind)
    token = known.select_related("agent__owner", *(["grant"] if is_granted else [])).first()
    if token is not None and is_granted and not (at_mcp and is_mcp_url(token.grant.resource)):
        return None
    long_ago = now - NOTED_EACH
    if token is not None and (token.last_used_at is None or token.last_used_at < long_ago):
        stale = Q(last_used_at=None) | Q(last_used_at__lt=long_ago)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token


def revoke(token: ApiToken, *, by: Actor) -> bool:
    """Revoke a token; its row is kept, so that its activity can still be shown.

    Return whether it was active.  This can't be undone.
    """
    with transaction.atomic():
        ended = ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(
            revoked_at=timezone.now()
        )
        if ended:
            Activity.log(token.agent.owner, by, "token-revoked", subject=token)
    return bool(ended)


def _invalid(field: str, text: str) -> InvalidValue:
    return InvalidValue(text, errors={field: [text]})


# --- rate limit per token (BEACON_API_REQUESTS_PER_MINUTE) ---

logger = structlog.get_logger(__name__)

WINDOW = 60  # seconds
WITHOUT_REDIS = (
    10.0  # seconds before Redis is tried again after a failure, since a timeout costs 0.3 s
)


class _Here:
    """Counts in this process, used while Redis is unavailable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._window = 0
        self.until = 0.0  # monotonic time until which Redis isn't tried

    def count(self, key: str, window: int) -> int:
        """Return the number of requests of `key` in this window, including this one."""
        with self._lock:
            if window != self._window:
                self._counts.clear()
                self._window = window
            self._counts[key] += 1
            return self._counts[key]


_here = _Here()


def count_request(token: ApiToken) -> int:
    """Count a request. Return the seconds to wait if the token is over its limit per minute, else 0."""
    window, gone = divmod(int(time.time()), WINDOW)
    is_over = _count(token.hash[:32], window) > settings.BEACON_API_REQUESTS_PER_MINUTE
    return WINDOW - gone if is_over else 0


def too_many(seconds: int) -> str:
    """Return the message for a request over the limit."""
    words = ngettext(
        "This token has reached its limit of %(most)s requests per minute. Try again in %(seconds)d second. Your admin can raise the limit (BEACON_API_REQUESTS_PER_MINUTE).",
        "This token has reached its limit of %(most)s requests per minute. Try again in %(seconds)d seconds. Your admin can raise the limit (BEACON_API_REQUESTS_PER_MINUTE).",
        seconds,
    )
    return words % {"most": grouped(settings.BEACON_API_REQUESTS_PER_MINUTE), "seconds": seconds}


def _count(key: str, window: int) -> int:
    if time.monotonic() >= _here.until:
        try:
            return _count_in_redis(f"beacon:api-requests:{key}:{window}")
        except RedisError as exc:
            _here.until = time.monotonic() + WITHOUT_REDIS
            logger.warning("rate limit counted per process", error=type(exc).__name__)
    return _here.count(key, window)


def _count_in_redis(name: str) -> int:
    """Count in one round trip; the key has its window in its name, so its expiry can be set each
    time.
    """
    with _client(str(settings.CACHES["default"]["LOCATION"])).pipeline() as together:
        together.incr(name)
        together.expire(name, 2 * WINDOW)
        number, _is_set = together.execute()
    return int(number)


@functools.cache
def _client(address: str) -> redis.Redis:
    """Return this process's Redis client: the cache's own needs three round trips to count."""
    return redis.Redis.from_url(address, socket_connect_timeout=0.3, socket_timeout=0.3)


# --- the MCP server, for which apps are granted tokens ---

MCP_PATH = "/mcp"
SCOPES_FOR_APPS = ("read", "write")  # by OAuth: `admin` is only for a person's own programs


def mcp_url() -> str:
    """Return the URL of the MCP server for apps.

    With https, a proxy forwards /mcp on the same host; otherwise apps use the port directly.
    """
    if settings.BEACON_HTTPS:
        return f"{settings.BEACON_URL}{MCP_PATH}"
    host = urlsplit(settings.BEACON_URL).hostname or "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{settings.BEACON_MCP_PORT}{MCP_PATH}"


def is_mcp_url(url: str) -> bool:
    """Return True if this is the URL of the MCP server, by any host name that Beacon accepts."""
    if settings.BEACON_HTTPS:
        return url == mcp_url()
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    shown = f"[{host}]" if ":" in host else host
    is_known = validate_host(shown, settings.ALLOWED_HOSTS)
    return (
        is_known
        and port is not None
        and url == f"http://{shown}:{port}{MCP_PATH}"
        and (port == settings.BEACON_MCP_PORT)
    )


def resource_metadata(resource: str = "") -> dict[str, Any]:
    """Return the MCP server's metadata (RFC 9728), by the URL that the app used."""
    return {
        "resource": resource or mcp_url(),
        "authorization_servers": [settings.BEACON_URL],
        "scopes_supported": SCOPES_FOR_APPS,
        "bearer_methods_supported": ["header"],
        "resource_name": "Beacon",
    }
