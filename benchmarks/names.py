"""How fast related memories and everything about a name are with 100,000 notes.

    .venv/bin/python -m benchmarks.names [--size 100000] [--vectors]

It writes the notes into a throw-away database (DATABASE_URL's server if set, else an embedded one in
a temporary folder), with up to three of 3,000 names in each, as often as names are (Zipf). It opens
each page 20 times through all middleware, and ends with exit code 1 if the 95th percentile of a page
is above 300 ms.  The CPU time is that of Python and of the connection's Postgres process, which says
more on a busy machine.  `--vectors` gives each note a vector, as in `benchmarks.hook`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.hook import give_vectors
from benchmarks.memories import memories, pool_of
from benchmarks.throwaway import database

ROUNDS, MAX_MS, BATCH = 20, 300.0, 1_000
NAMES = 3_000
EMBEDDED = 400  # texts, two of whose vectors are mixed for each note


def main() -> int:
    """Make the data, ask the pages, print the table; return the exit code."""
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=100_000)
    options.add_argument("--vectors", action="store_true", help="compare by meaning as well")
    asked = options.parse_args()
    with database(embeddings="local" if asked.vectors else ""):
        return _measure(asked.size, with_vectors=asked.vectors)


def _texts(size: int) -> tuple[list[str], list[str]]:
    """Return the notes' texts, and the names in them, the most frequent first."""
    chance = random.Random(7)
    parts = ["ka", "lo", "mi", "ren", "tus", "vel", "dor", "ani", "eth", "bor", "sul", "qui"]
    names = sorted({"".join(chance.choices(parts, k=3)).capitalize() for _n in range(NAMES * 3)})
    chance.shuffle(names)
    names = [
        f"{one} {other}" if n % 3 == 0 else one for n, (one, other) in enumerate(pairwise(names))
    ][:NAMES]
    weights = [1 / (n + 1) for n in range(len(names))]
    texts = []
    for text in memories(pool_of(None), size):
        some = chance.choices(names, weights, k=chance.randint(0, 3))
        texts.append(" ".join([text, *(f"and we asked {name} about it" for name in some)]))
    return texts, names


def _measure(size: int, *, with_vectors: bool) -> int:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client
    from django.urls import reverse

    from memory.models import Note, search_index

    owner = get_user_model().objects.create_user("bench")
    texts, names = _texts(size)
    started = time.perf_counter()
    for start in range(0, size, BATCH):
        notes = [Note(owner=owner, content=text) for text in texts[start : start + BATCH]]
        Note.objects.bulk_create(notes)
        search_index.index(notes)
    print(f"{size:,} notes written and indexed in {time.perf_counter() - started:.0f} s")
    if with_vectors:
        give_vectors(owner, texts[:EMBEDDED])
    with connection.cursor() as cursor:
        for table in ("memory_note", "memory_searchentry", "memory_searchterm"):
            cursor.execute(f"VACUUM ANALYZE {table}")
        cursor.execute("SELECT pg_backend_pid()")
        backend = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")
    client = Client()
    client.force_login(owner)
    some = random.Random(3).sample(list(Note.objects.values_list("pk", flat=True)), ROUNDS + 1)
    about = reverse("memory:about")
    pages: dict[str, Any] = {
        "list of names": lambda n: reverse("memory:names"),
        "the most frequent name": lambda n: f"{about}?name={names[1]}",
        "the 30th": lambda n: f"{about}?name={names[30]}",
        "the 1,000th": lambda n: f"{about}?name={names[1_000]}",
        "a note, with related ones": lambda n: reverse("memory:note", args=[some[n]]),
        "related memories": lambda n: reverse("memory:related", args=["note", some[n]]),
    }

    def worked() -> float:
        """Return the seconds of CPU time until now."""
        nanoseconds = int(backend.read_text().split()[0]) if backend.exists() else 0
        return time.process_time() + nanoseconds / 1e9

    print(
        "| page | median ms | p95 ms | CPU, median ms | p95 ms |\n| --- | --- | --- | --- | --- |"
    )
    slowest = 0.0
    for label, url in pages.items():
        client.get(url(ROUNDS))
        taken, cpu = [], []
        for n in range(ROUNDS):
            started, before = time.perf_counter(), worked()
            answer = client.get(url(n))
            taken.append((time.perf_counter() - started) * 1000)
            cpu.append((worked() - before) * 1000)
            assert answer.status_code == 200, (label, answer.status_code)
        slowest = max(slowest, statistics.quantiles(taken, n=20)[-1])
        figures = [
            f"{one:.0f}"
            for some in (taken, cpu)
            for one in (statistics.median(some), statistics.quantiles(some, n=20)[-1])
        ]
        print(f"| {label} | {' | '.join(figures)} |", flush=True)
    return int(slowest > MAX_MS and size >= 100_000)


if __name__ == "__main__":
    sys.exit(main())
