"""The trust of what an agent has read, which limits what it writes next (decision 10).

It is stored in the agent's row, since each call of a program can reach another process, by MCP or REST.
So text from a page can't be stored as the agent's own words a minute later.  `memory.api.auth.Caller`
reads and updates it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from memory.models import Agent, Trust
from memory.services.notes.saving import TRUSTS, lowest_trust

KEPT = timedelta(hours=1)  # after an agent's last call, during which what it read still counts
NOTED_EACH = timedelta(minutes=1)  # between two updates of the time of the last call


def before(agent: Agent, trust: str, *, at: datetime | None = None) -> str:
    """Return `trust`, or the trust of what the agent has read if that is lower."""
    now = at or timezone.now()
    if not agent.read_trust or agent.read_at is None or agent.read_at <= now - KEPT:
        return trust
    return lowest_trust([trust, agent.read_trust])


def held_until(agent: Agent) -> datetime | None:
    """Return until when the agent's writes are held because of what it has read."""
    now = timezone.now()
    if before(agent, TRUSTS[-1], at=now) not in (Trust.EXTERNAL, Trust.QUARANTINED):
        return None
    return agent.read_at + KEPT if agent.read_at else None


def note(agent: Agent, trust: str, *, at: datetime | None = None) -> None:
    """Store the trust at the end of a call; `agent` is the row at its start.

    A call that started before another one read external text doesn't raise the trust again.
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
