"""Speed of pages and the API with years of memory and many clients.

    python -m benchmarks.load [--quick] [--only mix,polls,saves,api,runs,weight,start]

It makes 100,000 notes, 500 topics, 10,000 runs and 20 files of 2,000 revisions in its own embedded
Postgres (`--quick`: a twentieth), starts what `make up` starts, and has locust (installed into an environment
of its own at the first call) send requests from this machine, so users and server share its
processors. It prints one table: load, goal, what was measured, and whether the goal was met. The exit code
is 1 if a goal was missed. It takes about ten minutes; each measurement takes `--seconds`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import load_data, stack  # noqa: E402  the script's own folder first
from benchmarks.load_locust import Latencies, Locust  # noqa: E402

PART_NAMES = ("mix", "polls", "saves", "api", "runs", "weight", "start")
LARGE_PAGE = 5_000_000  # bytes of the largest page that a worker is given to read


@dataclass
class Row:
    """One line of the table; `is_met` is None if there is no goal."""

    what: str
    goal: str
    measured: str
    is_met: bool | None


@dataclass
class Bench:
    """What the parts share, and the rows that they add."""

    args: argparse.Namespace
    world: load_data.World
    base: str
    locust: Locust
    launcher: psutil.Process
    rows: list[Row] = field(default_factory=list)

    def row(self, what: str, goal: str, measured: str, is_met: bool | None) -> None:
        """Note a line and print it at once, because a later part may fail."""
        self.rows.append(Row(what, goal, measured, is_met))
        print(f"  {what}: {measured} ({goal}) {_word(is_met)}", flush=True)


def main() -> int:
    """Start everything, measure the parts, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="little data and 10 s each")
    parser.add_argument("--seconds", type=int, default=0, help="of each measurement (60)")
    parser.add_argument(
        "--singly", action="store_true", help="also print the best time of each page"
    )
    parser.add_argument("--only", default=",".join(PART_NAMES), help="parts, with commas")
    args = parser.parse_args()
    args.seconds = args.seconds or (10 if args.quick else 60)
    parts = args.only.split(",")
    if unknown := set(parts) - set(PART_NAMES):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    as_found = dict(os.environ)  # without what the served site needs
    if served := [name for name in parts if name != "start"]:
        rows += _served(args, served)
    if "start" in parts:
        rows.append(_start(as_found))
    _print(rows)
    return int(any(row.is_met is False for row in rows))


def _served(args: argparse.Namespace, parts: list[str]) -> list[Row]:
    from beacon_site import embedded

    with ExitStack() as block:
        folder = Path(block.enter_context(tempfile.TemporaryDirectory(prefix="beacon-load-")))
        origin = block.enter_context(stack.loopback(LOOPBACK_LARGEST=str(LARGE_PAGE)))
        port = stack.free_port()
        base = f"http://127.0.0.1:{port}"
        stack.configure(folder, origin, port)
        servers = embedded.ensure(folder)
        block.callback(servers.close)
        os.environ |= servers.urls
        world = _world(args, folder, base)
        launcher = block.enter_context(stack.beacon(folder, port))
        locust = Locust(base, folder, world.place, args.seconds)
        bench = Bench(args, world, base, locust, launcher)
        _warm(bench)
        for name in parts:
            print(name, flush=True)
            PARTS[name](bench)
        return bench.rows


def _world(args: argparse.Namespace, folder: Path, base: str) -> load_data.World:
    import django

    django.setup()
    import structlog
    from django.core.management import call_command

    structlog.configure(processors=[structlog.testing.LogCapture()])
    call_command("migrate", verbosity=0)
    sizes = load_data.Sizes.quick() if args.quick else load_data.Sizes()
    return load_data.make(sizes, folder, base)


