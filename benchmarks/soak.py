"""Thousands of runs: memory and connections must not grow, and nothing must be stuck or lost.

    .venv/bin/python -m benchmarks.soak [--runs 2000] [--topics 500] [--under-way 8]

It starts web, both workers, beat and MCP as `make up` does, on their own embedded Postgres and
Valkey, with a loopback model, search service and web site (benchmarks/loopback.py) that answer
at once, and keeps `--under-way` short runs queued or running until `--runs` have ended, over
`--topics` topics in turn.  At the same time two programs edit one note over REST by its version, a person
looks at pages, and every few seconds each process is weighed.

A row is printed after every tenth of the runs.  At the end: runs by their state, numbers with
gaps, runs stuck (running without a lease, or queued for a minute with nothing under way), updates
of the note that were accepted and are not in its history, answers of 5xx, and of each kind of
process the resident memory after the first tenth against the last one.  Ends with exit code 1 if
any of these is not 0 or a kind grew by more than 10 %.  2,000 runs take half an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.soak_book import Book, heading, row, told  # noqa: E402
from benchmarks.stack import beacon, configure, free_port, loopback  # noqa: E402

WEIGH_EVERY = 2.0  # s
EDIT_EVERY = 0.5  # s, of each of the two programs
LOOK_EVERY = 1.0  # s
PAGES = ("/", "/topics/", "/reports/", "/notes/", "/observations/", "/activity/")


def main() -> int:
    """Start everything, soak it, print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--under-way", type=int, default=8, help="runs queued or running at once")
    asked = parser.parse_args()
    from beacon_site import embedded

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beacon-soak-")))
        origin = stack.enter_context(loopback(0.01))
        port = free_port()
        configure(folder, origin, port)
        servers = embedded.ensure(folder)
        stack.callback(servers.close)
        os.environ |= servers.urls
        return _soaked(asked, folder, port)


def _soaked(asked: argparse.Namespace, folder: Path, port: int) -> int:
    import django

    django.setup()
    import structlog
    from django.core.management import call_command

    structlog.configure(processors=[structlog.testing.LogCapture()])
    call_command("migrate", verbosity=0)
    topics, owner, token = _made(asked.topics)
    book = Book()
    with beacon(folder, port) as running:
        base = f"http://127.0.0.1:{port}"
        with (
            _beside(book, lambda: _weigh(book, running), WEIGH_EVERY),
            _beside(book, _editor(book, base, token, "one"), EDIT_EVERY),
            _beside(book, _editor(book, base, token, "two"), EDIT_EVERY),
            _beside(book, _visitor(book, base), LOOK_EVERY),
        ):
            _perform(asked, topics, owner, book)
        gone = [name for name, process in running.items() if process.poll() is not None]
    return told(owner, book, gone)


# --- what is there --------------------------------------------------------------------------------


def _made(count_: int) -> tuple[list[Any], Any, str]:
    """Return the topics, their owner, and one of the owner's tokens."""
    from memory.accounts.tokens import issue
    from memory.models import User
    from research.services.runs.execution import starting

    owner = User.objects.create_user("soak", password="soak-horse-1")  # noqa: S106
    topics = [
        starting.create_topic(
            owner=owner, title=f"Plants of district {n}", by=owner.actor,
            settings={"max_pages": 4},
        )
        for n in range(count_)
    ]  # fmt: skip
    _token, text = issue(owner, name="soak", scopes=["read", "write"], by=owner.actor)
    return topics, owner, text


@contextmanager
def _beside(book: Book, act: Callable[[], None], every: float) -> Iterator[None]:
    """Do something every so many seconds; what it raises is counted, and it continues."""
    over = threading.Event()

    def keep_going() -> None:
        from django.db import connection

        while not over.wait(every):
            try:
                act()
            except Exception as exc:  # noqa: BLE001 -- whatever it is, the table tells it
                book.wrong[f"{type(exc).__name__}: {str(exc)[:100]}"] += 1
        connection.close()

    thread = threading.Thread(target=keep_going)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# --- what happens ---------------------------------------------------------------------------------


