"""The memory, processes and disk of one Beacon, started as `make up` starts it.

    python -m benchmarks.footprint [--minutes 10] [--embeddings none]

PSS counts a page that several processes share once, divided between them (Linux).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from benchmarks.stack import ROOT, free_port

SERVERS = ("postgres", "valkey")
LOCKS = ("base", "embeddings")
# In the name or the arguments of a process -> its kind.
MARKS = (
    ("postgres", "postgres"), ("valkey", "valkey"), ("redis-server", "valkey"),
    ("embedded.janitor", "janitor"), ("extract_child", "reader"), ("minilm_child", "embedder"),
    ("_document", "writer"), ("apprise_child", "sender"),
    ("beacon web", "web"), ("gunicorn", "web"), ("beacon worker", "worker"), ("beat", "beat"),
    ("upkeep@", "upkeep"), ("worker@", "worker"), ("command mcp", "mcp"),
)  # fmt: skip
SHOWN = 12  # packages
# `make up` also drops the last one, since each start would compile everything again.
OTHERS = {"DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True, slots=True)
class Moment:
    """What all processes of one Beacon take at one moment."""

    name: str
    megabytes: Counter[str]
    processes: Counter[str]
    seconds: float  # of processor, since they started

    def line(self) -> str:
        python = [kind for kind in self.processes if kind not in SERVERS]
        parts = ", ".join(
            f"{kind} {self.megabytes[kind]:.0f}"
            + (f" ({n})" if (n := self.processes[kind]) > 1 else "")
            for kind in sorted(self.processes)
        )
        return (
            f"| {self.name} | {self.megabytes.total():.0f} | {sum(self.processes[k] for k in python)} "
            f"| {sum(self.processes[k] for k in SERVERS)} | {parts} |"
        )


def measured(name: str, launcher: psutil.Process) -> Moment:
    """Measure the launcher and everything that it started."""
    megabytes: Counter[str] = Counter()
    processes: Counter[str] = Counter()
    seconds = 0.0
    for one in [launcher, *launcher.children(recursive=True)]:
        try:
            pss = re.search(
                r"^Pss: +(\d+)", Path(f"/proc/{one.pid}/smaps_rollup").read_text(), re.M
            )
            kind, times = _kind(one), one.cpu_times()
        except (OSError, psutil.Error):
            continue  # it ended in between
        if pss is None:
            continue
        processes[kind] += 1
        megabytes[kind] += int(pss[1]) / 1000  # type: ignore[assignment]
        seconds += sum(times[:4])  # with those of children that have ended
    return Moment(name, megabytes, processes, seconds)


def numbers_during(seconds: float, launcher: psutil.Process) -> Counter[int]:
    """Count the processes every five seconds for a while; return how often there were how many."""
    found: Counter[int] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(5, seconds))
        found[1 + len(launcher.children(recursive=True))] += 1
    return found


def _kind(one: psutil.Process) -> str:
    words = f"{one.name()} {' '.join(one.cmdline())}"
    for mark, kind in MARKS:
        if mark in words:
            return kind
    return "launcher"


@contextmanager
def started(
    folder: Path, embeddings: str
) -> Iterator[tuple[psutil.Process, float, dict[str, str]]]:
    """Run `make up` in the folder; yield its process, the seconds it took, and its environment."""
    environment = {
        **{k: v for k, v in os.environ.items() if k not in OTHERS},
        "BEACON_DATA_DIR": str(folder),
        "BEACON_PORT": str(free_port()),
        "BEACON_MCP_PORT": str(free_port()),
        "BEACON_EMBEDDINGS": embeddings,
        "BEACON_SEARCH": "sample",
    }
    log = folder.with_suffix(".log")
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "beacon_site.launcher.command", "up"],
            cwd=ROOT, env=environment, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        while "Beacon is ready at" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() - began > 180:
                raise SystemExit(log.read_text(errors="replace"))
            time.sleep(0.05)
        yield psutil.Process(process.pid), time.monotonic() - began, environment
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=90)


def manage(environment: dict[str, str], *words: str, **more: str) -> None:
    """Run a management command on that Beacon."""
    subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env={**environment, **more}, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def package_sizes() -> dict[str, float]:
    """Return the megabytes of each package that `make up` installs, with its compiled files."""
    sizes = {}
    for lock in LOCKS:
        text = (ROOT / "requirements" / f"{lock}.txt").read_text()
        for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.M):
            try:
                files = metadata.distribution(name).files or ()
            except metadata.PackageNotFoundError:
                continue  # of another system
            sizes[name] = sum(_with_compiled(Path(str(file.locate()))) for file in files) / 1e6
    return dict(sorted(sizes.items(), key=lambda pair: -pair[1]))


def _with_compiled(file: Path) -> int:
    if file.suffix == ".pyc" or not file.is_file():
        return 0
    compiled = [file]
    if file.suffix == ".py":
        compiled += (file.parent / "__pycache__").glob(
            f"{file.stem}.{sys.implementation.cache_tag}.pyc"
        )
    return sum(one.stat().st_size for one in compiled)


def main() -> int:
    """Print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=10, help="of rest (10)")
    parser.add_argument("--embeddings", default="auto", choices=["auto", "none"])
    parser.add_argument("--packages", action="store_true", help="measure only installed packages")
    asked = parser.parse_args()
    if not asked.packages:
        _run(asked)
    sizes = package_sizes()
    print(f"\nPackages: {sum(sizes.values()):.0f} MB in {len(sizes)}. The largest: ", end="")
    print(", ".join(f"{name} {size:.0f}" for name, size in list(sizes.items())[:SHOWN]))
    return 0


def _run(asked: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="beacon-footprint-") as top:
        Path(top).chmod(0o755)  # for the embedded Postgres, if this runs as root
        folder = Path(top) / "data"
        folder.mkdir()
        moments = []
        with started(folder, asked.embeddings) as (launcher, seconds, environment):
            print(f"First start: {seconds:.1f} s (embeddings: {asked.embeddings})")
            time.sleep(5)
            moments.append(measured("after the start", launcher))
            secret = {"DJANGO_SUPERUSER_PASSWORD": "a horse and a battery"}
            manage(
                environment, "createsuperuser", "--noinput", "--username=alice",
                "--email=alice@example.org", **secret,
            )  # fmt: skip
            manage(environment, "research", "Solid-state batteries", "--sample", "--wait")
            time.sleep(60)  # for its follow-ups, after which the embedder ends
            moments.append(measured("after the sample topic", launcher))
            numbers = numbers_during(asked.minutes * 60, launcher)
            moments.append(measured(f"after {asked.minutes:g} min of rest", launcher))
        with started(folder, asked.embeddings) as (launcher, seconds, environment):
            print(f"Later start: {seconds:.1f} s\n")
    print(
        "| moment | PSS, MB | Python processes | of Postgres and Valkey | MB of each (processes) |"
    )
    print("|---|---|---|---|---|")
    print(*(moment.line() for moment in moments), sep="\n")
    shares = (f"{n} for {share / numbers.total():.0%}" for n, share in numbers.most_common())
    print(f"\nProcesses during the rest: {', '.join(shares)} of the time")
    spent = moments[2].seconds - moments[1].seconds
    print(f"Processor at rest: {spent / (asked.minutes * 60):.2%} of a core")


if __name__ == "__main__":
    sys.exit(main())
