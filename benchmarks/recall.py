"""How fast recall is, beside other engines, on one owner's space of made memories.

    .venv/bin/python benchmarks/recall.py [--large] [--sizes 10000,100000] [--texts DIR]

It prints what building took (Beacon's figure: storing the notes too), p50 and p95 of `recall()` in
this process (from the question to loaded records, with and without filters) for questions of 1 to 8
words, what one more memory costs alone and in batches of 100, each committed and on disk, and the
index's size; and the same questions asked of bm25s, tantivy and SQLite's FTS5, which return numbers
only, where they are installed:

    .venv/bin/pip install --target /tmp/others bm25s PyStemmer tantivy
    PYTHONPATH=/tmp/others .venv/bin/python benchmarks/recall.py

The notes are of three kinds and of one year, each has a tag, one in ten is the owner's own, one in
twenty is superseded.  Three questions are asked before the clock runs; then each is asked once: its
plan is new, what it reads lies in memory as far as the machine has it.

The data lie in a throw-away database with the settings that Beacon ships (DATABASE_URL's server if
set, else an embedded one).  Times are wall time: on a machine that does nothing else.  `cpu` is what
a question cost Postgres' process and this one together (Linux): beside other work it says more than
the wall does, though it rises too, by what they take of caches and memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

QUESTIONS = 40  # of each length
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
INSERTS = 300
FILTERS = {  # operators, and what they let through
    "lexical, a third": " kind:log",
    "lexical, a fortieth": " kind:log after:30d",
    "lexical, a tenth (trust)": " trust:owner",
}


def main() -> int:
    """Start what is needed, print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="10000,100000", help="memories, with commas")
    parser.add_argument("--large", action="store_true", help="a million as well")
    parser.add_argument("--texts", type=Path, help="a folder of texts instead of Python's own")
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")] + [1_000_000] * asked.large
    with database(durable=True):
        _told(sizes, asked.texts)
    return 0


def _told(sizes: Sequence[int], folder: Path | None) -> None:
    from benchmarks.memories import memories, pool_of

    pool = pool_of(folder)
    for size in sizes:
        print(f"\n{size:,} memories")
        columns = ("build s", "size MB", "p50 ms", "p95 ms", "p50 cpu", "p95 cpu")
        print(" " * 30 + "".join(f"{name:>9}" for name in columns))
        texts = memories(pool, size)
        _emptied()
        _ours(texts)
        _others(texts)


def _ours(texts: list[str]) -> None:
    from django.contrib.auth import get_user_model

    from memory.models import Note, SearchEntry, SearchTerm
    from memory.recall import bm25
    from memory.recall.recalling import recall

    owner = get_user_model().objects.create_user(f"bench{len(texts)}")
    began = time.perf_counter()
    notes = _notes(owner, texts)
    for start in range(0, len(notes), 1000):
        some = notes[start : start + 1000]
        Note.objects.bulk_create(some)
        bm25.index(some)
    built = time.perf_counter() - began
    _analysed()
    size = _size_of(SearchEntry._meta.db_table) + _size_of(SearchTerm._meta.db_table)

    def ask(mode: str, more: str = "") -> Callable[[str], object]:
        return lambda question: recall(owner, question + more, mode)

    print(f"{'beacon':30}{built:9.1f}{size:9.1f}")
    _asked("  lexical", texts, ask("lexical"))
    _asked("  exact", texts, ask("exact"))
    for label, more in FILTERS.items():
        _asked(f"  {label}", texts, ask("lexical", more))
    _inserts(owner, texts)


def _notes(owner: Any, texts: list[str]) -> list[Any]:
    from django.utils import timezone

    from memory.models import Note
    from memory.models.base import Trust

    kinds, now = (Note.Kind.LOG, Note.Kind.SUMMARY, Note.Kind.RULE), timezone.now()
    notes = []
    for n, text in enumerate(texts):
        tag = max(text.split()[:10], key=len)[:80]
        note = Note(owner=owner, content=text, kind=kinds[n % 3], tags=[tag], source=f"run:{n}")
        note.trust = Trust.OWNER if n % 10 == 0 else Trust.EXTERNAL
        note.created = now - timedelta(days=365) * n / len(texts)
        if n % 20 == 7:
            note.superseded_by = notes[-1]
        notes.append(note)
    return notes


def _inserts(owner: Any, texts: list[str]) -> None:
    """Print what one more memory costs: the note, its place in the index, all committed."""
    from django.db import transaction

    from memory.models import Note

    def store(some: Sequence[str]) -> None:
        with transaction.atomic():
            notes = [Note(owner=owner, content=text) for text in some]
            Note.objects.bulk_create(notes)
            Note.follow(notes)

    chosen = [text[::-1] for text in texts[:INSERTS]]  # new words too
    alone = _took(lambda: [store([text]) for text in chosen]) / INSERTS * 1000
    batch = _took(lambda: [store(chosen[n : n + 100]) for n in range(0, INSERTS, 100)])
    print(f"  one more: {alone:.2f} ms alone, {batch / INSERTS * 1000:.2f} ms in batches of 100")


def _asked(label: str, texts: list[str], act: Callable[[str], object]) -> None:
    """Print p50 and p95 over questions of all lengths, then of each length."""
    from benchmarks.memories import questions
    from benchmarks.processor import Meter

    taken: dict[int, list[float]] = {}
    for question in questions(texts, 3, 10):
        act(question)  # caches and plans are warm, as in a process that runs
    asked = {words: questions(texts, words, QUESTIONS) for words in LENGTHS}
    meter, spent = Meter(), []
    for words in LENGTHS:
        taken[words] = []
        for question in asked[words]:
            before = meter.now()
            taken[words].append(_took(lambda asked=question: act(asked)) * 1000)  # type: ignore[misc]
            spent.append(meter.now() - before)
    figures = [one for some in taken.values() for one in some]
    cells = (statistics.median(figures), _p95(figures), statistics.median(spent), _p95(spent))
    print(f"{label:48}" + "".join(f"{cell:9.1f}" for cell in cells), flush=True)
    by_length = "  ".join(
        f"{words}: {statistics.median(some):.1f}/{_p95(some):.1f}" for words, some in taken.items()
    )
    print(f"    words: p50/p95  {by_length}")


def _others(texts: list[str]) -> None:
    from benchmarks.recall_others import ENGINES

    for name, make in ENGINES.items():
        try:
            engine = make()
        except ImportError as exc:
            print(f"{name:30} is not installed ({exc.name})")
            continue
        built = _took(lambda engine=engine: engine.index(texts))  # type: ignore[misc]
        print(f"{name:30}{built:9.1f}{engine.megabytes():9.1f}")
        _asked(f"  {name}", texts, engine.search)
        engine.close()


def _p95(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=20)[-1]


def _took(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _emptied() -> None:
    """Leave no size's memories beside the next one's."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE memory_note, memory_searchentry, memory_searchterm CASCADE")


def _size_of(table: str) -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size(%s::regclass)", [table])
        return float(cursor.fetchone()[0]) / 1e6


def _analysed() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


if __name__ == "__main__":
    sys.exit(main())
