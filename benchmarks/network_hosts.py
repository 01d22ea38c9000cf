"""Beacon on nine hosts of a network, while hosts fail: what users notice, and what is lost.

    sudo .venv/bin/python -m benchmarks.network_hosts [--readers 4] [--seconds 15]

Two web servers, three workers, Postgres with a synchronous standby and two Redis servers, each in a
network namespace with its own address. Clients write notes, recall and open a page through both web
servers, and try the other one after an error, as a proxy does. Runs are in progress. Then a
worker's cable is pulled, then a web server's, the primary database's (the standby is promoted and
takes over its address) and Redis's (an empty one takes over its address). Each host is plugged in
again afterwards, except the old database and the old Redis, which must not come back as they are.

At the end, each note that was acknowledged is there once, each run has ended once with one report,
and `verify` finds nothing. Linux with root and `ip` (Debian: iproute2). Exit code 1 if anything was
lost or doubled.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

from benchmarks import stack as served

NUMBERS = {
    "db1": 11, "db2": 12, "redis1": 21, "redis2": 22, "web1": 31, "web2": 32,
    "worker1": 41, "worker2": 42, "worker3": 43,
}  # fmt: skip
NETWORK = "10.77.0"
HERE, DATABASE, REDIS = f"{NETWORK}.1", f"{NETWORK}.10", f"{NETWORK}.20"
BRIDGE = "beacon0"
PORT = 8000
PASSWORD = "only-for-this-benchmark"  # noqa: S105
MAX_SECONDS = 240.0  # seconds until all runs of a stage have ended
ATTEMPT = 6.0  # seconds that the proxy waits for an answer
GIVES_UP = 90.0  # seconds until a client calls its request failed
T = TypeVar("T")


# --- the network ---


def ip(*words: str) -> None:
    """Run `ip`. Raises CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """The hosts: namespaces whose virtual cables end in a bridge on this machine."""

    def __init__(self) -> None:
        self._running: dict[str, list[subprocess.Popen[bytes]]] = {name: [] for name in NUMBERS}
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{HERE}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for name, number in NUMBERS.items():
            space, cable = self._space(name), self._cable(name)
            ip("netns", "add", space)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", cable, "master", BRIDGE, "up")
            ip("-n", space, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    @staticmethod
    def _space(name: str) -> str:
        return f"beacon-{name}"

    @staticmethod
    def _cable(name: str) -> str:
        return f"b-{name}"

    def start(
        self, name: str, command: Sequence[str | Path], log: Path, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a process on a host."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._space(name), *map(str, command)],
                cwd=served.ROOT,
                env={**os.environ, **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running[name].append(process)
        return process

    def unplug(self, name: str) -> None:
        """Pull the host's cable. Its processes continue, but reach no other host."""
        ip("link", "set", self._cable(name), "down")

    def plug_in(self, name: str) -> None:
        """Connect the host again."""
        ip("link", "set", self._cable(name), "up")

    def give(self, address: str, name: str) -> None:
        """Give a further address to a host, and let the others forget who had it."""
        ip("-n", self._space(name), "addr", "add", f"{address}/24", "dev", "eth0")
        ip("neigh", "flush", "dev", BRIDGE)
        for other in NUMBERS:
            ip("-n", self._space(other), "neigh", "flush", "dev", "eth0")

    def close(self) -> None:
        """End all processes, and remove the hosts."""
        every = [one for name in reversed(self._running) for one in self._running[name]]
        for process in every:
            process.terminate()
        for process in every:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
        for process in every:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        remove()


def remove() -> None:
    """Remove the hosts and the bridge, also those of a killed benchmark."""
    for name in NUMBERS:
        for words in (["netns", "del", f"beacon-{name}"], ["link", "del", f"b-{name}"]):
            subprocess.run(["ip", *words], check=False, capture_output=True)
    subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)


# --- the servers ---


class Database:
    """Postgres on db1, which confirms nothing before its standby on db2 has it."""

    def __init__(self, network: Network, folder: Path) -> None:
        from beacon_site.embedded import binaries, processes

        _storage, self._account = processes.storage_of(folder)
        self._programs = binaries.postgres_bin(folder, self._account)
        self._network, self._folder = network, folder
        first = folder / "db1"
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", first, "-N", "-U", "beacon", "-E", "UTF8", "--locale=C.UTF-8",
                  "-A", "scram-sha-256", f"--pwfile={secret}")  # fmt: skip
        with (first / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all,replication beacon {NETWORK}.0/24 scram-sha-256\n")
        network.give(DATABASE, "db1")
        self._start("db1", "-c", "synchronous_standby_names=*", "-c", "synchronous_commit=local")
        self._wait(DATABASE)
        source = f"host={NETWORK}.{NUMBERS['db1']} user=beacon password={PASSWORD}"
        self._run("pg_basebackup", "-D", folder / "db2", "-R", "-X", "stream", "-c", "fast",
                  "-d", source, host="db2")  # fmt: skip
        self._start("db2")
        self._wait(f"{NETWORK}.{NUMBERS['db2']}")

    def promote(self) -> None:
        """Make the standby the primary and give it the address."""
        self._run("pg_ctl", "promote", "-D", self._folder / "db2", host="db2")
        self._network.give(DATABASE, "db2")

    def _as_account(self) -> list[str]:
        if self._account.uid is None:
            return []
        ids = [f"--reuid={self._account.uid}", f"--regid={self._account.gid}"]
        return ["setpriv", *ids, "--clear-groups"]

    def _run(self, program: str, *words: object, host: str = "db1") -> None:
        command = [*self._as_account(), self._programs / program, *words]
        subprocess.run(
            ["ip", "netns", "exec", f"beacon-{host}", *map(str, command)],
            cwd="/", check=True, capture_output=True,
        )  # fmt: skip

    def _start(self, host: str, *more: str) -> None:
        command = [self._programs / "postgres", "-D", self._folder / host, "-c", "port=5432",
                   "-c", "listen_addresses=*", "-c", "unix_socket_directories=", *more]  # fmt: skip
        self._network.start(
            host,
            [*self._as_account(), *command],
            self._folder / f"{host}.log",
            HOME=str(self._folder),
        )

    def _wait(self, address: str) -> None:
        import psycopg

        url = f"postgresql://beacon:{PASSWORD}@{address}:5432/postgres"
        for _ in range(300):
            with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
                return
            time.sleep(0.1)
        raise SystemExit(f"Postgres at {address} didn't start. See {self._folder}.")


def start_redis(network: Network, folder: Path, name: str) -> None:
    """Start an empty Redis server on a host."""
    from beacon_site.embedded import binaries, processes

    own = folder / name
    own.mkdir()
    program = binaries.valkey_server(folder, processes.storage_of(folder)[1])
    settings = own / "redis.conf"
    settings.write_text(f'bind 0.0.0.0\nport 6379\nrequirepass {PASSWORD}\nsave ""\ndir {own}\n')
    network.start(name, [program, settings], own / "log")


def start_beacon(network: Network, folder: Path) -> None:
    """Start the web servers and workers as docs/scale.md says."""
    from beacon_site.embedded.places import COMMAND
    from beacon_site.launcher import runner

    every = runner.commands("0.0.0.0", PORT, folder / "schedule")
    plan = {
        "web1": ["web"], "web2": ["web"], "worker1": ["worker", "upkeep", "beat"],
        "worker2": ["worker"], "worker3": ["worker"],
    }  # fmt: skip
    for host, names in plan.items():
        own = folder / host
        own.mkdir()
        if host.startswith("web"):
            prepare = [*COMMAND, "prepare"]
            ended = network.start(host, prepare, own / "prepare.log", BEACON_DATA_DIR=str(own))
            if ended.wait(timeout=120):
                raise SystemExit(f"`beacon prepare` failed on {host}. See {own}.")
        for name in names:
            command, more = every[name]
            plain = [one.replace("%h", host) for one in command]
            network.start(host, plain, own / f"{name}.log", BEACON_DATA_DIR=str(own), **more)
    for host in ("web1", "web2"):
        base = f"http://{NETWORK}.{NUMBERS[host]}:{PORT}"
        for _ in range(600):
            with suppress(httpx.HTTPError):
                httpx.get(f"{base}/livez", trust_env=False, timeout=2).raise_for_status()
                break
            time.sleep(0.2)
        else:
            raise SystemExit(f"{host} didn't start. See {own}.")


# --- the clients ---


class Clients:
    """People and agents at work, behind a proxy that asks the other server after an error."""

    def __init__(self, token: str, session: str, page: str, count: int) -> None:
        self._token, self._session, self._page = token, session, page
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self.took: list[float] = []  # seconds of each request, with its retries
        self.errors: Counter[str] = Counter()  # answers that a retry made good
        self.failed: list[str] = []
        self.written: set[str] = set()
        self._threads = [threading.Thread(target=self._work, args=[n]) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def stage(self) -> tuple[list[float], Counter[str], list[str]]:
        """Return what happened since the last call: seconds, errors, failures."""
        with self._lock:
            told = self.took, self.errors, self.failed
            self.took, self.errors, self.failed = [], Counter(), []
        return told

    def end(self) -> None:
        """Stop the clients, after their requests."""
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        agent = {"Authorization": f"Bearer {self._token}"}
        with httpx.Client(trust_env=False, timeout=httpx.Timeout(ATTEMPT, connect=2)) as client:
            for turn in itertools.count():
                if self._ends.is_set():
                    return
                text = f"Reading {uuid.uuid4().hex} of gauge {number} in turn {turn}."
                note = {"content": text, "kind": "log"}
                once = {**agent, "Idempotency-Key": uuid.uuid4().hex}
                if self._ask(client, turn, "POST", "/api/v1/notes", headers=once, json=note):
                    with self._lock:
                        self.written.add(text)
                self._ask(
                    client, turn, "GET", "/api/v1/recall", headers=agent, params={"q": "gauge turn"}
                )
                page = {"Cookie": f"sessionid={self._session}"}
                self._ask(client, turn, "GET", self._page, headers=page)
                time.sleep(0.2)

    def _ask(self, client: httpx.Client, turn: int, method: str, path: str, **more: Any) -> bool:
        began, errors = time.monotonic(), Counter[str]()
        for attempt in itertools.count(turn):
            host = ("web1", "web2")[attempt % 2]
            url = f"http://{NETWORK}.{NUMBERS[host]}:{PORT}{path}"
            try:
                status = client.request(method, url, **more).status_code
                problem = "" if status in (200, 201) else str(status)
            except httpx.HTTPError as exc:
                problem = type(exc).__name__
            seconds = time.monotonic() - began
            is_refused = problem.startswith("4")
            if not problem or is_refused or seconds > GIVES_UP:
                break
            errors[problem] += 1
            time.sleep(0.2)
        with self._lock:
            self.took.append(seconds)
            self.errors += errors
            if problem:
                self.failed.append(f"{method} {path}: {problem}")
        return not problem


# --- the story ---


class Story:
    """The stages, each with runs in progress; a row of the table for each."""

    def __init__(
        self, network: Network, database: Database, clients: Clients, seconds: float
    ) -> None:
        self._network, self._database = network, database
        self._clients, self._seconds = clients, seconds
        self._count = 0
        self.runs: list[Any] = []
        self.is_bad = False
        print("| what fails | requests | p95 | longest | failed attempts | failed requests | runs | "
              "continued elsewhere | until all had ended |\n|---|---|---|---|---|---|---|---|---|",
              flush=True)  # fmt: skip

    def tell(self, title: str, act: Callable[[Sequence[Any]], None] | None) -> None:
        """Start six runs, let something fail, and print what happened."""
        self._clients.stage()
        runs = self._start_runs(6)
        time.sleep(3)
        began = time.monotonic()
        if act:
            act(runs)
        ended = self._until_ended(runs, began)
        time.sleep(max(0.0, self._seconds - (time.monotonic() - began)))
        took, errors, failed = self._clients.stage()
        done = asked(lambda: self._statuses(runs))
        moved = asked(lambda: sum(run.attempt > 1 for run in self._rows(runs)))
        self.runs += runs
        self.is_bad |= bool(failed) or done != {"succeeded": len(runs)}
        told = ", ".join(f"{name} {number}" for name, number in errors.most_common()) or "none"
        p95 = statistics.quantiles(took, n=20)[-1] if len(took) > 1 else 0.0
        said = ", ".join(f"{number} {status}" for status, number in sorted(done.items()))
        print(
            f"| {title} | {len(took)} | {p95:.2f} s | {max(took, default=0):.1f} s | {told} | "
            f"{len(failed)} | {said} | {moved} | {ended:.0f} s |",
            flush=True,
        )
        for problem in sorted(set(failed)):
            print(f"failed: {problem}", file=sys.stderr)

    def pull_worker(self, runs: Sequence[Any]) -> None:
        """Cut off a worker that performs a run, and let it come back when others have done it."""
        host = next(
            name for name in self._who(runs) if name != "worker1"
        )  # which also has the beat, as docs/scale.md says: that isn't what is tried here
        self._network.unplug(host)
        self._until_ended(runs, time.monotonic())
        self._network.plug_in(host)

    def pull_web(self, runs: Sequence[Any]) -> None:
        """Cut off a web server for a while."""
        self._network.unplug("web1")
        time.sleep(self._seconds)
        self._network.plug_in("web1")

    def pull_database(self, runs: Sequence[Any]) -> None:
        """Cut off the primary; five seconds later the standby takes over."""
        self._network.unplug("db1")
        time.sleep(5)
        self._database.promote()

    def pull_redis(self, runs: Sequence[Any]) -> None:
        """Cut off Redis; five seconds later an empty one takes over."""
        self._network.unplug("redis1")
        time.sleep(5)
        self._network.give(REDIS, "redis2")

    def _start_runs(self, count: int) -> list[Any]:
        from memory.models import User
        from research.services.runs.execution import starting

        owner = User.objects.get()
        started = []
        for _ in range(count):
            self._count += 1
            topic = starting.create_topic(
                owner=owner, title=f"Plants {self._count}", by=owner.actor
            )
            started.append(starting.start_run(topic, trigger="command", by=owner.actor).pk)
        return started

    @staticmethod
    def _rows(runs: Sequence[Any]) -> list[Any]:
        from research.models import Run

        return list(Run.objects.filter(pk__in=runs))

    def _statuses(self, runs: Sequence[Any]) -> dict[str, int]:
        return dict(Counter(str(run.status) for run in self._rows(runs)))

    def _who(self, runs: Sequence[Any]) -> list[str]:
        for _ in range(100):
            at_work = [run.worker for run in self._rows(runs) if run.worker and run.is_unfinished]
            hosts = [one.partition("@")[2].partition(":")[0] for one in at_work]
            if any(name != "worker1" for name in hosts):
                return hosts
            time.sleep(0.1)
        raise SystemExit("No run was in progress on worker2 or worker3.")

    def _until_ended(self, runs: Sequence[Any], began: float) -> float:
        while time.monotonic() - began < MAX_SECONDS:
            if not asked(lambda: any(run.is_unfinished for run in self._rows(runs))):
                break
            time.sleep(0.3)
        return time.monotonic() - began


def asked(question: Callable[[], T]) -> T:
    """Ask the database, again after an error while another server takes over."""
    from django.db import Error, connection

    for attempt in range(60):
        try:
            return question()
        except Error:
            connection.close()
            if attempt == 59:
                raise
            time.sleep(1)
    raise AssertionError


def check(clients: Clients, runs: Sequence[Any]) -> bool:
    """Print what was lost and doubled; return whether anything was."""
    from django.core.management import CommandError, call_command
    from django.db.models import Count

    from memory.models import Note
    from research.models import Report, Run

    kept = Counter(Note.objects.filter(kind="log").values_list("content", flat=True))
    lost = sum(text not in kept for text in clients.written)
    doubled = sum(number > 1 for number in kept.values())
    per_run = Counter(Report.objects.filter(run__in=runs).values_list("run", flat=True))
    wrong = sum(per_run[run] != 1 for run in runs)
    twice = Run.objects.values("topic", "number").annotate(n=Count("pk")).filter(n__gt=1).count()
    try:
        call_command("verify", stdout=sys.stderr)
        verified = "nothing"
    except (CommandError, SystemExit) as exc:
        verified = f"problems ({exc})"
    print(
        f"\n{len(clients.written)} notes were acknowledged: {lost} lost, {doubled} stored twice. "
        f"{len(runs)} runs: {wrong} without exactly one report, {twice} numbers used twice. "
        f"`verify` found {verified}."
    )
    return bool(lost or doubled or wrong or twice or verified != "nothing")


@contextmanager
def _interrupted() -> Iterator[None]:
    """Let SIGTERM end the benchmark as Ctrl-C does, so that the hosts are removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield


def main() -> int:
    """Build the network, tell the story, return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--readers", type=int, default=4, help="clients at once")
    parser.add_argument("--seconds", type=float, default=15.0, help="at least, for each stage")
    parser.add_argument("--only", default="", help="stages with one of these words")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    arguments = parser.parse_args()
    if os.geteuid() or not shutil.which("ip"):
        sys.exit("This needs Linux, root and `ip` (Debian: apt install iproute2).")
    remove()
    with ExitStack() as stack:
        stack.enter_context(_interrupted())
        folder = Path(tempfile.mkdtemp(prefix="beacon-hosts-"))
        folder.chmod(0o777)  # Postgres's account creates its cluster there
        if arguments.keep:
            print(f"The logs are in {folder}.", file=sys.stderr)
        else:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        network = Network()
        stack.callback(network.close)
        origin = stack.enter_context(served.loopback(pace=2.0, LOOPBACK_HOST=HERE))
        hosts = [f"{NETWORK}.{NUMBERS[name]}" for name in ("web1", "web2")]
        served.configure(
            folder, origin, PORT,
            DATABASE_URL=f"postgresql://beacon:{PASSWORD}@{DATABASE}:5432/beacon",
            REDIS_URL=f"redis://:{PASSWORD}@{REDIS}:6379/0",
            ALLOWED_HOSTS=",".join(hosts), BEACON_URL=f"http://{hosts[0]}:{PORT}",
        )  # fmt: skip
        database = Database(network, folder)
        network.give(REDIS, "redis1")
        for name in ("redis1", "redis2"):
            start_redis(network, folder, name)
        return _tell(network, database, folder, arguments)


def _tell(network: Network, database: Database, folder: Path, arguments: argparse.Namespace) -> int:
    import psycopg

    with psycopg.connect(
        f"postgresql://beacon:{PASSWORD}@{DATABASE}:5432/postgres", autocommit=True
    ) as connection:
        connection.execute("CREATE DATABASE beacon")
        connection.execute("ALTER SYSTEM SET synchronous_commit = 'on'")
    import django

    django.setup()
    from django.contrib.sessions.backends.db import SessionStore
    from django.core.management import call_command

    from memory.accounts import tokens
    from memory.models import User
    from research.services.runs.execution import starting

    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("hosts", password=PASSWORD)
    _token, text = tokens.issue(user, name="gauges", scopes=["read", "write"], by=user.actor)
    session = SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session["_auth_user_hash"] = user.get_session_auth_hash()
    session.save()
    topic = starting.create_topic(owner=user, title="Gauges", by=user.actor)
    start_beacon(network, folder)
    clients = Clients(text, str(session.session_key), f"/topics/{topic.slug}/", arguments.readers)
    try:
        story = Story(network, database, clients, arguments.seconds)
        for title, act in (
            ("nothing", None),
            ("a worker's network", story.pull_worker),
            ("a web server's network", story.pull_web),
            ("the primary database; the standby takes over after 5 s", story.pull_database),
            ("Redis; an empty one takes over after 5 s", story.pull_redis),
            ("nothing, on what is left", None),
        ):
            if not arguments.only or any(word in title for word in arguments.only.split()):
                story.tell(title, act)
    finally:
        clients.end()
    return int(check(clients, story.runs) or story.is_bad)


if __name__ == "__main__":
    sys.exit(main())
