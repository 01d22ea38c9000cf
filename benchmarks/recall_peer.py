"""Recall beside the search of basic-memory, a memory that people use with agents: 2,000 notes.

    .venv/bin/python -m benchmarks.recall_peer [--size 2000] [--python python3.12]

Both get the same notes and the same questions, 40 of each length from one to eight words, and are
asked in a warm process: Beacon by `recall()`, basic-memory by its MCP tool in the same process
(`benchmarks/peers/basic_memory_search.py`).  Both answer with whole notes.  Its vectors are off, as
Beacon's are: only words are compared.  It is installed from its package into an environment of its
own (some minutes, the first time; it needs Python 3.12); where that fails, the table has only Beacon's line
and the error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import recall, stack
from benchmarks.memories import memories, pool_of, questions
from benchmarks.throwaway import database

PEER = Path(__file__).parent / "peers" / "basic_memory_search.py"
PACKAGES = ("basic-memory<0.23", "certifi<2026.10.19")
MORE = 50  # notes written one after another


def main() -> int:
    """Print the table; return 0, or 1 if the peer failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--questions", type=int, default=40, help="of each length")
    parser.add_argument("--python", default="", help="for the peer's environment")
    asked = parser.parse_args()
    texts = memories(pool_of(None), asked.size)
    with database(durable=True):
        recall.QUESTIONS = asked.questions
        ours = recall.ours(texts)[0]
    theirs = _theirs(asked.python, texts, asked.questions)
    print(
        f"| {asked.size:,} notes | import, s | disk MB | memory MB | p50 / p95 ms | one more note, ms |"
    )
    print("|---|---|---|---|---|---|")
    print(_line("Beacon lexical", ours.build, ours.disk, ours.memory, ours.all_wall, ours.alone))
    if "error" in theirs:
        print(f"\nbasic-memory: {theirs['error']}")
        return 1
    wrote = statistics.median(theirs["wrote"])
    figures = (theirs["build"], theirs["disk"], theirs["memory"], theirs["took"], wrote)
    print(_line("basic-memory", *figures))
    ratio = statistics.median(theirs["took"]) / statistics.median(ours.all_wall)
    print(
        f"\nBeacon answers {ratio:.1f} times as fast at the median; basic-memory found something "
    )
    print(f"for {theirs['found']} of {len(theirs['took'])} questions.")
    return 0


def _theirs(python: str, texts: list[str], count: int) -> dict[str, Any]:
    """Return the figures of basic-memory in an environment of its own, or why there are none."""
    python = python or stack.python_312()
    try:
        programs = stack.environment_of("basic-memory", PACKAGES, python)
    except (OSError, subprocess.CalledProcessError) as exc:
        return {"error": f"could not be installed with {python}: {exc}"}
    return _asked(str(programs / "python"), texts, count)


def _asked(peer: str, texts: list[str], count: int) -> dict[str, Any]:
    """Return the figures of basic-memory, or what it said where it failed."""
    told = {
        "texts": texts,
        "questions": [one for words in recall.LENGTHS for one in questions(texts, words, count)],
        "more": [text[::-1] for text in texts[:MORE]],
    }
    done = subprocess.run(
        [peer, PEER], input=json.dumps(told), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return {"error": done.stderr[-2_000:]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _line(name: str, *figures: Any) -> str:
    build, disk, memory, took, alone = figures
    spread = f"{statistics.median(took):.1f} / {statistics.quantiles(took, n=20)[-1]:.1f}"
    return f"| {name} | {build:.1f} | {disk:.1f} | {memory:.0f} | {spread} | {alone:.1f} |"


if __name__ == "__main__":
    sys.exit(main())
