"""How fast a list of notes is with 10,000, 100,000 and 1,000,000 of them: queries and milliseconds.

    .venv/bin/python benchmarks/list_page.py [--large] [--sizes 10000,100000]

It makes the notes in a throw-away database (DATABASE_URL's server if set, else an embedded one in
a temporary folder), asks each page 20 times through all middleware, carries one act out on all
that match, and ends with exit code 1 if a page takes more than 12 queries or, at 100,000, a median
of 100 ms.  Each cell is the median wall time and, in brackets, what one request cost the processor,
Postgres' share included (Linux): beside other work that says more than the wall does.  A tenth of
the notes is in Trash, a tenth is superseded, each by a different one; their words are drawn from a
vocabulary of 20,000 as often as words of a language are (Zipf).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

Figures = tuple[int, float, float]  # queries, milliseconds, of those the processor's
ROUNDS, MAX_QUERIES, MAX_MS, GOAL = 20, 12, 100.0, 100_000
# "w10" is in about every third note, "w3000" in about one of 600.
PAGES = {
    "newest": "",
    "last changed": "?sort=changed",
    "expires first": "?sort=expires",
    "a kind": "?q=kind:rule",
    "a rare kind": "?q=kind:user",
    "a tag": "?q=tag:t3",
    "a rare tag": "?q=tag:rare",
    "from the web": "?q=trust:external",
    "quarantined (rare)": "?q=trust:quarantined",
    "pinned (rare)": "?q=is:pinned",
    "of one run": "?q=source:run:77",
    "of any run": "?q=source:run:*",
    "of a topic": "?q=topic:topic-3",
    "in the trash": "?q=is:trashed",
    "superseded": "?q=is:superseded",
    "expiring": "?q=is:expiring",
    "a common word": "?q=w10",
    "a rare word": "?q=w3000",
    "two words, newest": "?q=w10+w30&sort=newest",
    "word and kind": "?q=w30+kind:rule",
    "nothing found": "?q=tag:not-in-use",
}
NOTES = """
INSERT INTO memory_note (id, owner_id, source, trust, sensitivity, version, pinned, lock, created,
    updated, trashed_at, kind, content, scope, tags, confidence, stability, ttl_days, expires_at,
    evidence, job, superseded_by_id, edited_by_person, paused, topic_id)
SELECT md5('note' || n)::uuid, %(owner)s,
       CASE WHEN n %% 3 = 0 THEN 'human:bench' ELSE 'run:' || n %% 2000 END,
       CASE WHEN n %% 5000 = 0 THEN 'quarantined' WHEN n %% 3 = 0 THEN 'owner' ELSE 'external' END,
       'normal', 1, n %% 10000 = 1, 'open', now() - n * interval '7 seconds',
       now() - (n::bigint * 7919 %% %(size)s) * interval '7 seconds',
       CASE WHEN n %% 10 = 7 THEN now() - n * interval '1 second' END,
       (ARRAY['log','summary','rule'])[n %% 3 + 1],
       words.text, 'owner',
       CASE WHEN n %% 2000 = 9 THEN ARRAY['rare'] WHEN n %% 2 = 0 THEN ARRAY['t' || n %% 20]
            ELSE '{}'::text[] END,
       1, CASE WHEN n %% 4 = 1 THEN 'volatile' ELSE 'stable' END,
       CASE WHEN n %% 4 = 1 THEN 30 END,
       CASE WHEN n %% 4 = 1 THEN now() + (n %% 2592000) * interval '1 second' END,
       '{}', '', CASE WHEN n %% 10 = 5 THEN md5('note' || n - 1)::uuid END, false, false,
       CASE WHEN n %% 10 = 1 THEN (%(topics)s::uuid[])[n / 10 %% 40 + 1] END
  FROM generate_series(%(first)s, %(last)s) n,
       LATERAL (SELECT string_agg('w' || floor(exp(random() * ln(20000)))::int, ' ') AS text
                  FROM generate_series(1, 12 + n %% 30) w WHERE n > 0) words
"""

# As beacon_site.text.terms makes them of such words: each is its own stem.
ENTRIES = """
INSERT INTO memory_searchentry (space_id, record_id, length, words, kind, topic_id, created, until,
    is_current, trust, sensitivity, paused)
SELECT %(space)s, id, array_length(string_to_array(content, ' '), 1),
       to_tsvector('simple', content) || coalesce(levels.of_it, ''),
       kind, topic_id, created, expires_at, superseded_by_id IS NULL, trust, sensitivity, paused
  FROM generate_series(%(first)s, %(last)s) n JOIN memory_note ON id = md5('note' || n)::uuid,
       LATERAL (SELECT array_to_tsvector(array_agg('~' || level || word)) AS of_it
                  FROM (SELECT word, count(*) AS times
                          FROM unnest(string_to_array(content, ' ')) word GROUP BY 1) counted,
                       unnest(%(levels)s::int[]) level
                 WHERE times >= level) levels
 WHERE trashed_at IS NULL
