"""How well recall finds: Beacon's own beside what people use today, on the same questions.

    .venv/bin/python benchmarks/recall_quality.py [--data DIR] [--set NAME] [--without-vectors]

Every `*.jsonl` and `*.jsonl.gz` of DIR (default: benchmarks/data) is a set.  Each line of it is
one collection, searched on its own:

    {"collection": str,
     "docs":    [{"id": str, "text": str, "who"?: str, "superseded_by"?: id}, ...],
     "queries": [{"id": str, "text": str, "relevant": [id, ...], "old"?: [id], "new"?: [id]}, ...]}

`old` and `new` name a statement that was replaced and the current one: the table shows which of the two
an engine puts first.  Beacon runs in a throw-away database (DATABASE_URL's server if set, else an
embedded one) by its real path: notes are indexed, vectors made by its task, questions asked of
recall(), one configuration for all sets.  Printed per set: Recall@10, MRR@10, nDCG@10, and the
paired differences in nDCG@10 to each single engine (only those of words, for those of Beacon's modes that
only look at words) with their 95 % intervals (2,000 bootstraps over the questions): ahead where one
is above 0, behind where it is below.

bm25s and tantivy aren't part of Beacon; those not installed are left out, and named:
    .venv/bin/pip install bm25s PyStemmer tantivy
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.quality_engines import (  # noqa: E402  the script's own folder first
    LEXICAL_RIVALS,
    Beacon,
    Engine,
    Fts5,
    MiniLm,
    RankFusion,
    Space,
    missing,
)
from benchmarks.quality_measures import MEASURES, mean, measure, paired_interval  # noqa: E402
from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

K = 10
Rows = dict[str, list[dict[str, Any]]]  # engine -> one row a question


def main() -> int:
    """Measure every set and print its table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "data")
    parser.add_argument("--set", action="append", help="only these")
    parser.add_argument("--without-vectors", action="store_true")
    given = parser.parse_args()
    sets = _sets(given.data, given.set)
    if not sets:
        print(f"There is no set in {given.data}.", file=sys.stderr)
        return 2
    with database(embeddings="none" if given.without_vectors else "local"):
        return _told(sets)


def _sets(folder: Path, chosen: list[str] | None) -> dict[str, Path]:
    found = {p.name.partition(".")[0]: p for p in sorted(folder.glob("*.jsonl*"))}
    return {name: path for name, path in found.items() if not chosen or name in chosen}


def _read(path: Path) -> list[dict[str, Any]]:
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _told(sets: dict[str, Path]) -> int:
    from django.core.management import call_command

    from memory.services.llm import connections
    from memory.services.search import embedding

    embedding._nudge = lambda: None  # no worker runs here
    call_command("vectors")
    used = connections.embedder()
    print(f"Embedder: {used.model if used else 'none'}")
    if missing():
        print(f"Not installed, left out: {', '.join(missing())}")
    for title, path in sets.items():
        began = time.perf_counter()
        rows = _measured(_read(path), with_vectors=used is not None)
        _show(title, rows, time.perf_counter() - began)
    return 0


def _measured(collections: list[dict[str, Any]], *, with_vectors: bool) -> Rows:
    rows: Rows = {}
    for collection in collections:
        space = Space(collection["docs"], with_vectors=with_vectors)
        engines: dict[str, Engine] = {"Beacon exact": Beacon("exact", space)}
        engines["Beacon lexical"] = Beacon("lexical", space)
        if with_vectors:
            engines["Beacon auto"] = Beacon("auto", space)
            engines["MiniLM vectors"] = MiniLm(space)
            engines["RRF of FTS5 and MiniLM"] = RankFusion(Fts5(), MiniLm(space))
        left_out = missing()
        for name, (make, _needs) in LEXICAL_RIVALS.items():
            if name not in left_out:
                engines[name] = make()
        for name, engine in engines.items():
            engine.index(collection["docs"])
            rows.setdefault(name, []).extend(_asked(engine, collection["queries"]))
    return rows


def _asked(engine: Engine, queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answered = []
    for query in queries:
        began = time.perf_counter()
        ranked = engine.search(query["text"], K)
        row: dict[str, Any] = measure(ranked, query["relevant"], K)
        row["ms"] = (time.perf_counter() - began) * 1000
        if query.get("old") and query.get("new"):
            both = {*query["old"], *query["new"]}
            first = next((name for name in ranked if name in both), "")
            row["update"] = "new" if first in query["new"] else "old" if first else "neither"
        answered.append(row)
    return answered


def _show(title: str, rows: Rows, seconds: float) -> None:
    questions = len(next(iter(rows.values())))
    print(f"\n### {title}: {questions} questions ({seconds:.0f} s)\n")
    print("| engine | Recall@10 | MRR@10 | nDCG@10 | p50 ms | new first |")
    print("|---|---|---|---|---|---|")
    means = {name: mean([row["ndcg@10"] for row in some]) for name, some in rows.items()}
    for name in sorted(rows, key=lambda name: -means[name]):
        some = rows[name]
        figures = " | ".join(f"{mean([row[what] for row in some]):.3f}" for what in MEASURES)
        speed = sorted(row["ms"] for row in some)[len(some) // 2]
        updates = [row["update"] for row in some if "update" in row]
        told = f"{updates.count('new')} of {len(updates)}" if updates else "–"
        print(f"| {name} | {figures} | {speed:.1f} | {told} |")
    _compare(rows)


def _compare(rows: Rows) -> None:
    """Print the paired differences of Beacon's modes to each single engine they are held against."""
    lexical = [rival for rival in LEXICAL_RIVALS if rival in rows]
    single = [*lexical, *({"MiniLM vectors"} & rows.keys())]
    rivals = {"Beacon exact": lexical, "Beacon lexical": lexical, "Beacon auto": single}
    shown = [name for name in rivals if name in rows]
    print(f"\n| nDCG@10 against | {' | '.join(shown)} |\n|---|{'---|' * len(shown)}")
    for rival in single:
        cells = [
            _against(rows[name], rows[rival]) if rival in rivals[name] else "" for name in shown
        ]
        print(f"| {rival} | {' | '.join(cells)} |")


def _against(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    mine, others = ([row["ndcg@10"] for row in some] for some in (ours, theirs))
    low, high = paired_interval(mine, others)
    verdict = "ahead" if low > 0 else "behind" if high < 0 else "no clear difference"
    return f"{mean(mine) - mean(others):+.3f} [{low:+.3f}, {high:+.3f}] {verdict}"


if __name__ == "__main__":
    sys.exit(main())
