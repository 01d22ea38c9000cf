"""Unpacking what a server sent, with a bound.

A cap on the wire does not help: a thousandth of it unpacks to a gigabyte.  So only gzip is
asked for and accepted, and it is unpacked here, piece by piece, never past the limit.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderRejected, ProviderUnavailable

ACCEPT_ENCODING = "gzip, identity"
GZIP = 16 + zlib.MAX_WBITS
# A gzip body may be several members end to end; hostile ones are 20 bytes each.
MAX_MEMBERS = 64


class Unpacker(Protocol):
    """Takes a body's pieces as they come in and gives back what they hold."""

    def feed(self, piece: bytes) -> bytes:
        """Unpack one piece; raises ProviderRejected past the limit or when it is damaged."""
        ...

    def finish(self) -> None:
        """Say that no more comes; raises ProviderUnavailable if the body is cut short."""
        ...


def unpacker_for(encoding: str, *, limit: int) -> Unpacker:
    """Return the unpacker for a Content-Encoding, bounded to `limit` bytes of content.

    Raises ProviderRejected for any encoding that was not asked for, and for chained ones.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _AsItIs(limit)
    if name in ("gzip", "x-gzip"):
        return _Gunzip(limit)
    raise ProviderRejected(
        _("The server packed the page as “%(encoding)s”, which was not asked for.")
        % {"encoding": name[:60]}
    )


class _AsItIs:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def feed(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > self._limit:
            raise _too_much(self._limit)
        return piece

    def finish(self) -> None:
        return


class _Gunzip:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._members = 0
        self._inflate = zlib.decompressobj(GZIP)
        self._touched = False

    def feed(self, piece: bytes) -> bytes:
        content = bytearray()
        while piece:
            if self._inflate.eof and not self._next_member(piece):
                break
            self._touched = True
            try:
                content += self._inflate.decompress(piece, self._limit - self._size + 1)
            except zlib.error as exc:
                raise ProviderRejected(
                    _("The page says it is packed as gzip, but it cannot be unpacked.")
                ) from exc
            if self._size + len(content) > self._limit:
                raise _too_much(self._limit)
            piece = self._inflate.unused_data
        self._size += len(content)
        return bytes(content)

    def _next_member(self, piece: bytes) -> bool:
        """Begin a further member; what follows the last and is none is left out."""
        if not piece.startswith(b"\x1f"):
            return False
        self._members += 1
        if self._members >= MAX_MEMBERS:
            raise ProviderRejected(_("The page is packed in an abnormal way, so it was not read."))
        self._inflate = zlib.decompressobj(GZIP)
        return True

    def finish(self) -> None:
        if self._touched and not self._inflate.eof:
            raise ProviderUnavailable(
                _("The packed page ends in the middle: the server sent less than it said.")
            )


def _too_much(limit: int) -> ProviderRejected:
    return ProviderRejected(
        _("The page unpacks to more than %(limit).3g MiB, so it was not read.")
        % {"limit": limit / (1024 * 1024)}
    )