def _warm(bench: Bench) -> None:
    """Ask for each kind of page eight times, so that the site's processes know all of them."""
    from concurrent.futures import ThreadPoolExecutor

    import httpx

    given = bench.world.given
    paths = [addresses[0] for addresses in given["pages"].values() for _time in range(8)]
    cookies = {"sessionid": given["session"]}
    with (
        httpx.Client(base_url=bench.base, cookies=cookies, timeout=60, trust_env=False) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        for path, answer in zip(paths, threads.map(client.get, paths), strict=True):
            if answer.status_code != 200:
                log = (bench.locust.folder / "up.log").read_text()[-3000:]
                raise SystemExit(f"{path}: HTTP {answer.status_code}\n{log}")
        if bench.args.singly:
            for path in dict.fromkeys(paths):
                took = min(_seconds(client, path) for _time in range(5))
                print(f"  {path}: {took * 1000:.0f} ms at best, alone", flush=True)


def _seconds(client: Any, path: str) -> float:
    began = time.perf_counter()
    client.get(path)
    return time.perf_counter() - began


# --- pages, saves and the interface ---------------------------------------------------------------


def _spent(bench: Bench) -> tuple[float, float]:
    """Return the seconds of processor that the web processes and Postgres' have taken so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        server = psutil.Process(cursor.fetchone()[0]).parent()
    assert server is not None
    web = stack.processes_of(bench.launcher, "web")
    return sum(map(_taken, web)), _taken(server)


def _taken(process: psutil.Process) -> float:
    """Return what a process and its children took; of children that ended too."""
    own = process.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(child.cpu_times()[:2])
    return float(total)


def _mix(bench: Bench) -> None:
    before = _spent(bench)
    latencies = bench.locust.send("Reader", 20, 40)
    spent = [now - then for now, then in zip(_spent(bench), before, strict=True)]
    each = [1000 * one / max(1, latencies["Aggregated"].count) for one in spent]
    print(f"  processor, each request: web {each[0]:.0f} ms, Postgres {each[1]:.0f} ms", flush=True)
    slow = sorted(((one.p95, name) for name, one in latencies.items() if name != "Aggregated"))[-3:]
    named = ", ".join(f"{name} {p95:.0f}" for p95, name in reversed(slow))
    _speed(
        bench,
        "mix of lists, searches and details, 20 per second",
        latencies["Aggregated"],
        200,
        named,
    )


def _polls(bench: Bench) -> None:
    runs = load_data.watched_runs(bench.world)
    latencies = bench.locust.send("Watcher", 25, 50)
    for run in runs:
        type(run).objects.filter(pk=run.pk).update(status="cancelled")
    _speed(bench, "50 run pages that poll every 2 s", latencies["idle poll"], 150)


def _saves(bench: Bench) -> None:
    latencies = bench.locust.send("Writer", 5, 20)
    _speed(bench, "saves of 20 files, 5 per second", latencies["save"], 400)
    saved, lost = load_data.lost_saves(bench.world)
    bench.row("saves that are lost", "0", f"{lost} of {saved}", lost == 0 and saved > 0)


def _api(bench: Bench) -> None:
    """Both kinds at once, as two programs of locust."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as threads:
        recalls = threads.submit(bench.locust.send, "Asker", 30, 30)
        notes = threads.submit(bench.locust.send, "Rememberer", 5, 5)
    _speed(bench, "API: recall, 30 per second", recalls.result()["recall"], 200)
    _speed(bench, "API: remember, 5 per second", notes.result()["remember"], 300)


def _speed(bench: Bench, what: str, latencies: Latencies, most: float, more: str = "") -> None:
    measured = f"p50 {latencies.median:.0f}, p95 {latencies.p95:.0f} ms, {latencies.failed} of {latencies.count} failed"
    is_met = latencies.p95 < most and not latencies.failed and latencies.count > 0
    bench.row(what, f"p95 < {most:.0f} ms, 0 errors", f"{measured}{more and f' ({more})'}", is_met)


# --- runs -----------------------------------------------------------------------------------------


def _runs(bench: Bench) -> None:
    """Let 50 topics be due together, so that four runs are always under way, and look at pages."""
    from django.utils import timezone

    from research.models import Run, Schedule

    topics = bench.world.topics[:50]
    Schedule.objects.filter(topic__in=topics).update(
        preset="weekly", next_run_at=timezone.now(), paused=False
    )
    began = timezone.now()
    mine = Run.objects.filter(topic__in=topics, created__gte=began)
    _until(lambda: mine.filter(status="running").count() >= 4)
    heaviest = _Heaviest(*stack.processes_of(bench.launcher, "worker"))
    with heaviest:
        latencies = bench.locust.send("Reader", 5, 10)
    ended = mine.exclude(status__in=Run.UNFINISHED)
    _speed(
        bench, "pages (5 per second) while four runs are in progress and 50 topics are due",
        latencies["Aggregated"], 300, f"{mine.count()} runs started, {ended.count()} ended",
    )  # fmt: skip
    good = ended.filter(status="succeeded").count()
    bench.row(
        "of those runs",
        "all that ended succeeded",
        f"{good} of {ended.count()}",
        good == ended.count() > 0,
    )
    bench.row(
        f"heaviest process of the worker, with pages of {LARGE_PAGE / 1e6:.0f} MB",
        "< 500 MiB", f"{heaviest.mib:.0f} MiB ({heaviest.name})", heaviest.mib < 500,
    )  # fmt: skip


def _until(is_so: Callable[[], bool], within: float = 90) -> None:
    end = time.monotonic() + within
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit("four runs did not begin")
        time.sleep(0.2)


class _Heaviest:
    """Weighs a process and all below it every half second, and keeps the heaviest one."""

    def __init__(self, process: psutil.Process) -> None:
        import threading

        self.mib, self.name = 0.0, ""
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._weigh)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _weigh(self) -> None:
        while not self._over.wait(0.5):
            for one in [self._process, *self._process.children(recursive=True)]:
                try:
                    weight, name = one.memory_info().rss / 2**20, " ".join(one.cmdline()[-3:])[:60]
                except psutil.Error:
                    continue  # it has ended since, as a reading child does
                if weight > self.mib:
                    self.mib, self.name = weight, name


