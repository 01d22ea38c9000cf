"""On whose behalf a program calls: its token, and what it read so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connections
from django.utils import timezone, translation

from beacon_site.http import zone_of
from memory.api.auth import caller_of
from memory.models import ApiToken
from memory.toolkit.types import ToolContext


class NotOpen(Exception):
    """The token does not open anything (any more)."""


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
            caller = caller_of(token)
            context, owner = caller.context(), caller.owner
            context.seen, context.agent = self.seen, caller.agent
            with timezone.override(zone_of(owner.time_zone)), translation.override(owner.language):
                try:
                    yield context, caller.scopes
                finally:  # a refusal may quote what was read, too
                    caller.note_shown()
        finally:
            give_back()


def give_back() -> None:
    """Give this thread's connection to the database back; the test's own thread keeps its."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
