"""Errors for rejected writes. Their messages are for the person or agent who wrote."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _


class MemoryRefused(Exception):
    """Memory's rules don't allow this write, and nothing was stored."""


class Locked(MemoryRefused):
    """This actor can't change the record."""


class OnlyPeople(Locked):
    """An agent can't see the record, so it can't change it either."""

    def __init__(self, label: str) -> None:
        super().__init__(_("Only people can see %(path)s.") % {"path": label})


class StaleWrite(MemoryRefused):
    """The record was changed after the version this write is based on."""

    def __init__(self, label: str, *, current: int | None = None) -> None:
        super().__init__(
            _(
                "Someone else changed “%(label)s” after you opened it. Nothing was saved. Review the newer version and save again."
            )
            % {"label": label}
        )
        self.current = current


class LimitReached(MemoryRefused):
    """The write would exceed a limit, such as 10 facts per topic."""


class InvalidValue(MemoryRefused):
    """A field has an invalid value. `errors` maps field names to messages."""

    def __init__(self, message: str, *, errors: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or {}


class NoSuchKey(LookupError):
    """The key doesn't exist, which callers who only try a key expect (R100)."""

    def __init__(self, key: str) -> None:
        super().__init__(_("The scratchpad has no key “%(key)s”.") % {"key": key[:200]})
        self.key = key
