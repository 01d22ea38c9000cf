"""How fast a search as of a date is, beside today's, and whether it answers as on a frozen copy.

    .venv/bin/python -m benchmarks.as_of [--size 100000] [--changed 500]

The notes are of one year. `--changed` of them were edited and a tenth of that number trashed in the last
month. 200 questions of 1 to 8 words are asked before these changes, and again afterwards as of then. The
answers must be the same. The goal is a p95 below 300 ms at 100,000 records.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import datetime, timedelta
from typing import Any

from benchmarks.throwaway import database

GOAL = 300  # ms
EACH = 25  # questions of each length
LIMIT = 10


def main() -> int:
    """Print the table; return 1 if an answer differs or the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000, help="notes")
    parser.add_argument("--changed", type=int, default=500, help="notes edited since")
    parser.add_argument("--quick", action="store_true", help="2,000 notes")
    asked = parser.parse_args()
    size, changed = (2_000, 100) if asked.quick else (asked.size, asked.changed)
    with database(durable=True):
        return _told(size, changed)


def _told(size: int, changed: int) -> int:
    from django.db import connection
    from django.utils import timezone

    from benchmarks.memories import memories, pool_of, questions

    pool = pool_of(None)
    texts = memories(pool, size)
    owner, notes = _stored(texts)
    then = timezone.now()
    asked = [one for words in range(1, 9) for one in questions(texts, words, EACH)]
    frozen, today = _asked(owner, asked)
    _changed(owner, notes[:: max(1, size // changed)], memories(pool, changed + 1))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    again, past = _asked(owner, asked, then)
    differ = sum(one != other for one, other in zip(frozen, again, strict=True))
    print(
        f"| search of {size:,} notes, {changed:,} changed since | p50 ms | p95 ms |\n|---|---|---|"
    )
    for name, spent in (("today", today), ("as of a date", past)):
        print(f"| {name} | {statistics.median(spent):.0f} | {_p95(spent):.0f} |")
    print(f"\n{len(asked)} questions, {differ} answered differently than on the frozen copy")
    return int(differ > 0 or _p95(past) > GOAL)


def _stored(texts: list[str]) -> tuple[Any, list[Any]]:
    from django.utils import timezone

    from memory.models import Note, Revision, User

    owner = User.objects.create_user("ada")
    now = timezone.now()
    made = []
    for start in range(0, len(texts), 1_000):
        some = [
            Note(
                owner=owner,
                kind="log",
                content=text,
                created=now - timedelta(days=365 * (start + number + 1) / len(texts)),
            )
            for number, text in enumerate(texts[start : start + 1_000])
        ]
        Note.objects.bulk_create(some)
        Revision.record_first(some, by=owner.actor)
        Note.follow(some)
        made += some
    return owner, made


def _changed(owner: Any, notes: list[Any], texts: list[str]) -> None:
    for number, (note, text) in enumerate(zip(notes, texts, strict=False)):
        note.change(by=owner.actor, content=text)
        if number % 10 == 0:
            note.trash(by=owner.actor)


def _asked(
    owner: Any, questions: list[str], then: datetime | None = None
) -> tuple[list[Any], list[float]]:
    """Return the answers, and the milliseconds that each took. Each is a request of its own."""
    from memory.models.as_of import at
    from memory.services.search.recall import recall

    for question in questions[:3]:
        recall(owner, question, "lexical", limit=LIMIT)
    answers, spent = [], []
    for question in questions:
        began = time.perf_counter()
        with at(owner, then):
            hits = recall(owner, question, "lexical", limit=LIMIT)
        spent.append(1_000 * (time.perf_counter() - began))
        answers.append([(hit.id, round(hit.score, 6), hit.content) for hit in hits])
    return answers, spent


def _p95(spent: list[float]) -> float:
    return sorted(spent)[int(0.95 * (len(spent) - 1))]


if __name__ == "__main__":
    raise SystemExit(main())
