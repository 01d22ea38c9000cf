"""How fast a topic's pages are with 200 runs and 500 sources: queries and milliseconds.

    .venv/bin/python benchmarks/topic_page.py

It makes the data in a throw-away database (DATABASE_URL's server if set, else an embedded one in
a temporary folder), asks each page 40 times through all middleware, and ends with exit code 1 if
one takes more than 12 queries (15 for Read, 14 for the tabs of facts and memory) or a median of 100 ms.
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

RUNS, SOURCES, SEEN, ROUNDS = 200, 500, 500, 40
MAX_MS = 100.0
PAGES = {"": 15, "facts/": 14, "facts/?view=list": 14, "sources/": 12, "runs/": 12, "memory/": 14}


def main() -> int:
    """Make the data, ask the pages, print the table; return the exit code."""
    with database():
        return _measure(*_data())


def _data() -> tuple[Any, Any]:
    """Return a person and their topic: reports of 30 sources, ten facts, a timeline of 900."""
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.utils import timezone

    from memory.models import SeenUrl, Source
    from tests.research import factories

    owner = get_user_model().objects.create_user("bench")
    topic = factories.make_topic(owner)
    now = timezone.now()
    for _number in range(RUNS):
        run = factories.make_run(topic)
        cited = [factories.make_source(n, f"Source {n}") for n in range(1, 31)]
        body = "\n\n".join(f"Paragraph {n} says what source {n} says. [{n}]" for n in range(1, 31))
        factories.make_report(run, body=f"## Findings\n\n{body}", sources=cited)
        for n in range(8):
            factories.make_item(run, ("new", "changed")[n % 2], f"Something {n} changed. [{n}]")
    _facts(owner, topic, now)
    Source.objects.bulk_create(
        Source(
            topic=topic, url=f"https://d{n % 60}.example.org/{n}", domain=f"d{n % 60}.example.org",
            link=f"https://d{n % 60}.example.org/{n}", title=f"A source, number {n}", times_read=2,
            first_run=n % RUNS + 1, last_run=RUNS, last_at=now - timedelta(minutes=n),
        )
        for n in range(SOURCES)
    )  # fmt: skip
    SeenUrl.objects.bulk_create(
        SeenUrl(topic=topic, url=f"https://d{n}.example.org/", returned_in=RUNS, returned_at=now)
        for n in range(SEEN)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return owner, topic


def _facts(owner: Any, topic: Any, now: datetime) -> None:
    """Make ten current facts and 900 retired ones."""
    from beacon_site.text.cleaning import match_key
    from memory.models import TopicFact

    facts = [
        TopicFact(
            owner=owner,
            topic=topic,
            text=f"Finding number {n} of this topic, as a whole sentence.",
            key=match_key(f"finding {n}"),
            url=f"https://example.org/{n}",
            position=n,
            first_run=n % RUNS + 1,
            confirmed_run=n % RUNS + 1,
            state="current" if n < 10 else "retired",
            retired_run=None if n < 10 else n % RUNS + 1,
            updated=now - timedelta(minutes=n),
        )
        for n in range(910)
    ]
    TopicFact.objects.bulk_create(facts)


def _measure(owner: Any, topic: Any) -> int:
    from django.test import Client

    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    pages = {f"/topics/{topic.slug}/{tab}": most for tab, most in PAGES.items()} | {"/": 12}
    print(
        f"{RUNS} runs, {SOURCES} sources, {SEEN} seen URLs, 910 facts; {ROUNDS} requests per page"
    )
    print(f"{'page':<34}{'queries':>8}{'min ms':>9}{'median':>9}{'max':>9}{'kB':>7}")
    is_slow = False
    for path, most in pages.items():
        queries, size = _queries(client, path)
        took = sorted(_ask(client, path) for _round in range(ROUNDS))
        middle = statistics.median(took)
        print(
            f"{path:<34}{queries:>8}{took[0]:>9.1f}{middle:>9.1f}{took[-1]:>9.1f}{size / 1024:>7.0f}"
        )
        is_slow = is_slow or queries > most or middle > MAX_MS
    print("too slow" if is_slow else f"all within their queries and {MAX_MS:.0f} ms")
    return int(is_slow)


def _queries(client: Any, path: str) -> tuple[int, int]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    _ask(client, path)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return len(captured), len(response.content)


def _ask(client: Any, path: str) -> float:
    began = time.perf_counter()
    client.get(path)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