"""
CHUNK = 20_000


def main() -> int:
    """Make the data, ask the pages, print the tables; return the exit code."""
    options = argparse.ArgumentParser()
    options.add_argument("--large", action="store_true", help="a million notes as well")
    options.add_argument("--sizes", default="10000,100000")
    asked = options.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")] + [1_000_000] * asked.large
    with database():
        return _measure(sizes)


def owner_with_topics() -> tuple[Any, list[Any]]:
    """Return a new owner and the ids of the owner's 40 topics."""
    from django.contrib.auth import get_user_model

    from tests.research import factories

    owner = get_user_model().objects.create_user("bench")
    return owner, [factories.make_topic(owner, f"Topic {n}").pk for n in range(40)]


def grow(owner: Any, topics: list[Any], first: int, size: int) -> None:
    """Let there be `size` notes, the first ones kept, each in the search index."""
    from django.db import connection

    from beacon_site.text.terms import LEVELS
    from memory.models import SearchSpace

    space, _made = SearchSpace.objects.get_or_create(owner=owner, record_type="note")
    numbers = {"owner": owner.pk, "topics": topics, "size": size, "space": space.pk}
    numbers |= {"levels": list(LEVELS)}
    with connection.cursor() as cursor:
        for start in range(first, size + 1, CHUNK):
            numbers |= {"first": start, "last": min(size, start + CHUNK - 1)}
            cursor.execute(NOTES, numbers)
            cursor.execute(ENTRIES, numbers)
        for table in ("memory_note", "memory_searchentry", "memory_searchterm"):
            cursor.execute(f"VACUUM ANALYZE {table}")


def _measure(sizes: list[int]) -> int:
    from django.test import Client

    owner, topics = owner_with_topics()
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    found: dict[str, list[Figures]] = {name: [] for name in PAGES}
    deep: list[Figures] = []
    acts = []
    made = 0
    for size in sizes:
        began = time.perf_counter()
        grow(owner, topics, made + 1, size)
        made = size
        print(f"{size:,} notes made in {time.perf_counter() - began:.0f} s", flush=True)
        for name, query in PAGES.items():
            found[name].append(_page(client, f"/notes/{query}"))
            print(f"  {name}: %d queries, %.0f ms, cpu %.0f ms" % found[name][-1], flush=True)
        deep.append(_page(client, f"/notes/?cursor={_half_way(owner)}"))
        acts.append(_act(owner))
    found["half way down"] = deep
    return _told(sizes, found, acts)


def _half_way(owner: Any) -> str:
    from beacon_site.db.keyset import cursor_of
    from memory.models import Note

    notes = Note.objects.for_user(owner).order_by("-created")
    row = notes[notes.count() // 2]
    return cursor_of(row.created, row.pk)


def _act(owner: Any) -> tuple[int, float]:
    """Tag all rules as the task does; return how many were changed, and the seconds."""
    from memory.pages.records import bulk

    act = bulk.ask(owner, "notes", "tag", query="q=kind:rule", arguments={"tag": "bench"})
    began = time.perf_counter()
    done = bulk.run_bulk_action(act.pk, seconds=3_600)
    assert done is not None
    took = time.perf_counter() - began
    bulk.run_bulk_action(bulk.ask_undo(done).pk, seconds=3_600)
    return done.done, took


def _page(client: Any, path: str) -> Figures:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from benchmarks.processor import Meter

    client.get(path)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(path)
        queries = len(captured)
    assert response.status_code == 200, (path, response.status_code)
    took, meter = [], Meter()
    spent = meter.now()
    for _round in range(ROUNDS):
        began = time.perf_counter()
        client.get(path)
        took.append((time.perf_counter() - began) * 1000)
    return queries, statistics.median(took), (meter.now() - spent) / ROUNDS


def _told(sizes: list[int], found: dict[str, list[Figures]], acts: list[tuple[int, float]]) -> int:
    print("| list | queries | " + " | ".join(f"{size:,} notes" for size in sizes) + " |")
    print("|---|---|" + "---|" * len(sizes))
    is_slow = False
    for name, figures in found.items():
        most = max(queries for queries, _took, _cpu in figures)
        cells = (f"{ms:.0f} ms ({cpu:.0f})" for _n, ms, cpu in figures)
        print(f"| {name} | {most} | " + " | ".join(cells) + " |")
        at_goal = [ms for size, (_n, ms, _cpu) in zip(sizes, figures, strict=True) if size <= GOAL]
        is_slow = is_slow or most > MAX_QUERIES or max(at_goal, default=0) > MAX_MS
    cells = (f"{done:,} in {took:.0f} s" for done, took in acts)
    print("| tag added to all rules (task) | | " + " | ".join(cells) + " |")
    print("too slow" if is_slow else f"all within {MAX_QUERIES} queries and {MAX_MS:.0f} ms")
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
