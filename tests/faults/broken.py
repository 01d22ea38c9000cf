"""A site whose Postgres and Valkey are its own, behind proxies that break them."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from beacon_site import embedded
from beacon_site.embedded import places, processes
from tests.faults.outside import Outside
from tests.faults.person import Person
from tests.faults.processes import Site
from tests.faults.proxy import FaultProxy

FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT  # how to stop Postgres


@dataclass
class Broken:
    """The site, its two proxies, who looks at its pages, and the folder of its servers."""

    site: Site
    redis: FaultProxy
    postgres: FaultProxy
    person: Person
    folder: Path

    def restart(self, name: str, how: signal.Signals, *, down: float = 2.0) -> float:
        """Stop `postgres` or `valkey` by a signal and start it again; return the seconds it was gone."""
        began = time.monotonic()
        mark = str(places.read_state(self.folder)[name]["process"])
        processes.stop(mark, [(how, 20.0), (signal.SIGKILL, 5.0)])
        time.sleep(down)
        assert embedded.revive(self.folder) == [name]
        return time.monotonic() - began


@contextlib.contextmanager
def broken_site(outside: Outside) -> Iterator[Broken]:
    """Web, worker, upkeep and beat on their own servers; nothing is left afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="beacon-broken-") as named,
        contextlib.ExitStack() as stack,
    ):
        top = Path(named)
        top.chmod(0o711)  # the servers' own user must come through
        servers = stack.enter_context(embedded.ensure(top / "servers", durable=False))
        redis, postgres = (
            stack.enter_context(_proxy(servers.urls[name]))
            for name in ("REDIS_URL", "DATABASE_URL")
        )
        folder = top / "site"
        folder.mkdir()
        made = Site(folder, **outside.variables, **servers.urls)
        made.environment["REDIS_URL"] = _through(made.environment["REDIS_URL"], redis)
        stack.enter_context(made)
        made.environment["DATABASE_URL"] = _through(made.url, postgres)
        made.start_beat()
        made.start_worker("upkeep", queues="maintenance,reflect,background")
        made.start_worker(queues="research", children=4)
        address = made.start_web()
        yield Broken(made, redis, postgres, Person(address), top / "servers")


def _proxy(url: str) -> FaultProxy:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return FaultProxy(parts.hostname, parts.port)


def _through(url: str, proxy: FaultProxy) -> str:
    parts = urlsplit(url)
    secret = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{secret}@127.0.0.1:{proxy.port}"))
