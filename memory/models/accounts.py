"""Accounts: people, their sign-ins and invitations, their agents, API tokens and kept API answers."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import pgtrigger
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as DjangoUserManager
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from memory.models.actors import RESEARCH, Actor
from memory.models.history import APPEND_ONLY, Activity, OwnedQuerySet

MAX_NAME_LENGTH = 80  # characters in an agent's name


class Agent(models.Model):
    """A client that acts for its owner, one per API token. `research` is the built-in agent.

    The defaults are those of seed 002: memory off, sharing with sub-agents on, model compaction
    off, and its prompt. `read_trust` is the lowest trust of what the agent read recently, and
    `read_at` is the time of its last call (`memory.services.review.trust`).
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    enable_memory = models.BooleanField(default=False)
    share_with_subagents = models.BooleanField(default=True)
    use_model_compaction = models.BooleanField(default=False)
    compaction_prompt = models.TextField(blank=True)
    read_trust = models.CharField(max_length=12, blank=True, editable=False)
    read_at = models.DateTimeField(null=True, editable=False)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Agent]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="agent_name_once_an_owner")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def actor(self) -> Actor:
        return Actor("agent", self.name)

    @property
    def is_built_in(self) -> bool:
        """Return True if this is Beacon's own agent, which needs no token."""
        return self.name == RESEARCH.kind

    @property
    def writer(self) -> Actor:
        """Return the actor in the history of what it wrote: runs write as `research`."""
        return RESEARCH if self.is_built_in else self.actor


class AgentScopeQuerySet(OwnedQuerySet):
    def holder(self, owner: Any, scope: str) -> str:
        """Return the name of the agent that holds the scope or its parent scope, or "" if none
        does.
        """
        names = self.for_user(owner).filter(scope=_whole(scope)).values_list("agent", flat=True)
        return names.first() or ""

    def claim(self, owner: Any, scope: str, agent: str) -> bool:
        """Claim the scope for the agent unless another one holds it. Return whether the agent holds
        it now.
        """
        row, _made = self.get_or_create(owner=owner, scope=_whole(scope), defaults={"agent": agent})
        return bool(row.agent == agent)


def _whole(scope: str) -> str:
    return scope.partition("/")[0]  # a sub-agent's scope belongs to the scope of its run or session


class AgentScope(models.Model):
    """A scope that an agent named itself (`session:<name>`, `run:<name>`).

    The first agent that writes to it holds it. No other agent can read or write there.
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    scope = models.CharField(max_length=200)
    agent = models.CharField(max_length=MAX_NAME_LENGTH)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Any]] = AgentScopeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "scope"], name="agent_scope_once_an_owner")
        ]

    def __str__(self) -> str:
        return self.scope


class TokenQuerySet(models.QuerySet["ApiToken"]):
    """Queries for tokens, which are owned through their agent."""

    def for_user(self, user: Any) -> TokenQuerySet:
        """Keep the tokens of `user`'s agents. This is the only owner filter."""
        return self.filter(agent__owner=user)

    def usable(self, at: datetime | None = None) -> TokenQuerySet:
        """Keep the tokens of active accounts that aren't revoked or expired at `at` (default: now)."""
        unexpired = Q(expires_at=None) | Q(expires_at__gt=at or timezone.now())
        return self.connected().filter(unexpired, revoked_at=None, agent__owner__is_active=True)

    def with_text(self, text: str) -> TokenQuerySet:
        """Keep the token with this text, of which only the hash is stored."""
        return self.filter(hash=Invitation.hash_of(text))

    def connected(self) -> TokenQuerySet:
        """Leave out those of apps that were allowed, but haven't exchanged their code yet."""
        return self.filter(Q(grant=None) | Q(grant__access_until__isnull=False))


