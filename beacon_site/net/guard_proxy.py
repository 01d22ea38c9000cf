"""A local HTTP proxy for one page in a browser: every connection goes through the address guard.

The browser's request -> `check_url` -> `GuardedBackend`, which looks the host up once, refuses it if
any address is bad, and connects to that same address -> bytes copied both ways, counted by one
meter for all connections.  The browser looks up no names and opens no connections itself.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

import httpcore
import httpx
import structlog

from beacon_site.net.address_guard import GuardedBackend, Resolver, check_url, resolve
from beacon_site.net.bounded import MIB, Limits, Meter, too_large
from beacon_site.net.errors import ProviderError, ProviderRejected

logger = structlog.get_logger(__name__)

MAX_HEAD_LENGTH = 64 * 1024
PIECE = 64 * 1024
MAX_CONNECTIONS = 1_000  # of one page
MAX_SENT = MIB  # by one page, through all connections
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST"})
# Never passed on: the proxy's own, cookies, and those that the proxy sets itself.
_DROPPED = frozenset(
    {"connection", "cookie", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"}
)  # fmt: skip
# Hosts that Chromium itself asks for updates, despite all switches.  No page needs them.
_UPDATE_HOSTS = frozenset({"update.googleapis.com", "clients2.google.com"})
_CLOSED = b"Connection: close\r\n"
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class SharedMeter(Meter):
    """One meter for the connections of many threads."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._lock = threading.Lock()
        self._sent = 0

    def count(self, received: int) -> None:
        """Add received bytes; raises ProviderRejected above the limit."""
        with self._lock:
            super().count(received)

    def count_sent(self, sent: int) -> None:
        """Add bytes that the browser sends; raises ProviderRejected above the limit."""
        with self._lock:
            self._sent += sent
            if self._sent > MAX_SENT:
                raise too_large(MAX_SENT)

    @property
    def is_used_up(self) -> bool:
        """Return True if a connection received more bytes than the limit."""
        return self.wire_bytes > self.limits.wire_bytes


class _BadRequest(Exception):
    """The browser's request isn't one that a proxy gets."""


