"""Why a write to memory is refused.  The messages are written for the person or agent who wrote."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _


class MemoryRefused(Exception):
    """A write that memory's rules do not allow; nothing was stored."""


class Locked(MemoryRefused):
    """The record may not be changed by this actor."""


class StaleWrite(MemoryRefused):
    """Somebody else wrote since the version that this write was based on."""

    def __init__(self, label: str, *, current: int | None = None) -> None:
        super().__init__(
            _(
                "“%(label)s” was changed by someone else after you opened it. Nothing was saved. Review the newer version and save again."
            )
            % {"label": label}
        )
        self.current = current


class LimitReached(MemoryRefused):
    """A promised limit (such as ten facts a topic) would be passed."""


class InvalidValue(MemoryRefused):
    """A field holds what the record does not allow; `errors` maps field names to messages."""

    def __init__(self, message: str, *, errors: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or {}


class NoSuchKey(LookupError):
    """There is nothing under this key; expected of keys that a caller only tries (R100)."""

    def __init__(self, key: str) -> None:
        super().__init__(_("The scratchpad has no key “%(key)s”.") % {"key": key[:200]})
        self.key = key
