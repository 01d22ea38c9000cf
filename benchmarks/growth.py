"""How figures grow with what is stored: recall, a list page, a write and a run's save at three sizes.

    .venv/bin/python -m benchmarks.growth [--quick] [--sizes 10000,100000,1000000]

One owner's notes, their words as frequent as a language's (see `list_page.py`), in a throw-away
database.  At each size, medians: recall of one to six words, drawn as the notes' own are; the list
of notes; one more note, committed; the whole and the save of a run over the bundled articles.  The
exponent is the slope of a figure over the size, both as logarithms: 0 is flat, 1 grows as the rows
do.  It is taken of the processor's time where that is known (Linux, this process and its process of
Postgres), since that is what load changes least.  Ends with 1 where one is above what is to be
reached.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import list_page
from benchmarks.throwaway import database

REACH = {
    "recall, lexical": 0.6,
    "recall, exact": 0.6,
    "list page": 0.1,
    "list page, a word": 0.6,
    "write of a note": 0.1,
    "a run's save": 0.1,
}
ASKED, WRITTEN, RUNS, ROUNDS = 60, 60, 5, 20
QUICK, FULL = (1_000, 4_000, 16_000), (3_000, 10_000, 100_000)


def main() -> int:
    """Measure at each size, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="up to 16,000 notes")
    parser.add_argument("--sizes", default=",".join(map(str, FULL)))
    asked = parser.parse_args()
    sizes = QUICK if asked.quick else [int(size) for size in asked.sizes.split(",")]
    with database():
        found = _measured(sizes)
    return _told(sizes, found)


def _measured(sizes: Sequence[int]) -> dict[str, list[tuple[float, float]]]:
    """Return wall and processor milliseconds of each figure, a pair for each size."""
    from django.test import Client

    owner, topics = list_page.owner_with_topics()
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in REACH}
    made = 0
    for size in sizes:
        list_page.grow(owner, topics, made + 1, size)
        made = size
        for name, act in _acts(owner, client, size).items():
            found[name].append(act())
            print(f"{size:,}: {name} {found[name][-1][0]:.1f} ms", file=sys.stderr, flush=True)
    return found


def _acts(owner: Any, client: Any, size: int) -> dict[str, Callable[[], tuple[float, float]]]:
    from memory.services.search.recall import recall

    asked = _questions()
    return {
        "recall, lexical": lambda: _median(
            [lambda q=q: recall(owner, q, "lexical") for q in asked]
        ),  # type: ignore[misc]
        "recall, exact": lambda: _median([lambda q=q: recall(owner, q, "exact") for q in asked]),  # type: ignore[misc]
        "list page": lambda: _median([lambda: client.get("/notes/")] * ROUNDS),
        "list page, a word": lambda: _median([lambda: client.get("/notes/?q=w10")] * ROUNDS),
        "write of a note": lambda: _median(_writes(owner)),
        "a run's save": lambda: _saves(owner, size),
    }


def _questions() -> list[str]:
    """Return questions of one to six words, as frequent as in the notes."""
    chance = random.Random(4)

    def word() -> str:
        return f"w{int(math.exp(chance.random() * math.log(20_000)))}"

    return [" ".join(word() for _ in range(1 + n % 6)) for n in range(ASKED)]


def _median(acts: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """Carry the acts out after a first one; return the medians of the clock and the processor."""
    from benchmarks.processor import Meter

    acts[0]()
    meter, wall, spent = Meter(), [], []
    for act in acts:
        before, began = meter.now(), time.perf_counter()
        act()
        wall.append((time.perf_counter() - began) * 1000)
        spent.append(meter.now() - before)
    return statistics.median(wall), statistics.median(spent)


def _writes(owner: Any) -> list[Callable[[], object]]:
    from django.db import transaction

    from memory.models import Note

    def store(text: str) -> None:
        with transaction.atomic():
            notes = [Note(owner=owner, content=text)]
            Note.objects.bulk_create(notes)
            Note.follow(notes)

    asked = _questions() * 4
    texts = [" ".join(asked[n : n + 8]) for n in range(WRITTEN)]
    return [lambda text=text: store(text) for text in texts]  # type: ignore[misc]


def _saves(owner: Any, size: int) -> tuple[float, float]:
    """Run the sample topic; return how long each save took."""
    from research.models import Run
    from research.services.runs.execution import pipeline, starting

    topic = starting.create_sample_topic(owner, by=owner.actor, title=f"Cells {size}")
    took = []
    for _number in range(RUNS):
        run = Run.objects.start(topic, trigger="command", by=owner.actor)
        pipeline.execute(run.pk, worker="benchmark")
        run.refresh_from_db()
        assert run.status == "succeeded", (run.status, run.error, run.warnings)
        took.append(float(run.steps.get(name="save").milliseconds or 0))
    return statistics.median(took), statistics.median(took)


def exponent(sizes: Sequence[int], figures: Sequence[float]) -> float:
    """Return the slope of the figures over the sizes, both as logarithms: the least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(one, 1e-3)) for one in figures]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - mean_x) ** 2 for x in xs)


def _told(sizes: Sequence[int], found: dict[str, list[tuple[float, float]]]) -> int:
    print("| figure | " + " | ".join(f"{n:,}: ms (cpu)" for n in sizes) + " | exponent | reach |")
    print("|---|" + "---|" * (len(sizes) + 2))
    is_above = False
    for name, figures in found.items():
        slope = exponent(sizes, [cpu for _wall, cpu in figures])
        is_above |= slope > REACH[name]
        cells = " | ".join(f"{wall:.1f} ({cpu:.1f})" for wall, cpu in figures)
        print(f"| {name} | {cells} | {slope:+.2f} | {REACH[name]} |")
    print("\nabove what is to be reached" if is_above else "\nall within what is to be reached")
    return int(is_above)


if __name__ == "__main__":
    sys.exit(main())