class ApiToken(models.Model):
    """A bearer token (`bcn_…`), or what an app was granted (`grant`). Only hashes are stored."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="tokens")
    hash = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=10), default=list)
    # Only these topics can be used. IDs, so that deleting a topic doesn't open all others.
    topic_ids = ArrayField(models.UUIDField(), default=list, blank=True)
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[TokenQuerySet] = TokenQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.agent} ({', '.join(self.scopes)})"


# --- stored API answers ---

KEPT = timedelta(hours=24)
MAX_KEY_LENGTH = 255
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class ApiAnswerQuerySet(models.QuerySet["ApiAnswer"]):
    def kept(self) -> Self:
        """Keep the answers that can still be sent again."""
        return self.filter(created__gt=timezone.now() - KEPT)

    def old(self) -> Self:
        return self.filter(created__lte=timezone.now() - KEPT)


class ApiAnswer(models.Model):
    """The answer to a POST request with an Idempotency-Key, kept for 24 hours.

    `fingerprint` identifies the request (method, URL, body). `record_ids` are the records in the
    answer. The answer is deleted when one of them is purged. It becomes `bare` (no stored text)
    when a record's visibility or trust changes. `trust` is the lowest trust of its records.
    """

    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="+")
    key = models.CharField(max_length=MAX_KEY_LENGTH)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)
    bare = models.TextField(blank=True)
    trust = models.CharField(max_length=12, blank=True)
    record_ids = ArrayField(models.UUIDField(), default=list)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[ApiAnswerQuerySet] = ApiAnswerQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "key"], name="apianswer_key_once_a_token")
        ]
        indexes = [
            GinIndex(fields=["record_ids"], name="apianswer_by_record"),
            models.Index(fields=["created"], name="apianswer_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.token}: {self.key[:40]}"

    def save_answer(
        self,
        status: int,
        headers: dict[str, str],
        body: str,
        *,
        bare: str,
        ids: Iterable[uuid.UUID],
    ) -> None:
        """Store the answer with the records it contains and those in `ids`."""
        self.status, self.headers, self.body, self.bare = status, headers, body, bare
        named = [uuid.UUID(key) for key in _ID.findall(body)]
        self.record_ids = list(dict.fromkeys([*named, *ids]))
        self.save(force_insert=True)

    @classmethod
    def forget(cls, ids: Iterable[uuid.UUID]) -> None:
        """Delete the answers that contain purged records, so that no text of them remains."""
        cls.objects.filter(record_ids__overlap=list(ids)).delete()

    @classmethod
    def withhold(cls, ids: Iterable[uuid.UUID]) -> None:
        """Remove the text from answers with these records, because their visibility changed.

        The request is still known, so sending it again doesn't repeat it.
        """
        cls.objects.filter(record_ids__overlap=list(ids)).update(body=models.F("bare"))


# --- people, invitations and sign-ins ---

INVITATION_LIFETIME = timedelta(days=7)

# Called in the transaction that creates an account, to create its first rows.
ON_ACCOUNT_CREATE: list[Callable[[User], object]] = []
# Called in the transaction that deletes an account, to delete its data outside the database.
ON_ACCOUNT_DELETE: list[Callable[[User], object]] = []


class UserManager(DjangoUserManager["User"]):
    """Creates accounts together with their first rows."""

    def _create_user(self, username: str, *args: Any, **kwargs: Any) -> User:
        with transaction.atomic():
            # A topic that is shared with the name right now sees the account, or waits for it.
            lock_until_commit(LockId.USERNAME, User.normalize_username(username))
            user: User = super()._create_user(username, *args, **kwargs)  # type: ignore[misc]
            for make in ON_ACCOUNT_CREATE:
                make(user)
        return user


class User(AbstractUser):
    """A person with an account. Everything stored belongs to one."""

    display_name = models.CharField(_("name"), max_length=150, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    language = models.CharField(_("language"), max_length=16, default="en")
    # Of pages and messages. Empty: the browser's on pages, English in messages.
    page_language = models.CharField(_("page language"), max_length=10, blank=True)
    interests = models.TextField(_("interests"), blank=True)
    monthly_tokens = models.PositiveIntegerField(_("tokens per month"), null=True, blank=True)
    monthly_money = models.DecimalField(
        _("cost per month"), max_digits=10, decimal_places=2, null=True, blank=True
    )
    shortcuts = models.BooleanField(_("keyboard shortcuts"), default=True)
    # Keys of pinned items in their order, such as "topic:<id>": research/pages/places.py.
    pinned = models.JSONField(_("pinned items"), default=list, blank=True, editable=False)

    objects: ClassVar[UserManager] = UserManager()

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"

    def __str__(self) -> str:
        return self.display_name or self.get_username()

    @property
    def actor(self) -> Actor:
        return Actor.person(self)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the account and everything it owns, including history."""
        with transaction.atomic(), pgtrigger.ignore(APPEND_ONLY):
            for act in ON_ACCOUNT_DELETE:
                act(self)
            return super().delete(*args, **kwargs)


def _research_agent(user: User) -> Agent:
    """Create the built-in research agent, with memory on."""
    return Agent.objects.create(owner=user, name="research", enable_memory=True)


ON_ACCOUNT_CREATE.append(_research_agent)


