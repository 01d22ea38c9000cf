"""Which scopes a caller of the API may name.

A person's program names any.  An agent has the owner's scope, its own, and names that it gives
itself (`session:<id>`, `run:<id>`): not another agent's, a person's session's, or that of a run of
Beacon's.  The first agent that writes under a name holds it.
"""

from __future__ import annotations

from uuid import UUID

from django.utils.translation import gettext as _

from memory.api.auth import Caller
from memory.api.problems import Problem
from memory.content.clearing import checked_scope
from memory.models import AgentScope, Session

_NAMED = ("session:", "run:")


def named(caller: Caller, scope: str) -> str:
    """Return the scope that the caller named, as it is stored.

    Raises InvalidValue for what is no scope, Problem (403) for one that is not the caller's.
    """
    scope = checked_scope(scope)
    if not is_open(caller, scope):
        raise _not_yours(caller)
    return scope


def claimed(caller: Caller, scope: str) -> str:
    """Return the scope that the caller writes in, which an agent then holds if it named it.

    Raises as `named` does.
    """
    scope = named(caller, scope)
    is_named = not caller.by.is_person and scope.startswith(_NAMED)
    if is_named and not AgentScope.objects.claim(caller.owner, scope, caller.agent.name):
        raise _not_yours(caller)
    return scope


def _not_yours(caller: Caller) -> Problem:
    words = _(
        "This scope isn’t yours. An agent uses owner, %(own)s, or a session: or run: name that no "
        "other agent uses. Runs with a number are Beacon’s."
    )
    return Problem(403, words % {"own": caller.agent.actor})


def is_open(caller: Caller, scope: str) -> bool:
    """Whether the caller may read and write in this scope."""
    if caller.by.is_person or scope in caller.context().scopes:
        return True
    kind, _colon, name = scope.partition(":")
    name = name.partition("/")[0]  # a sub-agent's scope is part of that of its run or session
    if not scope.startswith(_NAMED):
        return False
    is_others = _is_beacons_run(name) if kind == "run" else _is_others_session(caller, name)
    holder = AgentScope.objects.holder(caller.owner, scope)
    return not is_others and holder in ("", caller.agent.name)


def _is_beacons_run(name: str) -> bool:
    """Whether runs of Beacon's bear such names; also one to come, lest a program prepare its desk."""
    return name.strip().isdecimal()


def _is_others_session(caller: Caller, name: str) -> bool:
    try:
        stored = Session.objects.filter(pk=UUID(name))
    except ValueError:
        return False
    return bool(stored.exists() and not stored.filter(agent=caller.agent).exists())
