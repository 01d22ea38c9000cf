"""The slowest queries of the most common actions, with their plans.

    .venv/bin/python -m benchmarks.hot_queries [--size 100000] [--most 3] [--write docs/dev/queries.md]

One owner with `--size` notes, forty topics and three runs of the sample, in a temporary database.
Every action runs once to warm up and once measured; each statement is timed in this process.  Prints
the slowest statements with their action, whether they filter by owner (or the owner's search space,
or a primary key), and `EXPLAIN (ANALYZE, BUFFERS)`, rolled back.  `--write` writes the table
without statements and plans into the document.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import list_page
from benchmarks.throwaway import database

RUNS = 3
MAX_LENGTH = 700  # characters of a statement that are shown
PLAN_LINES = 16  # of a plan
LEFT_OUT = ("Buffers:", "Index Searches:")
BEGIN = "<!-- hot queries: written by benchmarks/hot_queries.py -->"
END = "<!-- end of hot queries -->"
PLACE = f"{BEGIN}(?s:(.*?)){END}"
_SAID = re.compile(r"^\s*(SELECT|WITH|INSERT|UPDATE|DELETE|\()", re.IGNORECASE)
# The owner, the owner's search space, or rows by the keys that an earlier statement brought.
_OWNED = re.compile(
    r"\bowner_id\"? = |\bspace_id\"? (= |IN \()"
    r"|\b(id|record_id|object_id|topic_id|run_id|report_id|user_id)\"? (= %s|= ANY|IN \(%s)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement as it was sent, by which act, and how long it took."""

    act: str
    sql: str
    params: Any
    milliseconds: float

    @property
    def names_the_owner(self) -> bool:
        """Return whether the query filters by an owner, a search space, or primary keys."""
        return bool(_OWNED.search(self.sql.split("WHERE", 1)[-1]))


def main() -> int:
    """Measure, print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--write", type=Path, help="a document with a place for them")
    asked = parser.parse_args()
    with database():
        owner, client = _made(asked.size)
        found = dearest(owner, client, asked.most)
        told, plans = _told(found, asked.size), _with_plans(found)
    print(told + plans)
    if asked.write:
        before, _old, after = re.split(PLACE, asked.write.read_text())
        asked.write.write_text(f"{before}{BEGIN}\n{told}\n{END}{after}")
    return 0


def _made(size: int) -> tuple[Any, Any]:
    from django.test import Client

    from research.models import Run
    from research.services.runs.execution import pipeline, starting

    owner, topics = list_page.owner_with_topics()
    list_page.grow(owner, topics, 1, size)
    topic = starting.create_sample_topic(owner, by=owner.actor, title="Cells")
    for _number in range(RUNS):
        run = Run.objects.start(topic, trigger="command", by=owner.actor)
        pipeline.execute(run.pk, worker="benchmark")
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return owner, client


def acts(owner: Any, client: Any) -> dict[str, Callable[[], object]]:
    """Return what people and agents do most, by what it is called."""
    from django.urls import reverse

    from memory.models import Note
    from memory.services.search.recall import recall
    from research.models import Run

    run = Run.objects.filter(topic__owner=owner).order_by("-pk").first()
    note = Note.objects.for_user(owner).live().order_by("-created").first()

    def store() -> None:
        made = Note(owner=owner, content="w11 w12 w13 said again")
        Note.objects.bulk_create([made])
        Note.follow([made])

    found: dict[str, Callable[[], object]] = {
        "recall of three words": lambda: recall(owner, "w10 w300 w2000", "lexical"),
        "recall of a frequent word": lambda: recall(owner, "w10", "lexical"),
        "an agent's recall": lambda: recall(owner, "w10 w700 trust:owner,external", "lexical"),
        "a note remembered": store,
        "the list of notes": lambda: client.get("/notes/"),
        "the list of notes, a word": lambda: client.get("/notes/?q=w10"),
        "the list of notes, a tag": lambda: client.get("/notes/?q=tag:t3"),
        "Home": lambda: client.get("/"),
        "Topics": lambda: client.get("/topics/"),
        "Reports": lambda: client.get("/reports/"),
    }
    if note is not None:
        found["a note's page"] = lambda: client.get(note.get_absolute_url())
    if run is not None:
        page = reverse("research:run", args=[run.topic.slug, run.pk])
        of_topic = reverse("research:topic", args=[run.topic.slug])
        found["a topic's page"] = lambda: client.get(of_topic)
        found["a run's page"] = lambda: client.get(page)
    return found


@contextmanager
def heard(act: str) -> Iterator[list[Asked]]:
    """Yield a list into which each statement is put as it is sent."""
    from django.db import connection

    said: list[Asked] = []

    def listen(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took = (time.perf_counter() - began) * 1000
            if not many and _SAID.match(sql):
                said.append(Asked(act, sql, params, took))

    with connection.execute_wrapper(listen):
        yield said


def dearest(owner: Any, client: Any, most: int) -> list[Asked]:
    """Return the statements that took longest, each once."""
    found: dict[str, Asked] = {}
    for name, act in acts(owner, client).items():
        act()
        with heard(name) as said:
            act()
        for one in said:
            before = found.get(one.sql)
            if before is None or before.milliseconds < one.milliseconds:
                found[one.sql] = one
    return sorted(found.values(), key=lambda one: -one.milliseconds)[:most]


def _told(asked: list[Asked], size: int) -> str:
    lines = [
        f"The benchmark used {size:,} notes.\n",
        "| | ms | action | filters by owner |",
        "|---|---|---|---|",
    ]
    for number, one in enumerate(asked, 1):
        owned = "yes" if one.names_the_owner else "no"
        lines.append(f"| {number} | {one.milliseconds:.1f} | {one.act} | {owned} |")
    return "\n".join(lines)


def _with_plans(asked: list[Asked]) -> str:
    lines = []
    for number, one in enumerate(asked, 1):
        lines.append(f"\n### {number}. {one.act}\n\n```sql\n{_short(one.sql)}\n```\n")
        lines.append(f"```text\n{_plan(one)}\n```")
    return "\n".join(lines)


def _short(sql: str) -> str:
    return sql if len(sql) <= MAX_LENGTH else f"{sql[:MAX_LENGTH]} …"


def _plan(one: Asked) -> str:
    """Return the plan as it was carried out; of what cannot be done twice as it would be."""
    from django.db import DatabaseError, connection, transaction

    for how in ("ANALYZE, BUFFERS, COSTS OFF", "COSTS OFF"):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN ({how}) {one.sql}", one.params)
                lines = [
                    line for (line,) in cursor.fetchall() if not line.lstrip().startswith(LEFT_OUT)
                ]
                transaction.set_rollback(True)
            return "\n".join(
                [line[:160] for line in lines[:PLAN_LINES]] + ["…"] * (len(lines) > PLAN_LINES)
            )
        except DatabaseError as exc:
            problem = str(exc)
    return problem


if __name__ == "__main__":
    sys.exit(main())
