"""Authentication: the bearer token, the caller it stands for, and the scopes the caller can use.

Tokens of scope `read` and `write` act as `agent:<name>`, which adds and doesn't correct (decision
9); one of scope `admin` is given by a person to their own program and acts as that person.
Session cookies aren't accepted, so a form on another site can't call the API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from ninja.security import HttpBearer

from beacon_site.embedded.places import BY_HAND
from beacon_site.text.cleaning import uuid_of
from memory.accounts import tokens
from memory.agents.tools.types import ToolContext
from memory.api.problems import Problem
from memory.models import Agent, AgentScope, ApiToken, Session, Topic, Trust, User
from memory.models.actors import Actor
from memory.models.remembered import is_in_scopes, names_excluded
from memory.services.content.items import checked_scope
from memory.services.notes.saving import lowest_trust
from memory.services.review import trust as review_trust
from memory.services.review.proposals import check_not_blocked

REALM = 'Bearer realm="Beacon"'
_REST = "api/v1/"
# The URLs that a token for topics can use, and the part of each that names the topic.
_NAMES_TOPIC = {"topics": "slug", "shared-topics": "topic_id", "runs": "run_id"}


@dataclass(slots=True)
class Caller:
    """The caller: the owner of the memory, the agent, and the actor recorded for writes.

    MCP and REST create one for each call, and both read and write through its `context()`.
    """

    owner: User
    agent: Agent
    by: Actor
    scopes: frozenset[str]
    token: ApiToken
    _context: ToolContext | None = field(default=None, init=False, repr=False)

    @property
    def source(self) -> str:
        """Return the caller's name as a source (`agent:claude`, `human:alice`)."""
        return str(self.by)

    @property
    def place(self) -> str:
        """Return where the caller uses the records it reads."""
        return str(self.agent.actor)

    def context(self) -> ToolContext:
        """Return the context for tools and review, the same one throughout the call.

        Its trust is the lowest that the agent has been shown before or is shown now.
        """
        if self._context is None:
            self._context = ToolContext(
                self.owner,
                self.by,
                self.source,
                scope=str(self.agent.actor),
                place=self.place,
                trust=review_trust.before(self.agent, Trust.OWNER),
                only_topics=tuple(self.token.topic_ids),
            )
        return self._context

    @property
    def write_trust(self) -> Trust:
        """Return the trust of what the caller writes now, by REST or MCP."""
        return self.context().write_trust

    def note_shown(self, trust: str = Trust.OWNER) -> None:
        """Record on the agent that it was shown text of this trust, besides what its tools read.

        Call it before the answer is sent: the agent's next write can come from that answer.
        """
        context = self.context()
        context.trust = lowest_trust([context.trust, trust])
        if not self.by.is_person:  # what a person's own program writes is never held
            review_trust.note(self.agent, context.trust)

    def may_read(self, record: Any) -> bool:
        """Return True if the caller can see the record.

        People see all their own records. Agents see only what tools show.
        """
        return self.by.is_person or self.context().may_read(record)

    def may(self, scope: str) -> bool:
        """Whether the token has the scope; `admin` includes all, for topics only their own."""
        is_whole = not self.token.topic_ids or scope not in (tokens.CHAT, tokens.METRICS)
        return scope in self.scopes or ("admin" in self.scopes and is_whole)

    def check_topics(self, request: HttpRequest) -> None:
        """Raise Problem if the token is for other topics (404), or the URL isn't of one (403)."""
        only, match = self.token.topic_ids, request.resolver_match
        if not only or match is None:
            return
        place = match.route.removeprefix(_REST).partition("/")[0]
        named = match.kwargs.get(_NAMES_TOPIC.get(place, ""))
        if place not in _NAMES_TOPIC or (named is None and request.method != "GET"):
            known = Topic.objects.for_user(self.owner).live().filter(pk__in=only)
            slugs = list(known.order_by("slug").values_list("slug", flat=True))
            words = ngettext(
                "This token is limited to the topic %(topics)s, so it can’t be used for anything else. Ask the user for a token without this limit.",
                "This token is limited to the topics %(topics)s, so it can’t be used for anything else. Ask the user for a token without this limit.",
                len(slugs),
            )
            raise Problem(403, words % {"topics": ", ".join(slugs) or "-"})
        if named is None:
            return  # a list, which contains only these topics
        # A slug is unique only among live topics.
        mine = Topic.objects.for_user(self.owner).live().filter(pk__in=only)
        found = {
            "topics": lambda: getattr(Topic.objects.by_slug(self.owner, named), "pk", None) in only,
            "shared-topics": lambda: UUID(str(named)) in only,
            "runs": lambda: mine.filter(runs=named).exists(),
        }
        if not found[place]():
            words = _("Not found, or this token can’t access its topic.")
            raise Problem(404, words)


class ApiRequest(HttpRequest):
    """A request with a valid token."""

    auth: Caller


