"""A TCP proxy between Beacon and a server, which breaks the connection on command.

with FaultProxy("127.0.0.1", 6379) as proxy:
    proxy.close()       # refuses connections, and cuts those there are
    proxy.silence()     # accepts and says nothing, those there are included
    proxy.delay(0.5)    # each piece comes so many seconds later
    proxy.cut_after(n)  # each connection is reset after n bytes of the server's answers
    proxy.heal()
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

_PIECE = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by reset, as a killed host would


class FaultProxy:
    """One listening port that leads to one server; it runs in a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._is_silent = False
        self._delay = 0.0
        self._most: int | None = None
        self.port = 0
        self.connections = 0  # how many were ever taken

    def __enter__(self) -> FaultProxy:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self._thread.start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.heal()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def to(self, host: str, port: int) -> None:
        """Send new connections to another server."""
        self._target = (host, port)

    # --- what can be done to it -------------------------------------------------------------------

    def close(self) -> None:
        """Refuse connections from now on and reset those there are."""
        self._in_loop(self._stop_listening)
        self.cut()

    def cut(self) -> None:
        """Reset the connections there are; new ones are taken."""
        self._in_loop(self._reset_all)

    def silence(self) -> None:
        """Accept connections and data, but forward and answer nothing."""
        self._is_silent = True

    def delay(self, seconds: float) -> None:
        """Pass each piece on so many seconds later."""
        self._delay = seconds

    def cut_after(self, most: int) -> None:
        """Reset each new connection after `most` bytes of answers."""
        self._most = most

    def heal(self) -> None:
        """Work as a proxy should; connections that met with silence are reset."""
        was_silent, self._is_silent = self._is_silent, False
        self._delay, self._most = 0.0, None
        if was_silent:
            self.cut()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)

    # --- in the thread ------------------------------------------------------------------------------

    def _in_loop(self, act: Callable[[], object]) -> None:
        done = threading.Event()

        def perform() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(perform)
        done.wait(5)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            self._writers.discard(writer)
            _reset(writer)
            return
        self._writers.add(back)
        ways = [
            asyncio.create_task(self._pass_on(reader, back, None)),
            asyncio.create_task(self._pass_on(there, writer, self._most)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, back):
                self._writers.discard(end)
                _reset(end)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if self._is_silent:
                    continue
                if left is not None and len(piece) >= left:
                    writer.write(piece[:left])
                    await writer.drain()
                    return
                left = left - len(piece) if left is not None else None
                writer.write(piece)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