# --- the first view, and the start ----------------------------------------------------------------


def _weight(bench: Bench) -> None:
    from benchmarks.load_weight import weigh

    weights = weigh(bench.base, bench.world.given)
    for limit, what, pages in (
        (100, "of any of {} pages", [one for one in weights if not one.is_editor]),
        (300, "of an editor", [one for one in weights if one.is_editor]),
    ):
        most = max(pages, key=lambda one: one.kilobytes)
        bench.row(
            f"first view {what.format(len(pages))}, only the fonts are cached", f"< {limit} KB",
            f"at most {most.kilobytes:.0f} KB ({most.name})", most.kilobytes < limit,
        )  # fmt: skip
    most = max(
        (one for one in weights if not one.is_editor), key=lambda one: one.kilobytes + one.fonts
    )
    whole = most.kilobytes + most.fonts
    bench.row(
        "first view of a page, cold cache", "< 220 KB",
        f"at most {whole:.0f} KB ({most.name}), {most.fonts:.0f} KB of them fonts", whole < 220,
    )  # fmt: skip
    moved = max(weights, key=lambda one: one.shift)
    bench.row("layout shift", "0", f"{moved.shift:.4f} ({moved.name})", moved.shift == 0)


def _start(environment: dict[str, str]) -> Row:
    """Time `make up` the second time in a folder."""
    with tempfile.TemporaryDirectory(prefix="beacon-load-start-") as folder:
        port = stack.free_port()
        more = {
            "BEACON_DATA_DIR": folder, "BEACON_PORT": str(port), "BEACON_MCP_PORT": str(stack.free_port()),
        }  # fmt: skip
        drop = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY")
        env = {name: value for name, value in environment.items() if name not in drop} | more
        took = [_one_start(env, port, Path(folder)) for _time in range(2)]
    return Row(
        "start of `make up` after the first",
        "< 3 s",
        f"{took[1]:.1f} s (first: {took[0]:.1f} s)",
        took[1] < 3,
    )


def _one_start(env: dict[str, str], port: int, folder: Path) -> float:
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(["make", "up"], cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        return stack.answers(f"http://127.0.0.1:{port}", process, within=300)
    finally:
        process.terminate()
        process.wait(timeout=60)


# --- the table ------------------------------------------------------------------------------------


def _word(is_met: bool | None) -> str:
    return {True: "met", False: "MISSED", None: ""}[is_met]


def _print(rows: list[Row]) -> None:
    print("\n| what | goal | measured | |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.goal} | {row.measured} | {_word(row.is_met)} |")


PARTS: dict[str, Callable[[Bench], Any]] = {
    "mix": _mix, "polls": _polls, "saves": _saves, "api": _api, "runs": _runs, "weight": _weight,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