def authenticated(request: HttpRequest) -> Caller:
    """Return the caller for the request's bearer token, looked up once per request.

    Raises Problem (401) without a token, and for one that is unknown, revoked or expired.
    """
    known: Caller | None = getattr(request, "api_caller", None)
    if known is None:
        known = caller_of(_token_in(request))
        structlog.contextvars.bind_contextvars(user_id=known.owner.pk, token=known.token.pk)
        request.api_caller = known  # type: ignore[attr-defined]
    return known


def caller_of(token: ApiToken) -> Caller:
    """Return the caller that a token stands for."""
    agent, scopes = token.agent, frozenset(token.scopes)
    owner = agent.owner
    by = owner.actor if "admin" in scopes else agent.actor
    return Caller(owner, agent, by, scopes, token)


def _token_in(request: HttpRequest) -> ApiToken:
    kind, _space, text = request.headers.get("Authorization", "").strip().partition(" ")
    if kind.lower() != "bearer" or not text.strip():
        words = _(
            "Send the header “Authorization: Bearer bcn_…” with a token created in Agents → API tokens or with `%(manage)s api_token`."
        )
        raise Problem(401, words % BY_HAND, headers={"WWW-Authenticate": REALM})
    token = tokens.find(text.strip())
    if token is None:
        words = _(
            "This token is unknown, revoked or expired. Create a new one in Agents → API tokens."
        )
        message = f'{REALM}, error="invalid_token"'
        raise Problem(401, words % BY_HAND, headers={"WWW-Authenticate": message})
    return token


class Bearer(HttpBearer):
    """The scope that an endpoint requires of the token."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller:
        """Return the caller.

        Raises Problem: 401 without a token, 403 for one of another scope.  Raises SourceBlocked (403)
        if an agent that its owner blocked tries to write.
        """
        caller = authenticated(request)
        if caller.may(self.scope):
            if self.scope == "write":
                check_not_blocked(caller.owner, caller.by)
            request.api_scope = self.scope  # type: ignore[attr-defined]
            return caller
        words = _(
            "This request needs a token with the “%(needed)s” scope. This token has: %(have)s."
        )
        params = {"needed": self.scope, "have": ", ".join(sorted(caller.scopes))}
        challenge = f'{REALM}, error="insufficient_scope", scope="{self.scope}"'
        raise Problem(403, words % params, headers={"WWW-Authenticate": challenge})

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        """Not used: `authenticated` reads the whole header."""
        raise NotImplementedError


READ, WRITE, ADMIN = Bearer("read"), Bearer("write"), Bearer("admin")


def only_people(caller: Caller, what: str) -> None:
    """Raise Problem (403) for actions that only people can take: correct, unlock, decide."""
    if not caller.by.is_person:
        raise Problem(403, what)


# --- scopes of records ---

_NAMED = ("session:", "run:")


def stored_scope(caller: Caller, scope: str) -> str:
    """Return the scope that the caller named, in its stored form.

    Raises InvalidValue for an invalid scope, and Problem (403) if the caller can't use it.
    """
    scope = checked_scope(scope)
    is_excluding = bool(names_excluded(scope)) and not caller.by.is_person
    if is_excluding or not is_open(caller, scope):
        raise _not_yours(caller)
    return scope


def claimed(caller: Caller, scope: str) -> str:
    """Return the scope of the caller's write. An agent that names it becomes its owner.

    Raises the same errors as `stored_scope`.
    """
    scope = stored_scope(caller, scope)
    is_named = not caller.by.is_person and scope.startswith(_NAMED)
    if is_named and not AgentScope.objects.claim(caller.owner, scope, caller.agent.name):
        raise _not_yours(caller)
    return scope


def _not_yours(caller: Caller) -> Problem:
    words = _(
        "You can’t use this scope. An agent can use owner, %(own)s, or a session: or run: scope that no other agent uses. Numbered runs are reserved for Beacon."
    )
    return Problem(403, words % {"own": caller.agent.actor})


def is_open(caller: Caller, scope: str) -> bool:
    """Return True if the caller can read and write in this scope."""
    if caller.by.is_person or is_in_scopes(scope, caller.context().scopes):
        return True
    kind, _colon, name = scope.partition(":")
    name = name.partition("/")[0]  # a sub-agent's scope belongs to that of its run or session
    if not scope.startswith(_NAMED):
        return False
    is_others = _is_beacons_run(name) if kind == "run" else _is_others_session(caller, name)
    holder = AgentScope.objects.holder(caller.owner, scope)
    return not is_others and holder in ("", caller.agent.name)


def _is_beacons_run(name: str) -> bool:
    """Return True if the name has the form of Beacon's runs, also future ones, so that no agent
    claims them.
    """
    return name.strip().isdecimal()


def _is_others_session(caller: Caller, name: str) -> bool:
    key = uuid_of(name)
    stored = Session.objects.filter(pk=key) if key else Session.objects.none()
    return bool(stored.exists() and not stored.filter(agent=caller.agent).exists())
