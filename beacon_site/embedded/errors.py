"""What the embedded servers say when they cannot be had."""

from __future__ import annotations


class EmbeddedError(RuntimeError):
    """A server could not be found, started or stopped; the text says why and what to do."""
