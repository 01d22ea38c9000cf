"""Workers on several hosts over one broker and one database: the same runs with one, with two.

    .venv/bin/python -m benchmarks.hosts [--runs 8] [--hosts 2]

A host is a separate worker process and data folder, with the same secret key, DATABASE_URL and
REDIS_URL.  Eight topics run at once with slow loopback services (4 s per run), two runs at a time on
each host.  Prints the seconds until all have ended, and the number of runs per host.  The exit code
is 1 if a run failed, or if a host had none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import stack as served

AT_ONCE = 2  # runs on a host
MAX_SECONDS = 300.0  # seconds for all runs


def main() -> int:
    """Start what is needed, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--hosts", type=int, default=2)
    asked = parser.parse_args()
    from beacon_site import embedded

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beacon-bench-")))
        origin = stack.enter_context(served.loopback(pace=1.0))
        served.configure(folder, origin, served.free_port())
        servers = embedded.ensure(folder)
        stack.callback(servers.close)
        os.environ |= servers.urls
        return _measured(folder, asked.runs, asked.hosts)


def _measured(folder: Path, runs: int, most: int) -> int:
    import django

    django.setup()
    from django.core.management import call_command

    from memory.models import User

    call_command("migrate", verbosity=0)
    User.objects.create_user("hosts", password="hosts-horse-1")  # noqa: S106
    print("| hosts | runs | seconds | runs a minute | carried out by |\n|---|---|---|---|---|")
    is_bad = False
    for hosts in sorted({1, most}):
        with _hosts(folder, hosts):
            _perform(f"warm {hosts}", hosts * AT_ONCE)
            seconds, by = _perform(f"of {hosts}", runs)
        told = ", ".join(f"{name}: {count}" for name, count in sorted(by.items()))
        print(
            f"| {hosts} | {runs} | {seconds:.1f} | {runs * 60 / seconds:.0f} | {told} |", flush=True
        )
        is_bad |= sum(by.values()) < runs or len(by) < hosts
    return int(is_bad)


@contextmanager
def _hosts(folder: Path, count: int) -> Iterator[None]:
    """Run a worker for each host: the one of `make up`, under the host's name."""
    from beacon_site.launcher import runner

    arguments, more = runner.commands("127.0.0.1", 1, folder / "schedule")["worker"]
    plain = [one for one in arguments if not one.startswith(("--hostname", "--concurrency"))]
    running = []
    try:
        for number in range(1, count + 1):
            own = folder / f"host{number}"
            own.mkdir(exist_ok=True)
            own_words = [f"--hostname=worker@host{number}", f"--concurrency={AT_ONCE}"]
            with (own / "worker.log").open("ab") as log:
                running.append(
                    subprocess.Popen(
                        [*plain, *own_words],
                        cwd=served.ROOT,
                        env={**os.environ, **more, "BEACON_DATA_DIR": str(own)},
                        stdout=log,
                        stderr=log,
                    )
                )
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=60)


def _perform(name: str, count: int) -> tuple[float, Counter[str]]:
    """Start a run of each of so many new topics; return the seconds, and who carried out which."""
    from memory.models import User
    from research.models import Run
    from research.services.runs.execution import starting

    owner = User.objects.get()
    topics = [
        starting.create_topic(owner=owner, title=f"Plants {name} {n}", by=owner.actor)
        for n in range(count)
    ]
    began = time.perf_counter()
    ids = [starting.start_run(one, trigger="command", by=owner.actor).pk for one in topics]
    runs = Run.objects.filter(pk__in=ids)
    while time.perf_counter() - began < MAX_SECONDS:
        if not any(run.is_unfinished for run in runs.all()):
            break
        time.sleep(0.1)
    seconds = time.perf_counter() - began
    done = runs.filter(status=Run.Status.SUCCEEDED).values_list("worker", flat=True)
    return seconds, Counter(worker.partition("@")[2].partition(":")[0] for worker in done)


if __name__ == "__main__":
    sys.exit(main())