class GuardProxy:
    """Serves one browser on a free port of 127.0.0.1, as a context manager."""

    def __init__(
        self,
        meter: SharedMeter,
        *,
        allow_hosts: frozenset[str] = frozenset(),
        resolver: Resolver = resolve,
    ) -> None:
        self._meter = meter
        self._allow_hosts = allow_hosts
        self._resolver = resolver
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: set[socket.socket | httpcore.NetworkStream] = set()
        self._lock = threading.Lock()
        self._left = MAX_CONNECTIONS
        self._is_closed = False
        self.refused = 0  # requests that the guard refused

    @property
    def address(self) -> str:
        """Return `host:port`, for the browser's settings."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="beacon-guard-proxy", daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with self._lock:
            self._is_closed = True
            left, self._open = list(self._open), set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        for one in left:
            _close(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            self._left -= 1
            if self._left < 0 or not self._keep(client):
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _keep(self, one: socket.socket | httpcore.NetworkStream) -> bool:
        """Remember to close it at the end.  False if the end has already come."""
        with self._lock:
            if not self._is_closed:
                self._open.add(one)
            return not self._is_closed

    def _end(self, one: socket.socket | httpcore.NetworkStream) -> None:
        with self._lock:
            self._open.discard(one)
        _close(one)

    def _serve(self, client: socket.socket) -> None:
        try:
            client.settimeout(self._meter.limits.whole_seconds)
            self._forward(client)
        except ProviderRejected as exc:
            self.refused += 1
            logger.info("browser request refused", why=str(exc))
            _answer(client, _REFUSED)
        except (
            ProviderError,
            _BadRequest,
            OSError,
            httpcore.NetworkError,
            httpcore.TimeoutException,
        ):
            _answer(client, _FAILED)
        finally:
            self._end(client)

    def _forward(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        method, place, fields = _parsed(head)
        if any(host in place for host in _UPDATE_HOSTS):
            raise _BadRequest
        if method == "CONNECT":
            # Also for ws:// on port 80.  What is inside the tunnel is up to the browser and the host.
            scheme = "http" if place.endswith(":80") else "https"
            target = check_url(f"{scheme}://{place}/", self._allow_hosts)
        elif method in METHODS:
            target = check_url(place, self._allow_hosts)
            if target.scheme != "http":
                raise _BadRequest
        else:
            raise _BadRequest
        stream = self._connected(target)
        if not self._keep(stream):
            _close(stream)
            return
        try:
            if method == "CONNECT":
                client.sendall(_OPENED)
            else:
                stream.write(_request(method, target, fields))
            if rest:
                self._meter.count_sent(len(rest))
                stream.write(rest)
            sending = threading.Thread(target=self._send, args=(client, stream), daemon=True)
            sending.start()
            self._receive(client, stream, has_head=method != "CONNECT")
        finally:
            self._end(stream)

    def _connected(self, target: httpx.URL) -> httpcore.NetworkStream:
        backend = GuardedBackend(
            self._meter,
            allow_hosts=self._allow_hosts,
            resolver=self._resolver,
            connect_seconds=self._meter.limits.connect_seconds,
        )
        usual = 443 if target.scheme == "https" else 80
        host = target.raw_host.decode("ascii")
        return backend.connect_tcp(host, target.port or usual)

    def _send(self, client: socket.socket, stream: httpcore.NetworkStream) -> None:
        """Copy what the browser sends, until it ends or sends too much."""
        try:
            while piece := client.recv(PIECE):
                self._meter.count_sent(len(piece))
                stream.write(piece)
        except ProviderError:  # the page's time or bytes are used up
            _close(stream)
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException):
            return

    def _receive(
        self, client: socket.socket, stream: httpcore.NetworkStream, *, has_head: bool
    ) -> None:
        """Copy what the server sends, until it ends. The browser reuses no plain connection."""
        head = b""
        while piece := stream.read(PIECE):
            if has_head:
                head += piece
                if len(head) > MAX_HEAD_LENGTH:
                    raise _BadRequest
                first, end, rest = head.partition(b"\r\n\r\n")
                while end and first[9:10] == b"1":  # an interim answer, such as 103
                    head = rest
                    first, end, rest = head.partition(b"\r\n\r\n")
                if not end:
                    continue
                piece, has_head = _with_close(first) + rest, False
            client.sendall(piece)


def _close(one: socket.socket | httpcore.NetworkStream) -> None:
    raw = one if isinstance(one, socket.socket) else one.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if isinstance(raw, socket.socket):
            raw.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads it
    with contextlib.suppress(OSError):
        one.close()


def _answer(client: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(answer)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, and what came after it."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(PIECE)
        if not piece or len(received) > MAX_HEAD_LENGTH:
            raise _BadRequest
        received += piece
    head, _end, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _parsed(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the method, the URL or host, and the header fields of a request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        raise _BadRequest
    fields = [
        (name.strip(), value.strip()) for name, _sep, value in (x.partition(":") for x in lines)
    ]
    return parts[0], parts[1], fields


def _request(method: str, target: httpx.URL, fields: list[tuple[str, str]]) -> bytes:
    """Return the head of the request that the server gets."""
    kept = [(name, value) for name, value in fields if name.lower() not in _DROPPED]
    lines = [f"{method} {target.raw_path.decode('ascii')} HTTP/1.1"]
    lines += [
        f"{name}: {value}" for name, value in [("Host", target.netloc.decode("ascii")), *kept]
    ]
    if any("\n" in line or "\r" in line for line in lines):
        raise _BadRequest
    return "\r\n".join(lines).encode("latin-1") + b"\r\n" + _CLOSED + b"\r\n"


def _with_close(head: bytes) -> bytes:
    """Return the head of an answer, which says that its connection closes."""
    lines = head.split(b"\r\n")
    kept = [
        x
        for x in lines
        if x.partition(b":")[0].strip().lower() not in (b"connection", b"keep-alive")
    ]
    return b"\r\n".join(kept) + b"\r\n" + _CLOSED + b"\r\n"
