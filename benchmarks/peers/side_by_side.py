"""Beacon and gpt-researcher on the same loopback model, search and pages: a topic run twice.

    python -m benchmarks.peers.side_by_side [--python python3.12]

gpt-researcher is installed from its package into an environment of its own (some minutes, the first
time; Python 3.12 where one is found).  The services answer as in run_overhead.py: plan 800 ms, six
queries of 300 ms, 24 pages of 200 to 900 ms, report 2 s; the second run finds the same pages.  Each
program runs in a fresh process: a topic, the same topic again, another topic.  Printed as it comes:
seconds, beyond the 4.0 s of unavoidable waiting, model calls, tokens, pages fetched, pages quoted in the
report.  A run whose report quotes no page that it fetched is an error: nothing was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import loopback, stack  # noqa: E402  the script's own folder first

PEER = ("gpt-researcher==0.16.1",)
TOPICS = ("Overhead topic", "Overhead topic", "Another topic of overhead")
NAMES = ("first run", "the same topic again", "another topic")
PATH_SECONDS = loopback.PLAN + loopback.QUERY + loopback.SLOWEST + loopback.WRITE


def main() -> int:
    """Measure both, print one table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--python", default="", help="for the peer's environment")
    asked = parser.parse_args()
    print("| | | seconds | over 4.0 s | model calls | tokens | searches | pages fetched | quoted |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    _print("Beacon", _lines([sys.executable, "-m", "benchmarks.peers.beacon_runs"], "serpapi"))
    try:
        python = asked.python or stack.python_312()
        programs = stack.environment_of("gpt-researcher", PEER, python)
    except subprocess.CalledProcessError as exc:
        print(f"gpt-researcher could not be installed with {python}: {exc}")
        return 1
    _print(
        "gpt-researcher 0.16.1",
        _lines(
            [str(programs / "python"), str(ROOT / "benchmarks/peers/gpt_researcher_runs.py")],
            "searxng",
        ),
    )
    return 0


def _lines(command: list[str], service: str) -> list[dict[str, Any]]:
    """Run a program on its own services; return what it printed about each run."""
    with (
        stack.loopback(LOOPBACK_SERVICES=service, LOOPBACK_SAME_PAGES="1") as origin,
        tempfile.TemporaryDirectory(prefix="beacon-peer-") as folder,
    ):
        more = {
            "LOOPBACK_ORIGIN": origin,
            "PYTHONPATH": str(ROOT),
            "ALLOW_PRIVATE_URLS": "true",  # else it skips loopback pages
            "RETRIEVER": "searx",
            "SEARX_URL": origin,
            "OPENAI_API_KEY": "benchmark-key-1234",
            "OPENAI_BASE_URL": f"{origin}/v1",
            **{f"{kind}_LLM": "openai:loopback" for kind in ("FAST", "SMART", "STRATEGIC")},
            "MAX_ITERATIONS": str(loopback.QUERIES),
            "MAX_SEARCH_RESULTS_PER_QUERY": "4",
            "MAX_SCRAPER_WORKERS": str(loopback.PAGES),
            "CONTEXT_FILTER": "keyword",
        }
        done = subprocess.run(
            [*command, *TOPICS], cwd=folder, env={**os.environ, **more},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    found = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("RUN ")]
    if len(found) != len(TOPICS):
        raise SystemExit(
            f"{command} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return found


def _print(program: str, runs: list[dict[str, Any]]) -> None:
    for name, run in zip(NAMES, runs, strict=True):
        if run.get("pages") and not run["quoted"]:
            raise SystemExit(f"{program}, {name}: pages were fetched and none reached the report")
        cells = [
            run.get(one, 0) for one in ("model calls", "tokens", "searches", "pages", "quoted")
        ]
        print(
            f"| {program} | {name} | {run['seconds']:.2f} | {run['seconds'] / PATH_SECONDS:.2f} | "
            + " | ".join(f"{cell:,}" for cell in cells)
            + " |",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
