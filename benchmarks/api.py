"""How fast the REST interface answers: recall at a steady rate, and remembering.

    .venv/bin/python -m benchmarks.api [--size 100000] [--rate 20] [--seconds 60] [--writes 200]

It creates one owner's space of memories (as benchmarks/recall.py does) in its own embedded Postgres
with Beacon's default settings, starts web and worker as `make up` does, and sends HTTP requests with
a bearer token.  Recall requests are sent at fixed times, whether or not earlier ones have been
answered, and each is timed from its planned start; questions have 1 to 8 words.  `cpu` is the CPU
time of a request in the web processes and Postgres connections (Linux).  On a busy machine it says
more than wall time.  Both kinds are measured twice: with an idle worker, and with one that executes
runs of the sample topic one after another.

Goal at 100,000 memories and 20 requests per second on two cores: recall's p95 under 100 ms, saving
under 50 ms (p50), both with a busy worker.  Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import stack  # noqa: E402  the script's own folder first

MAX_RECALL, MAX_REMEMBER = 100.0, 50.0  # ms
WORDS = (1, 2, 3, 4, 5, 6, 7, 8)
WARM = 40  # requests before the clock runs
THREADS = 32
COLUMNS = ("p50 ms", "p95 ms", "p99 ms", "cpu ms", "failed")


def main() -> int:
    """Start what is needed, measure, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000, help="memories")
    parser.add_argument("--rate", type=float, default=20.0, help="recalls a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--writes", type=int, default=200, help="of each kind")
    parser.add_argument("--texts", type=Path, help="a folder of texts instead of Python's own")
    asked = parser.parse_args()
    from beacon_site import embedded

    with tempfile.TemporaryDirectory(prefix="beacon-bench-") as folder:
        port = stack.free_port()
        stack.configure_alone(Path(folder), port)
        servers = embedded.ensure(Path(folder))
        os.environ |= servers.urls
        try:
            return _measured(asked, Path(folder), port)
        finally:
            servers.close()


def _measured(asked: argparse.Namespace, folder: Path, port: int) -> int:
    import django

    django.setup()
    import structlog
    from django.core.management import call_command

    structlog.configure(processors=[structlog.testing.LogCapture()])
    call_command("migrate", verbosity=0)
    texts, owner, token = _made(asked.size, asked.texts)
    base = f"http://127.0.0.1:{port}"
    print(f"{asked.size:,} memories, {asked.rate:g} recalls a second for {asked.seconds:g} s")
    print(f"{'':44}" + "".join(f"{name:>9}" for name in COLUMNS))
    with stack.beacon(folder, port) as launcher, _client(base, token) as client:
        spent = Spent(launcher)
        rows = [_rows(client, texts, asked, spent, "worker idle")]
        with _runs_one_after_another(owner) as carried_out:
            rows.append(_rows(client, texts, asked, spent, "worker busy with runs"))
        print(f"{len(carried_out)} sample runs were carried out meanwhile")
    recall, remember = rows[-1]
    return int(recall > MAX_RECALL or remember > MAX_REMEMBER)


# --- what is there --------------------------------------------------------------------------------


def _made(size: int, folder: Path | None) -> tuple[list[str], Any, str]:
    """Return the texts, their owner, and one of the owner's tokens."""
    from benchmarks.memories import memories, pool_of
    from benchmarks.recall import _analysed, _notes
    from memory.accounts.tokens import issue
    from memory.models import Note, User, search_index

    owner = User.objects.create_user("bench", password="bench-horse-1")  # noqa: S106
    texts = memories(pool_of(folder), size)
    notes = _notes(owner, texts)
    for start in range(0, len(notes), 1000):
        some = notes[start : start + 1000]
        Note.objects.bulk_create(some)
        search_index.index(some)
    _analysed()
    _token, text = issue(owner, name="bench", scopes=["read", "write"], by=owner.actor)
    return texts, owner, text


@contextmanager
def _client(base: str, token: str) -> Iterator[Any]:
    import httpx

    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=THREADS, max_keepalive_connections=THREADS)
    with httpx.Client(
        base_url=f"{base}/api/v1", headers=headers, limits=limits, timeout=30, trust_env=False
    ) as client:
        yield client


