"""All benchmarks as one command, and one report: `make bench` or `python -m benchmarks`.

    make bench ARGS="--quick"                   each part small: some minutes
    make bench ARGS="--only recall --only growth"
    make bench ARGS="--report bench/today.md"   where the report is written (bench/report.md)

Each part is a module of its own, started as a process of its own, whose lines are shown as they
come and stand in the report, each under the load of the machine at that moment.  A part that fails
does not keep the others from running; it is named at the end, and so are parts whose peers are not
installed here (what they print says so).  To be a part, be a module with a `main()` that prints
Markdown and ends with 0, and add a line to PARTS.
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

ROOT = Path(__file__).resolve().parent.parent
NAMED = ("django", "psycopg", "celery", "httpx", "onnxruntime", "numpy", "bm25s", "tantivy")


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark: its module and what it is started with, in full and quick."""

    name: str
    title: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    module: str = ""

    def command(self, *, is_quick: bool) -> list[str]:
        """Return the process to start."""
        module = f"benchmarks.{self.module or self.name}"
        return [sys.executable, "-m", module, *(self.quick if is_quick else self.full)]


PARTS = (
    Part("recall", "Recall: how fast, beside others", ("--large",), ("--sizes", "3000")),
    Part("recall_peer", "Recall: beside basic-memory", (), ("--size", "300", "--questions", "5")),
    Part("recall_quality", "Recall: how good", (), ("--without-vectors",)),
    Part("growth", "Growth: how each figure rises with what is stored", (), ("--quick",)),
    Part("list_page", "Pages: lists of notes", (), ("--sizes", "3000")),
    Part("topic_page", "Pages: a topic with 200 runs and 500 sources"),
    Part("many_topics", "Pages: Home, Topics and Reports with 500 topics"),
    Part("api", "The API", (), ("--size", "3000", "--seconds", "10")),
    Part("load", "Pages and API under load", (), ("--quick",)),
    Part("files", "Memory files", (), ()),
    Part("run_overhead", "Runs: what they cost beyond what they wait for", (), ("--runs", "2")),
    Part("side_by_side", "Runs: beside gpt-researcher", module="peers.side_by_side"),
    Part("hosts", "Runs: workers on one host and on two", (), ("--runs", "4")),
    Part("tokens", "The content store: tokens sent"),
    Part("delta", "Deltas: what a run tells as new", (), ("--no-vectors",)),
    Part("hot_queries", "The dearest queries, and their plans", (), ("--size", "3000")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for, write the report; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, some minutes")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS])
    parser.add_argument("--report", type=Path, default=ROOT / "bench" / "report.md")
    asked = parser.parse_args(arguments)
    chosen = [part for part in PARTS if not asked.only or part.name in asked.only]
    asked.report.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    with asked.report.open("w", encoding="utf-8") as report:
        _both(report, _head(is_quick=asked.quick))
        for part in chosen:
            if code := _run(part, report, is_quick=asked.quick):
                failed.append(f"{part.name} (exit code {code})")
        _both(report, f"\n**Failed:** {', '.join(failed)}\n" if failed else "\nNo part failed.\n")
    print(f"The report is {asked.report}.")
    return int(bool(failed))


def _run(part: Part, report: TextIO, *, is_quick: bool) -> int:
    """Start a part, pass its lines on; return its exit code."""
    command = part.command(is_quick=is_quick)
    told = " ".join(["python", *command[1:]])
    _both(report, f"\n## {part.title}\n\n`{told}`, {_moment()}, load {_load()}.\n\n")
    began = time.perf_counter()
    with subprocess.Popen(  # our own modules
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            _both(report, line)
    _both(report, f"\n({time.perf_counter() - began:.0f} s, load {_load()} at the end)\n")
    return running.returncode


def _head(*, is_quick: bool) -> str:
    """Return what the figures depend on: the machine, the versions, the time."""
    size = "quick, small sizes" if is_quick else "in full"
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