class Invitation(models.Model):
    """A one-time link that creates an account: the first one, or one an admin invited.

    Only the token's hash is stored. The link is shown once.
    """

    id = models.BigAutoField(primary_key=True)
    token_hash = models.CharField(max_length=64, unique=True)
    note = models.CharField(_("recipient"), max_length=150, blank=True)
    grants_admin = models.BooleanField(_("admin (can manage users and connections)"), default=False)
    is_first = models.BooleanField(default=False)
    invited_by = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.note or str(_("invitation"))

    @classmethod
    def create_with_token(
        cls, *, by: User | None, note: str = "", grants_admin: bool = False, is_first: bool = False
    ) -> tuple[Invitation, str]:
        """Create an invitation and return it with its token, which isn't stored.

        A new link for the first account replaces the previous one.
        """
        token = secrets.token_urlsafe(32)
        if is_first:
            cls.objects.filter(is_first=True, used_at=None).delete()
        invitation = cls.objects.create(
            token_hash=cls.hash_of(token),
            note=note,
            grants_admin=grants_admin,
            is_first=is_first,
            invited_by=by,
            expires_at=timezone.now() + INVITATION_LIFETIME,
        )
        return invitation, token

    @classmethod
    def open_for(cls, token: str) -> Invitation | None:
        """Return the invitation of `token` if it can still be used.

        The link for the first account stops working once any account exists. Other links don't work
        while the account that created them is disabled.
        """
        invitation = (
            cls.objects.filter(cls._given_by_open_account(), used_at=None)
            .filter(token_hash=cls.hash_of(token), expires_at__gt=timezone.now())
            .first()
        )
        if invitation is not None and invitation.is_first and User.objects.exists():
            return None
        return invitation

    @staticmethod
    def _given_by_open_account() -> models.Q:
        return models.Q(invited_by=None) | models.Q(invited_by__is_active=True)

    @staticmethod
    def hash_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()

    def accept(self, *, username: str, password: str | None, **fields: Any) -> User | None:
        """Create the account and use up the link. Return None if the link was already used."""
        with transaction.atomic():
            mine = type(self).objects.filter(self._given_by_open_account(), pk=self.pk)
            open_still = mine.filter(used_at=None).select_for_update(of=("self",))
            if open_still.first() is None or (self.is_first and User.objects.exists()):
                return None
            user = User.objects.create_user(
                username,
                password=password,
                is_staff=self.grants_admin,
                is_superuser=self.grants_admin,
                **fields,
            )
            self.used_at, self.used_by = timezone.now(), user
            self.save(update_fields=["used_at", "used_by"])
            Activity.log(user, user.actor, "account-created", subject=user)
        return user


class SignIn(models.Model):
    """A browser in which a person is signed in, so that they can see it and sign it out."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(User, models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40, unique=True)
    user_agent = models.CharField(max_length=300, blank=True)
    address = models.GenericIPAddressField(null=True)
    # The digest of the secret in this browser's forms: a form shows whose it is, after the session too.
    forms_digest = models.CharField(max_length=64, blank=True)
    created = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SignIn]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-last_seen_at",)

    def __str__(self) -> str:
        return f"{self.owner} {self.created:%Y-%m-%d}"


# --- OAuth for MCP: the apps that asked for access, and what people allowed them ---


MAX_URI_LENGTH = 1_000  # characters in a redirect URI or the URL of a metadata document


class OAuthClientQuerySet(models.QuerySet["OAuthClient"]):
    def never_allowed(self) -> OAuthClientQuerySet:
        """Keep the apps that never got access from anyone."""
        return self.filter(grants=None)


class OAuthClient(models.Model):
    """An app that can ask people for access to their memory.

    Either it registered itself (RFC 7591), or its ID is the URL of a metadata document that it
    publishes, which was last read at `read_at`. No app has a secret: anyone can register one, so a
    secret would prove nothing. PKCE binds a code to the app that asked for it.
    """

    client_id = models.CharField(max_length=MAX_URI_LENGTH, unique=True)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    redirect_uris = ArrayField(models.CharField(max_length=MAX_URI_LENGTH))
    read_at = models.DateTimeField(null=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OAuthClientQuerySet] = OAuthClientQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """Return the host that publishes the app's metadata document, or "" if it has none."""
        return urlsplit(self.client_id).hostname or ""


class OAuthGrant(models.Model):
    """What one person allowed one app, beside the token that the app acts with.

    The token's hash is that of the newest access token, which is valid until `access_until` (null
    until the code is exchanged). The token itself expires with the code, or later with the refresh
    token. `family` is the hash of what the code and all refresh tokens of a grant have in common,
    and `secret` is the hash of the only one that is valid now. That's how a used one is recognized.
    """

    token = models.OneToOneField(ApiToken, models.CASCADE, related_name="grant")
    client = models.ForeignKey(OAuthClient, models.PROTECT, related_name="grants")
    resource = models.CharField(max_length=MAX_URI_LENGTH)
    redirect_uri = models.CharField(max_length=MAX_URI_LENGTH)
    challenge = models.CharField(max_length=43)
    family = models.CharField(max_length=64, unique=True)
    secret = models.CharField(max_length=64)
    access_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.client} → {self.token}"

    @property
    def host(self) -> str:
        """Return the host that publishes the app or that it returns to, "" for an app on a device."""
        back = urlsplit(self.redirect_uri)
        return self.client.host or (back.hostname or "" if back.scheme == "https" else "")
