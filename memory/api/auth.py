"""Who calls the API: a bearer token, and as whom it acts.

Tokens of scope `read` and `write` act as `agent:<name>`, which appends and does not correct
(decision 9); one of scope `admin` is given by a person to a program of theirs and acts as that
person.  A session cookie opens nothing here, so no form of another site can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.security import HttpBearer

from beacon_site.installed import BY_HAND
from memory.accounts import tokens
from memory.actors import Actor
from memory.api.problems import Problem
from memory.models import Agent, ApiToken, Trust, User
from memory.notes.writing import lowest_trust
from memory.reviewing import agent_reading, refused
from memory.toolkit.types import ToolContext

REALM = 'Bearer realm="Beacon"'


@dataclass(slots=True)
class Caller:
    """Who calls: the owner whose memory it is, the agent, and the actor that writes are noted by.

    MCP and REST make one for each call: both read and write through its `context()`.
    """

    owner: User
    agent: Agent
    by: Actor
    scopes: frozenset[str]
    token: ApiToken
    _context: ToolContext | None = field(default=None, init=False, repr=False)

    @property
    def source(self) -> str:
        """Return what names the caller as a source (`agent:claude`, `human:alice`)."""
        return str(self.by)

    @property
    def place(self) -> str:
        """Return where records enter that the caller reads."""
        return str(self.agent.actor)

    def context(self) -> ToolContext:
        """Return on whose behalf tools and the review act: the same one during the whole call.

        Its trust is that of what the agent was shown before, and falls with what it is shown now.
        """
        if self._context is None:
            self._context = ToolContext(
                self.owner,
                self.by,
                self.source,
                scope=str(self.agent.actor),
                place=self.place,
                trust=agent_reading.before(self.agent, Trust.OWNER),
            )
        return self._context

    @property
    def write_trust(self) -> Trust:
        """Return how far to believe what the caller writes now, by whichever door."""
        return self.context().write_trust

    def note_shown(self, trust: str = Trust.OWNER) -> None:
        """Note on the agent that it was shown text of this trust, besides what its tools read.

        Call it before the answer is sent: what the agent writes next may come from that answer.
        """
        context = self.context()
        context.trust = lowest_trust([context.trust, trust])
        agent_reading.note(self.agent, context.trust)

    def may_read(self, record: Any) -> bool:
        """Whether the caller may see the record: a person all of theirs, an agent what tools show."""
        return self.by.is_person or self.context().may_read(record)

    def may(self, scope: str) -> bool:
        """Whether the token has the scope; `admin` has them all."""
        return scope in self.scopes or "admin" in self.scopes


class ApiRequest(HttpRequest):
    """A request whose token was found."""

    auth: Caller


def authenticated(request: HttpRequest) -> Caller:
    """Return who calls, by the request's bearer token; looked up once a request.

    Raises Problem (401) without a token, and for one that is unknown, revoked or expired.
    """
    known: Caller | None = getattr(request, "api_caller", None)
    if known is None:
        known = caller_of(_token_in(request))
        structlog.contextvars.bind_contextvars(user_id=known.owner.pk, token=known.token.pk)
        request.api_caller = known  # type: ignore[attr-defined]
    return known


def caller_of(token: ApiToken) -> Caller:
    """Return as whom a token acts."""
    agent, scopes = token.agent, frozenset(token.scopes)
    owner = agent.owner
    by = owner.actor if "admin" in scopes else agent.actor
    return Caller(owner, agent, by, scopes, token)


def _token_in(request: HttpRequest) -> ApiToken:
    kind, _space, text = request.headers.get("Authorization", "").strip().partition(" ")
    if kind.lower() != "bearer" or not text.strip():
        words = _(
            "Send the header Authorization: Bearer bcn_…, with a token made in Settings → API "
            "tokens or by `%(manage)s api_token`."
        )
        raise Problem(401, words % BY_HAND, headers={"WWW-Authenticate": REALM})
    token = tokens.find(text.strip())
    if token is None:
        words = _(
            "This token is not known, was revoked or has expired. Make another in Settings → API "
            "tokens."
        )
        told = f'{REALM}, error="invalid_token"'
        raise Problem(401, words % BY_HAND, headers={"WWW-Authenticate": told})
    return token


class Bearer(HttpBearer):
    """What an endpoint asks of the token: its scope."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller:
        """Return the caller.

        Raises Problem: 401 without a token, 403 for one of another scope.  Raises Refused (403) for
        an agent that its owner blocked, if this writes.
        """
        caller = authenticated(request)
        if caller.may(self.scope):
            if self.scope == "write":
                refused.check(caller.owner, caller.by)
            request.api_scope = self.scope  # type: ignore[attr-defined]
            return caller
        words = _("This takes a token of scope %(needed)s; this one has: %(have)s.")
        told = {"needed": self.scope, "have": ", ".join(sorted(caller.scopes))}
        challenge = f'{REALM}, error="insufficient_scope", scope="{self.scope}"'
        raise Problem(403, words % told, headers={"WWW-Authenticate": challenge})

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        """Not asked: the whole header is looked at in `authenticated`."""
        raise NotImplementedError


READ, WRITE, ADMIN = Bearer("read"), Bearer("write"), Bearer("admin")
Authenticates = Callable[[HttpRequest], Caller]


def only_people(caller: Caller, what: str) -> None:
    """Refuse (403) what agents do not do: correct, unlock, decide."""
    if not caller.by.is_person:
        raise Problem(403, what)
