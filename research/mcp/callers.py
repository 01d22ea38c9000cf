"""On whose behalf a program calls: its token, and what it read so far."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connections
from django.utils import timezone, translation

from beacon_site.http import zone_of
from memory.api.auth import caller_of
from memory.models import ApiToken
from memory.notes import lowest_trust
from memory.tool_types import ToolContext

KEPT_SECONDS = 60 * 60.0  # since an agent's last call, in which what it read still counts
MOST_KEPT = 1_000  # agents


class NotOpen(Exception):
    """The token does not open anything (any more)."""


@dataclass(slots=True)
class Reading:
    """How far what agents read may be trusted, by agent, in this process.

    A program comes in with each call anew, so the trust of what it read outlives the call: what a
    page from outside told it is not to be written as an agent's own words a moment later.
    """

    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[int, tuple[str, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def before(self, agent: int, trust: str) -> str:
        """Return `trust`, or what the agent read before if that is lower."""
        with self._lock:
            kept, at = self._kept.get(agent, (trust, 0.0))
        return lowest_trust([trust, kept]) if self.clock() - at < KEPT_SECONDS else trust

    def note(self, agent: int, trust: str) -> None:
        """Keep the trust that a call ended with.

        One that began before another read something from outside does not raise it again.
        """
        with self._lock:
            kept, at = self._kept.pop(agent, (trust, 0.0))
            now = self.clock()
            lowest = lowest_trust([trust, kept]) if now - at < KEPT_SECONDS else trust
            self._kept[agent] = (lowest, now)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)


READING = Reading()
Find = Callable[[], ApiToken | None]


@dataclass(slots=True)
class Caller:
    """A program that calls: how its token is found, and the file versions that it read.

    `seen` is kept by a connection that has one program at its other end; over HTTP, where programs
    may share a token, each call has its own, and a program names the version that it read.
    """

    find: Find
    seen: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def entered(self) -> Iterator[tuple[ToolContext, frozenset[str]]]:
        """Give the context of one call, in the owner's time zone and language, and the scopes.

        For a thread of its own: its connection to the database is given back at the end.  Raises
        NotOpen for a token that was revoked, has expired, or never was.
        """
        try:
            token = self.find()
            if token is None:
                raise NotOpen
            context = context_of(token, self.seen)
            owner = context.owner
            with timezone.override(zone_of(owner.time_zone)), translation.override(owner.language):
                yield context, frozenset(token.scopes)
            READING.note(token.agent_id, context.trust)
        finally:
            give_back()


def give_back() -> None:
    """Give this thread's connection to the database back; the test's own thread keeps its."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def context_of(token: ApiToken, seen: dict[str, int]) -> ToolContext:
    """Return the context in which the token's agent calls tools."""
    context = caller_of(token).context(seen=seen)
    context.agent = token.agent
    context.trust = READING.before(token.agent_id, context.trust)
    return context
