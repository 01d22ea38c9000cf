"""How far what an agent read may be trusted, for what it writes a moment later (decision 10).

Each call of a program can come by another process, by MCP or REST.  So what it read is kept in the
agent's row, and outlives the call, a restart and a change of connection.  What a page told it is not
to be stored as the agent's own words a minute later.  `memory.api.auth.Caller` reads and notes it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from memory.models import Agent, Trust
from memory.notes.services import TRUSTS, lowest_trust

KEPT = timedelta(hours=1)  # since an agent's last call, in which what it read still counts
NOTED_EACH = timedelta(minutes=1)  # how often that it called again is written down


def before(agent: Agent, trust: str, *, at: datetime | None = None) -> str:
    """Return `trust`, or that of what the agent read before if that is lower."""
    now = at or timezone.now()
    if not agent.read_trust or agent.read_at is None or agent.read_at <= now - KEPT:
        return trust
    return lowest_trust([trust, agent.read_trust])


def held_until(agent: Agent) -> datetime | None:
    """Return until when what the agent writes waits for a person because of what it read."""
    now = timezone.now()
    if before(agent, TRUSTS[-1], at=now) not in (Trust.EXTERNAL, Trust.QUARANTINED):
        return None
    return agent.read_at + KEPT if agent.read_at else None


def note(agent: Agent, trust: str, *, at: datetime | None = None) -> None:
    """Keep the trust that a call ended with; `agent` is the row as that call found it.

    One that began before another read something from outside does not raise it again.
    """
    now = at or timezone.now()
    if trust == TRUSTS[-1] or _is_noted(agent, trust, now):
        return
    row = Agent.objects.filter(pk=agent.pk)
    no_lower = [one.value for one in TRUSTS[TRUSTS.index(trust) :]]
    is_over = Q(read_at=None) | Q(read_at__lte=now - KEPT)
    if not row.filter(is_over | Q(read_trust__in=no_lower)).update(read_trust=trust, read_at=now):
        row.update(read_at=now)


def _is_noted(agent: Agent, trust: str, now: datetime) -> bool:
    is_fresh = agent.read_at is not None and now - NOTED_EACH < agent.read_at <= now
    return agent.read_trust == trust and is_fresh
