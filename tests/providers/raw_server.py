"""A loopback server that sends exact bytes at the speed a test sets."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Self

Answer = Callable[[socket.socket], None]


class RawServer:
    """Accepts connections on 127.0.0.1 and passes each to `answer`."""

    def __init__(self, answer: Answer | bytes, *, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self.port = int(self._listener.getsockname()[1])
        self.requests: list[bytes] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}/"

    @property
    def received(self) -> int:
        """Bytes that clients sent, over all connections."""
        return sum(map(len, self.requests))

    def pause(self, seconds: float) -> bool:
        """Wait, but not past the end of the test; return whether to continue."""
        return not self._stopped.wait(seconds)

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopped.set()
        # A closed listener does not wake accept(): a last connection does.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            pass
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            if self._stopped.is_set():
                connection.close()
                return
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.closing(connection):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            connection.settimeout(5)
            self.requests.append(connection.recv(65536))
            if isinstance(self._answer, bytes):
                connection.sendall(self._answer)
            else:
                self._answer(connection)
            connection.close()


def http(body: bytes = b"", *, status: str = "200 OK", **headers: str) -> bytes:
    """One whole answer; header names are given with underscores."""
    fields = {"content_type": "text/html", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body