@contextmanager
def _runs_one_after_another(owner: Any) -> Iterator[list[int]]:
    """Keep the worker busy with runs of sample topics; yield the ids of those that ended."""
    ended: list[int] = []
    over = threading.Event()

    def keep_going() -> None:
        from django.db import connection

        from research.models import Run
        from research.services.runs.execution import starting

        number = 0
        while not over.is_set():
            number += 1
            topic = starting.create_sample_topic(owner, by=owner.actor, title=f"Sample {number}")
            run = starting.start_run(topic, trigger=Run.Trigger.COMMAND, by=owner.actor)
            while not over.is_set() and run.is_unfinished:
                time.sleep(0.1)
                run.refresh_from_db(fields=["status"])
            if not run.is_unfinished:
                ended.append(run.pk)
        connection.close()

    thread = threading.Thread(target=keep_going)
    thread.start()
    try:
        yield ended
    finally:
        over.set()
        thread.join()


# --- what is measured -----------------------------------------------------------------------------


class Spent:
    """Counts the CPU milliseconds of the web processes and Postgres connections."""

    def __init__(self, launcher: psutil.Process) -> None:
        self.launcher = launcher

    def now(self) -> float:
        """Return the milliseconds spent so far; 0 where the system does not tell."""
        return sum(self.parts())

    def parts(self) -> tuple[float, float]:
        """Return the milliseconds of the web processes and of Postgres."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
            backends = [row[0] for row in cursor.fetchall()]
        return _milliseconds(self._web()), _milliseconds(backends)

    def _web(self) -> list[int]:
        """Return the ids of all threads of the web processes."""
        web = stack.processes_of(self.launcher, "web")
        return [int(one.name) for p in web for one in Path(f"/proc/{p.pid}/task").iterdir()]


def _milliseconds(tasks: Sequence[int]) -> float:
    files = [Path(f"/proc/{task}/schedstat") for task in tasks]
    return sum(int(file.read_text().split()[0]) for file in files if file.exists()) / 1e6


def _rows(
    client: Any, texts: list[str], asked: argparse.Namespace, spent: Spent, beside: str
) -> tuple[float, float]:
    """Print the rows of one measurement; return recall's p95 and remembering's slower p50."""
    from benchmarks.memories import questions

    count = int(asked.rate * asked.seconds)
    of_each = -(-(count + WARM) // len(WORDS))
    by_length = [questions(texts, words, of_each) for words in WORDS]
    mixed = [question for some in zip(*by_length, strict=True) for question in some]

    def recall(question: str) -> int:
        given = {"q": question, "mode": "lexical", "limit": 10}
        return int(client.get("/recall", params=given).status_code)

    for question in mixed[:WARM]:
        recall(question)
    before = spent.now()
    taken, failed = _at_a_rate(recall, mixed[WARM : WARM + count], asked.rate)
    p95 = _row(f"GET /recall, {beside}", taken, (spent.now() - before) / count, failed)
    slowest = 0.0
    for path, body in _writes().items():
        before = spent.now()
        took, bad = _one_by_one(client, path, body, asked.writes)
        _row(f"POST {path}, {beside}", took, (spent.now() - before) / asked.writes, bad)
        slowest = max(slowest, statistics.median(took))
    return p95, slowest


def _writes() -> dict[str, Callable[[str], dict[str, Any]]]:
    """Return what is remembered, by address: `content` makes each another."""
    return {
        "/notes": lambda content: {"kind": "log", "content": content},
        "/observations": lambda content: {
            "content": content,
            "category": "finding",
            "source": "benchmark",
        },
    }


def _at_a_rate(
    act: Callable[[str], int], questions: Sequence[str], rate: float
) -> tuple[list[float], int]:
    """Ask each question at its time; return the milliseconds after that time, and how many failed."""
    began = time.perf_counter() + 0.1

    def ask(number: int) -> tuple[float, int]:
        due = began + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        status = act(questions[number])
        return (time.perf_counter() - due) * 1000, status

    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(ask, range(len(questions))))
    return [taken for taken, _status in answers], sum(status != 200 for _taken, status in answers)


def _one_by_one(
    client: Any, path: str, body: Callable[[str], dict[str, Any]], count: int
) -> tuple[list[float], int]:
    taken, failed = [], 0
    for number in range(count):
        words = f"Remembered by the benchmark, number {number} at {time.time_ns()}, as it is said."
        began = time.perf_counter()
        status = client.post(path, json=body(words)).status_code
        taken.append((time.perf_counter() - began) * 1000)
        failed += status not in (200, 201)
    return taken, failed


def _row(label: str, taken: Sequence[float], cpu: float, failed: int) -> float:
    """Print one row and return its p95."""
    cuts = statistics.quantiles(taken, n=100)
    cells = (statistics.median(taken), cuts[94], cuts[98], cpu)
    print(f"{label:44}" + "".join(f"{one:9.1f}" for one in cells) + f"{failed:9}", flush=True)
    return cuts[94]


if __name__ == "__main__":
    sys.exit(main())
