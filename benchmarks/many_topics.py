"""How fast Home, Topics and Reports are for a person with many unread topics.

    .venv/bin/python benchmarks/many_topics.py

It makes 500 topics of 60 unread reports each, with four delta items per run, in a throw-away database
(DATABASE_URL's server if set, else an embedded one in a temporary folder), tells how long the first
look takes (nothing is counted yet, as after an import), then asks each page 20 times through all
middleware.  Between them the tick counts what is stale: Home is asked before and after.  It ends with
exit code 1 if a page takes more than 12 queries besides session and user or a median of 100 ms, or
Home's first look more than that.
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

TOPICS, RUNS, ITEMS, ROUNDS = 500, 60, 4, 20
MAX_MS, MAX_QUERIES = 100.0, 12
PAGES = ("/", "/topics/", "/topics/?sort=title", "/reports/", "/?counted")


def main() -> int:
    """Make the data, ask the pages, print the table; return the exit code."""
    with database():
        return _measure(_data())


def _data() -> Any:
    """Return a person with topics whose reports are all unread."""
    from django.contrib.auth import get_user_model

    owner = get_user_model().objects.create_user("bench")
    grow(owner, TOPICS, RUNS)
    return owner


def grow(owner: Any, topics: int, runs_each: int) -> list[Any]:
    """Give a person topics of a run a week, so many, with their reports, none read; return the topics."""
    from django.db import connection
    from django.utils import timezone

    from research.models import Run
    from tests.research import factories

    now = timezone.now()
    made = []
    for n in range(topics):
        topic = factories.make_topic(owner, f"Topic {n} of those that are never opened")
        runs = [
            Run(
                topic=topic,
                actor=str(owner.actor),
                number=number,
                status=Run.Status.SUCCEEDED,
                is_baseline=number == 1,
                created=now - timedelta(weeks=runs_each - number, minutes=5 + n),
                finished_at=now - timedelta(weeks=runs_each - number, minutes=n),
            )
            for number in range(1, runs_each + 1)
        ]
        _report(owner, topic.title, Run.objects.bulk_create(runs))
        topic.run_count, topic.last_run_at = runs_each, now
        topic.save(update_fields=["run_count", "last_run_at"])
        made.append(topic)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return made


def _report(owner: Any, title: str, runs: list[Any]) -> None:
    """Give each run its report and what it told."""
    from research.models import DeltaItem, Report

    Report.objects.bulk_create(
        Report(
            owner=owner,
            run=run,
            title=title,
            body="Found.",
            source=run.source,
            created=run.finished_at,
        )
        for run in runs
    )
    DeltaItem.objects.bulk_create(
        DeltaItem(
            run=run,
            position=place,
            status=("new", "changed")[place % 2],
            sentence=f"Finding {place} of run {run.number} is {run.number * 7 + place} today.",
            previous_text=f"Finding {place} was {place} before." if place % 2 else "",
        )
        for run in runs
        for place in range(1, ITEMS + 1)
    )


def _measure(owner: Any) -> int:
    from django.test import Client

    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    _ask(client, "/settings/")  # so that the first look is the data's, not the process's
    print(f"{TOPICS} topics, {RUNS} unread reports each, {ITEMS} items per run; {ROUNDS} requests")
    print(f"{'page':<24}{'queries':>8}{'first ms':>10}{'cpu ms':>9}{'median':>9}{'max':>9}")
    is_slow = False
    for path in PAGES:
        first = _ask(client, path)[0]
        is_slow = is_slow or (path == "/" and first > MAX_MS)
        if path == "/topics/":
            _catch_up()
        queries = _queries(client, path) - 2  # session and user
        asked = [_ask(client, path) for _round in range(ROUNDS)]
        middle = statistics.median(wall for wall, _cpu in asked)
        cpu = statistics.median(cpu for _wall, cpu in asked)
        most = max(wall for wall, _cpu in asked)
        print(f"{path:<24}{queries:>8}{first:>10.0f}{cpu:>9.1f}{middle:>9.1f}{most:>9.1f}")
        is_slow = is_slow or queries > MAX_QUERIES or middle > MAX_MS
    print("too slow" if is_slow else f"all within {MAX_QUERIES} queries and {MAX_MS:.0f} ms")
    return int(is_slow)


def _catch_up() -> None:
    """Count what is stale, as ticks do, and tell how long that takes."""
    from research.services.reports import since_read

    began, ticks, counted = time.perf_counter(), 0, 0
    while done := since_read.catch_up():
        ticks, counted = ticks + 1, counted + done
    print(f"{counted} topics counted by {ticks} ticks in {time.perf_counter() - began:.1f} s")


def _queries(client: Any, path: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return len(captured)


def _ask(client: Any, path: str) -> tuple[float, float]:
    """Return what a request took by the clock and of this process, in milliseconds."""
    began, spent = time.perf_counter(), time.process_time()
    client.get(path)
    return (time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000


if __name__ == "__main__":
    sys.exit(main())
