"""How much a run costs beyond what it must wait for.

    .venv/bin/python -m benchmarks.run_overhead [--runs 5] [--services 1] [--workers 1,2,4]

A run against loopback services (plan 800 ms, 6 queries of 300 ms at each service, 24 pages of 200 to
900 ms, write 2 s) in a warm process, from claim to save, over its data-dependent path: plan + slowest
query + slowest page + write = 4.0 s.  The pages must have reached the report, or nothing was measured.
Then eight runs are queued at once, for one, two and four warm processes to carry out (`--workers ""`: none).
Everything is thrown away afterwards.

To be reached: a ratio of 1.10 with one service, and four times the runs per minute with four processes
as far as there are processors for what a run computes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beacon_site import embedded
from benchmarks import loopback, search_shapes

AT_ONCE = 8  # runs that wait for the workers
PATH_SECONDS = loopback.PLAN + loopback.QUERY + loopback.SLOWEST + loopback.WRITE


def _configure(origin: str, folder: str, services: Sequence[str]) -> None:
    host = origin.removeprefix("http://")
    os.environ |= {
        "BEACON_DATA_DIR": folder,
        "BEACON_LLM_BASE_URL": f"{origin}/v1",
        "BEACON_LLM_MODEL": "loopback",
        **{f"{name.upper()}_BASE_URL": origin for name in services},
        **{
            f"{name.upper()}_API_KEY": "benchmark-key-1234"
            for name in ("serpapi", "tavily", "brave")
        },
        "BEACON_SEARCH": " ".join(services),
        "BEACON_FETCH_ALLOW_HOSTS": host,
        "BEACON_RUNS_PER_HOUR": "10000",
        "DJANGO_SETTINGS_MODULE": "beacon_site.settings",
    }


def _one(number: int) -> tuple[float, dict[str, float]]:
    """Carry one run of a fresh topic out; return its seconds and those of each step."""
    from memory.models import User
    from research.models import Run
    from research.services.runs.execution import pipeline, starting

    user = User.objects.get()
    topic = starting.create_topic(owner=user, title=f"Overhead topic {number}", by=user.actor)
    run = Run.objects.start(topic, trigger="command", by=user.actor)
    began = time.perf_counter()
    pipeline.execute(run.pk, worker="benchmark")
    seconds = time.perf_counter() - began
    run.refresh_from_db()
    assert run.status == "succeeded", (run.status, run.error, run.warnings)
    assert run.read_count == loopback.PAGES, run.read_count
    assert not run.report.is_extractive, run.warnings
    assert len(run.report.sources) >= 10, run.report.sources
    assert all(quote["found"] for s in run.report.sources for quote in s["quotes"])
    return seconds, {s.name: (s.milliseconds or 0) / 1000 for s in run.steps.all()}


def _work() -> None:
    """Be one of several workers: say when warm, and carry out what is queued when told to."""
    import django

    django.setup()
    import structlog

    structlog.configure(processors=[structlog.testing.LogCapture()])
    from research.models import Run
    from research.services.runs.execution import pipeline

    _one(1000 + os.getpid())
    print("warm", flush=True)
    sys.stdin.readline()
    while (waiting := Run.objects.filter(status="queued").order_by("?").first()) is not None:
        pipeline.execute(waiting.pk, worker=f"benchmark-{os.getpid()}")


def _throughput(workers: int) -> float:
    """Return the seconds in which so many warm processes carry out eight runs that wait."""
    from memory.models import User
    from research.models import Run
    from research.services.runs.execution import starting

    command = [sys.executable, "-m", "benchmarks.run_overhead", "--work"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _worker in range(workers)
    ]
    for process in started:
        assert process.stdout and process.stdout.readline() == "warm\n"
    user = User.objects.get()
    runs = [
        Run.objects.start(
            starting.create_topic(owner=user, title=f"{workers} at {n}", by=user.actor),
            trigger="command", by=user.actor,
        ).pk
        for n in range(AT_ONCE)
    ]  # fmt: skip
    began = time.perf_counter()
    for process in started:  # all get the command before the first answer is read
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.close()
    for process in started:
        process.wait()
    took = time.perf_counter() - began
    assert Run.objects.filter(pk__in=runs, status="succeeded").count() == AT_ONCE
    return took


def _print(rows: list[tuple[float, dict[str, float]]]) -> None:
    totals = [seconds for seconds, _steps in rows]
    for name in rows[0][1]:
        print(f"{name:<14}{statistics.median(steps[name] for _s, steps in rows):8.3f} s")
    ratios = [seconds / PATH_SECONDS for seconds in totals]
    print(f"{'services':<14}{os.environ['LOOPBACK_SERVICES']}")
    print(f"{'run':<14}{statistics.median(totals):8.3f} s   path {PATH_SECONDS:.1f} s")
    print(
        f"ratio          min {min(ratios):.3f}  median {statistics.median(ratios):.3f}  "
        f"max {max(ratios):.3f}   over {len(rows)} runs"
    )


def main() -> None:
    """Start what is needed, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--services", type=int, default=1)
    parser.add_argument("--workers", default="1,2,4", help="processes, with commas")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return _work()
    names = search_shapes.NAMES[: options.services]
    os.environ["LOOPBACK_SERVICES"] = " ".join(names)
    services: Any = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loopback"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with tempfile.TemporaryDirectory(prefix="beacon-bench-") as folder:
            _configure(services.stdout.readline().strip(), folder, names)
            servers = embedded.ensure(Path(folder))
            os.environ |= servers.urls
            try:
                _measure(options.runs, [int(n) for n in options.workers.split(",") if n])
            finally:
                servers.close()
    finally:
        services.stdin.close()
        services.wait(timeout=10)


def _measure(runs: int, workers: Sequence[int]) -> None:
    import django

    django.setup()
    import structlog
    from django.core.management import call_command
    from django.db import connections

    structlog.configure(processors=[structlog.testing.LogCapture()])
    from memory.models import User

    call_command("migrate", verbosity=0)
    User.objects.create_user("bench", password="bench-horse-1")  # noqa: S106
    _one(0)  # warm: imports, the reading child, the database's caches
    _print([_one(number) for number in range(1, runs + 1)])
    for count in workers:
        took = _throughput(count)
        print(
            f"{count} workers     {AT_ONCE} runs in {took:6.2f} s, {60 * AT_ONCE / took:5.1f} a minute",
            flush=True,
        )
    connections.close_all()


if __name__ == "__main__":
    main()
