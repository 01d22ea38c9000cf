"""How fast recall is, beside other engines, on one owner's space of made memories.

    .venv/bin/python benchmarks/recall.py [--large] [--sizes 10000,100000] [--texts DIR]

It prints, an engine a line: what building took (Beacon's figure: storing the notes too), the disk
that the index takes, memory (of Beacon this process and its process of Postgres whole, of the others
what this process grew by), what one more memory costs by itself and in hundreds, each
committed and on disk, p50 and p95 for questions of 1 to 8 words, and p50 over that of SQLite's
FTS5, by the clock and of the processor: of one run, so that it holds on other machines.  Beacon's
time is `recall()` in this process, from the question to loaded records with their reasons; bm25s,
tantivy and FTS5 return numbers only, without filters, and are there if they are installed:

    .venv/bin/pip install --target /tmp/others bm25s PyStemmer tantivy
    PYTHONPATH=/tmp/others .venv/bin/python benchmarks/recall.py

The notes are of three kinds and of one year, each has a tag, one in ten is the owner's own, one in
twenty is superseded.  Three questions are asked before the clock runs; then each is asked once: its
plan is new, what it reads is in memory as far as the machine has it.

The data is in a throw-away database with the settings that Beacon ships (DATABASE_URL's server if
set, else an embedded one).  `cpu` is what a question cost Postgres' process and this one together
(Linux): beside other work it says more than the wall does, though it rises too, by what they take
of caches and memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
        texts = memories(pool, size)
        _emptied()
        rows = [*ours(texts), *_others(texts)]
        _show(size, rows)


@dataclass(slots=True)
class Figures:
    """One row of the table: an engine, or a mode of Beacon."""

    name: str
    build: float | None = None  # seconds
    disk: float | None = None  # megabytes
    memory: float | None = None  # megabytes
    alone: float | None = None  # milliseconds for one more memory
    batch: float | None = None  # the same among a hundred
    wall: dict[int, list[float]] = field(default_factory=dict)  # milliseconds by number of words
    cpu: list[float] = field(default_factory=list)

    @property
    def all_wall(self) -> list[float]:
        """Return the milliseconds of all questions."""
        return [one for some in self.wall.values() for one in some]


def _show(size: int, rows: Sequence[Figures]) -> None:
    """Print the table of one size, and the medians by length of question."""
    beside = next((row for row in rows if row.name == "SQLite FTS5"), None)
    print(f"\n### {size:,} memories\n")
    print(
        "| engine | build s | disk MB | memory MB | one more note, ms | each of 100 | p50 / p95 ms "
        "| p50 / p95 cpu | p50 relative to FTS5 | cpu |\n|" + "---|" * 10
    )
    for row in rows:
        figures = (row.build, row.disk, row.memory, row.alone, row.batch)
        cells = ["" if one is None else f"{one:,.1f}" for one in figures]
        cells += [
            f"{statistics.median(some):.1f} / {_p95(some):.1f}" for some in (row.all_wall, row.cpu)
        ]
        cells += [_ratio(row.all_wall, beside and beside.all_wall)]
        cells += [_ratio(row.cpu, beside and beside.cpu)]
        print(f"| {row.name} | {' | '.join(cells)} |")
    print("\nMedian and p95 in ms by the number of words:\n")
    print("| engine | " + " | ".join(map(str, LENGTHS)) + " |\n|" + "---|" * (1 + len(LENGTHS)))
    for row in rows:
        told = (f"{statistics.median(some):.1f} / {_p95(some):.1f}" for some in row.wall.values())
        print(f"| {row.name} | {' | '.join(told)} |", flush=True)


def _ratio(ours: list[float], theirs: list[float] | None) -> str:
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}" if theirs else ""


def ours(texts: list[str]) -> list[Figures]:
    from django.contrib.auth import get_user_model

    from memory.models import Note, SearchEntry, SearchTerm, search_index
    from memory.services.search.recall import recall

    owner = get_user_model().objects.create_user(f"bench{len(texts)}")
    began = time.perf_counter()
    notes = _notes(owner, texts)
    for start in range(0, len(notes), 1000):
        some = notes[start : start + 1000]
        Note.objects.bulk_create(some)
        search_index.index(some)
    built = time.perf_counter() - began
    del notes
    _analysed()
    size = _size_of(SearchEntry._meta.db_table) + _size_of(SearchTerm._meta.db_table)

    def ask(mode: str, more: str = "") -> Callable[[str], object]:
        return lambda question: recall(owner, question + more, mode)

    first = Figures("Beacon lexical", build=built, disk=size)
    asked = [(first, ask("lexical")), (Figures("Beacon exact"), ask("exact"))]
    asked += [(Figures(f"Beacon {name}"), ask("lexical", more)) for name, more in FILTERS.items()]
    for row, act in asked:
        _ask(row, texts, act)
    first.memory = _resident("self") + _resident(_backend())
    first.alone, first.batch = _inserts(_storing(owner), texts)
    return [row for row, _act in asked]


def _notes(owner: Any, texts: list[str]) -> list[Any]:
    from django.utils import timezone

    from memory.models import Note
    from memory.models.remembered import Trust

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


def _storing(owner: Any) -> Callable[[Sequence[str]], None]:
    """Return a function that stores and indexes notes, and commits."""
    from django.db import transaction

    from memory.models import Note

    def store(some: Sequence[str]) -> None:
        with transaction.atomic():
            notes = [Note(owner=owner, content=text) for text in some]
            Note.objects.bulk_create(notes)
            Note.follow(notes)

    return store


def _inserts(store: Callable[[Sequence[str]], None], texts: list[str]) -> tuple[float, float]:
    """Return what one more memory costs by itself, and in batches of a hundred: milliseconds."""
    chosen = [text[::-1] for text in texts[:INSERTS]]  # new words too
    alone = _took(lambda: [store([text]) for text in chosen]) / len(chosen) * 1000
    batch = _took(lambda: [store(chosen[n : n + 100]) for n in range(0, len(chosen), 100)])
    return alone, batch / len(chosen) * 1000


def _ask(row: Figures, texts: list[str], act: Callable[[str], object]) -> None:
    """Ask questions of all lengths; keep what each took."""
    from benchmarks.memories import questions
    from benchmarks.processor import Meter

    for question in questions(texts, 3, 10):
        act(question)  # caches and plans are warm, as in a process that runs
    asked = {words: questions(texts, words, QUESTIONS) for words in LENGTHS}
    meter = Meter()
    for words in LENGTHS:
        row.wall[words] = []
        for question in asked[words]:
            before = meter.now()
            row.wall[words].append(_took(lambda asked=question: act(asked)) * 1000)  # type: ignore[misc]
            row.cpu.append(meter.now() - before)


def _others(texts: list[str]) -> list[Figures]:
    from benchmarks.recall_others import ENGINES

    rows = []
    for name, make in ENGINES.items():
        before = _resident("self")
        try:
            engine = make()
        except ImportError as exc:
            print(f"{name} is not installed ({exc.name}): left out")
            continue
        row = Figures(name, build=_took(lambda engine=engine: engine.index(texts)))  # type: ignore[misc]
        row.disk = engine.megabytes()
        _ask(row, texts, engine.search)
        row.memory = max(0.0, _resident("self") - before)
        if engine.add is not None:
            row.alone, row.batch = _inserts(engine.add, texts)
        else:
            row.alone = (row.build or 0.0) * 1000  # it is built again
        engine.close()
        rows.append(row)
    return rows


def _backend() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return str(cursor.fetchone()[0])


def _resident(process: str) -> float:
    """Return the megabytes that only this process uses (Linux), or 0 if unknown."""
    status = Path("/proc", process, "status")
    told = status.read_text() if status.exists() else ""
    return int(told.split("RssAnon:")[1].split()[0]) / 1000 if "RssAnon:" in told else 0.0


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