def _perform(asked: argparse.Namespace, topics: list[Any], owner: Any, book: Book) -> None:
    """Keep runs under way until as many as asked have ended, printing a row at every tenth."""
    from research.models import Run
    from research.services.runs.execution import starting

    open_ = ("queued", "running")
    started = 0
    began = time.monotonic()
    heading()
    while True:
        mine = Run.objects.filter(topic__owner=owner)
        under_way = mine.filter(status__in=open_).count()
        ended = mine.count() - under_way
        if ended * 10 // asked.runs > book.tenth:
            row(ended, time.monotonic() - began, book)
            book.tenth = ended * 10 // asked.runs
        if ended >= asked.runs:
            return
        for _free in range(min(asked.under_way - under_way, asked.runs - started)):
            topic = topics[started % len(topics)]
            if mine.filter(topic=topic, status__in=open_).exists():
                break
            starting.start_run(topic, trigger=Run.Trigger.COMMAND, by=owner.actor)
            started += 1
        if mine.filter(status="running", lease_until__lt=_minutes_ago(2)).exists():
            raise SystemExit("a run is stuck: it runs, and its lease is over for two minutes")
        time.sleep(0.3)


def _minutes_ago(minutes: int) -> Any:
    from datetime import timedelta

    from django.utils import timezone

    return timezone.now() - timedelta(minutes=minutes)


def _weigh(book: Book, running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Note what each kind of process weighs now, in MB: the heaviest of its kind.

    Postgres' processes share most of what they hold, so they are counted together by their
    proportional share.
    """
    from django.db import connection

    seen = book.weights[book.tenth]
    for name, process in running.items():
        parent = psutil.Process(process.pid)
        children = parent.children(recursive=True)
        seen[name].append(parent.memory_info().rss / 1e6)
        weights = [_rss(child) for child in children]
        if weights:
            seen[f"{name}'s children"].append(max(weights))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        backends = [row[0] for row in cursor.fetchall()]
        seen["connections"].append(len(backends))
        cursor.execute("SELECT pg_backend_pid()")
        server = psutil.Process(cursor.fetchone()[0]).parent()
    assert server is not None
    seen["Postgres"].append(sum(map(_pss, [server, *server.children(recursive=True)])))


def _rss(process: psutil.Process) -> float:
    """Return what it holds; 0 if it has ended since it was listed, as a worker's child does."""
    try:
        return process.memory_info().rss / 1e6
    except psutil.NoSuchProcess:
        return 0.0


def _pss(process: psutil.Process) -> float:
    try:
        full = process.memory_full_info()
    except psutil.Error:
        return 0.0
    return float(getattr(full, "pss", full.rss)) / 1e6


def _editor(book: Book, base: str, token: str, name: str) -> Callable[[], None]:
    """Return an act: change the shared note by the version that was just read."""
    import httpx

    client = httpx.Client(
        base_url=f"{base}/api/v1", timeout=30, trust_env=False,
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip
    turns = count()

    def edit() -> None:
        if not book.note:
            made = client.post("/notes", json={"kind": "log", "content": "The count begins."})
            book.note = book.note or made.raise_for_status().json()["id"]
        read = client.get(f"/notes/{book.note}").raise_for_status()
        mark = f"{name} {next(turns)}"
        answer = client.patch(
            f"/notes/{book.note}",
            json={"content": f"The count stands at {mark}."},
            headers={"If-Match": read.headers["ETag"]},
        )
        if answer.status_code == httpx.codes.PRECONDITION_FAILED:
            book.refused += 1
        else:
            answer.raise_for_status()
            book.accepted.append((int(answer.headers["ETag"].strip('W/"')), mark))

    return edit


def _visitor(book: Book, base: str) -> Callable[[], None]:
    """Return an act: sign in once, then look at the pages in turn."""
    import httpx

    client = httpx.Client(base_url=base, timeout=60, trust_env=False, follow_redirects=True)
    turns = count()

    def look() -> None:
        number = next(turns)
        if not number:
            client.get("/sign-in/").raise_for_status()
            given = {"username": "soak", "password": "soak-horse-1"}
            given["csrfmiddlewaretoken"] = client.cookies["csrftoken"]
            headers = {"Referer": f"{base}/sign-in/"}
            client.post("/sign-in/", data=given, headers=headers).raise_for_status()
        answer = client.get(PAGES[number % len(PAGES)])
        if answer.status_code != httpx.codes.OK or "/sign-in/" in str(answer.url):
            book.wrong[f"{answer.url.path}: HTTP {answer.status_code}"] += 1

    return look


if __name__ == "__main__":
    sys.exit(main())
