"""All benchmarks as one command, and one report: `make bench` or `python -m benchmarks`.

    make bench                                  three quarters of an hour
    make bench ARGS="--quick"                   each part small: some minutes
    make bench ARGS="--million"                 recall and growth up to a million notes: an hour more
    make bench ARGS="--only recall --only growth"
    make bench ARGS="--report bench/today.md"   where the report is written (bench/report.md)

Each part is a module that runs in a separate process.  Its output is shown live and goes into the
report, together with the machine's load.  Peers are installed once, into separate environments.  If a
part fails, the others still run, and the failure is listed at the end.  If a peer can't be installed,
the error is printed.  To add a part, write a module with a `main()` that prints Markdown and returns 0,
and add a line to PARTS.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TextIO

from benchmarks import stack

ROOT = Path(__file__).resolve().parent.parent
NAMED = ("django", "psycopg", "celery", "httpx", "onnxruntime", "numpy", "bm25s", "tantivy")


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark: its module, what it is started with, and the packages that it asks beside."""

    name: str
    title: str
    quick: tuple[str, ...] = ()
    million: tuple[str, ...] = ()
    module: str = ""
    beside: tuple[str, ...] = ()

    def command(self, asked: argparse.Namespace) -> list[str]:
        """Return the process to start: as `--quick` or `--million` have it, else without options."""
        options = self.quick if asked.quick else self.million if asked.million else ()
        return [sys.executable, "-m", f"benchmarks.{self.module or self.name}", *options]

    def path(self) -> str:
        """Return the PYTHONPATH under which the packages are found.  Raises CalledProcessError."""
        if not self.beside:
            return ""
        programs = stack.environment_of("engines", self.beside)
        return str(next(programs.parent.glob("lib/python*/site-packages")))


ENGINES = ("bm25s", "PyStemmer", "tantivy")
PARTS = (
    Part(
        "recall",
        "Recall: how fast, beside others",
        quick=("--sizes", "3000"),
        million=("--large",),
        beside=ENGINES,
    ),
    Part("recall_peer", "Recall: beside basic-memory", ("--size", "300", "--questions", "5")),
    Part("recall_quality", "Recall: how good", ("--without-vectors",), beside=ENGINES),
    Part(
        "growth",
        "Growth: how each figure rises with what is stored",
        quick=("--quick",),
        million=("--sizes", "10000,100000,1000000"),
    ),
    Part("list_page", "Pages: lists of notes", ("--sizes", "3000")),
    Part("topic_page", "Pages: a topic with 200 runs and 500 sources"),
    Part("many_topics", "Pages: Home, Topics and Reports with 500 topics"),
    Part("names", "Pages: names, and related memories", ("--size", "3000")),
    Part("api", "The API", ("--size", "3000", "--seconds", "10")),
    Part("hook", "The hook for a prompt", ("--size", "3000", "--calls", "40")),
    Part("load", "Pages and API under load", ("--quick",)),
    Part("files", "Memory files"),
    Part("run_overhead", "Runs: what they cost beyond what they wait for", ("--runs", "2")),
    Part("side_by_side", "Runs: beside gpt-researcher", module="peers.side_by_side"),
    Part("hosts", "Runs: workers on one host and on two", ("--runs", "4")),
    Part("tokens", "The content store: tokens sent"),
    Part("delta", "Deltas: what a run tells as new", ("--no-vectors",)),
    Part("footprint", "Footprint: memory, processes and disk at rest", ("--minutes", "1")),
    Part("hot_queries", "The dearest queries, and their plans", ("--size", "3000")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for, write the report; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, some minutes")
    size.add_argument("--million", action="store_true", help="up to a million notes, an hour more")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS])
    parser.add_argument("--report", type=Path, default=ROOT / "bench" / "report.md")
    asked = parser.parse_args(arguments)
    chosen = [part for part in PARTS if not asked.only or part.name in asked.only]
    asked.report.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    with asked.report.open("w", encoding="utf-8") as report:
        _both(report, _head("small sizes" if asked.quick else "in full"))
        for part in chosen:
            if code := _run(part, asked, report):
                failed.append(f"{part.name} (exit code {code})")
        _both(report, f"\n**Failed:** {', '.join(failed)}\n" if failed else "\nNo part failed.\n")
    print(f"The report is {asked.report}.")
    return int(bool(failed))


def _run(part: Part, asked: argparse.Namespace, report: TextIO) -> int:
    """Start a part, pass its lines on; return its exit code."""
    command = part.command(asked)
    told = " ".join(["python", *command[1:]])
    _both(report, f"\n## {part.title}\n\n`{told}`, {_moment()}, load {_load()}.\n\n")
    environment = dict(os.environ)
    try:
        if path := part.path():
            environment["PYTHONPATH"] = path
    except subprocess.CalledProcessError as exc:
        _both(report, f"{', '.join(part.beside)} could not be installed: {exc}\n\n")
    began = time.perf_counter()
    with subprocess.Popen(  # our own modules
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            _both(report, line)
    _both(report, f"\n({time.perf_counter() - began:.0f} s, load {_load()} at the end)\n")
    return running.returncode


def _head(size: str) -> str:
    """Return what the figures depend on: the machine, the versions, the time."""
    known = [f"{name} {version}" for name in NAMED if (version := _version(name))]
    return (
        f"# Benchmarks, {_moment()} ({size})\n\n"
        f"Machine: {os.cpu_count()} cores, {_processor()}, {_memory_gb():.0f} GB, "
        f"{platform.system()} {platform.release()}; Python {platform.python_version()}; "
        f"{', '.join(known)}; commit {_commit()}.\n\n"
        "Milliseconds differ from day to day and machine to machine: compare the ratios, which "
        "are of one run.\n"
    )


def _both(report: TextIO, text: str) -> None:
    print(text, end="", flush=True)
    report.write(text)
    report.flush()


def _moment() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d, %H:%M UTC")


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
