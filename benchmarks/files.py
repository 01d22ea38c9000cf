"""How fast the largest memory file is at 2,000 revisions: save, restore, diff, history, blame.

    .venv/bin/python benchmarks/files.py [--revisions 2000]

It fills a month's file to its 256 KiB in a throw-away database (DATABASE_URL's server if set, else
an embedded one in a temporary folder), gives it that many revisions, each with its whole text,
and does each thing 9 times.  Ends with exit code 1 if the median of a save, a restore or a diff is
not below 100 ms, or a page of history or blame takes 300 ms or more than 12 queries.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

ROUNDS, MAX_MS, MAX_PAGE_MS, MAX_QUERIES = 9, 100.0, 300.0, 12
PATH = "episodes/2026-02.md"
OLDER = """
INSERT INTO memory_revision (owner_id, record_type, record_id, label, version, actor, reason,
    source, before, after, created)
SELECT owner_id, record_type, record_id, label, n, 'reflector', 'reflected on run ' || n,
       'run:' || n, before, after, now() - (%(size)s - n) * interval '1 hour'
  FROM memory_revision, generate_series(2, %(size)s) n
 WHERE record_id = %(file)s AND version = 1
"""


def main() -> int:
    """Make the file, measure, print the table; return the exit code."""
    options = argparse.ArgumentParser()
    options.add_argument("--revisions", type=int, default=2_000)
    asked = options.parse_args()
    with database():
        return _measure(asked.revisions)


def text_of(seed: int, size: int) -> str:
    """Return entries of drawn words, as many as fit into `size` bytes."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _word in range(8_000)]
    said, have = ["# 2026-02 Episodes\n\n> Summary: x\n"], 200
    while have < size - 2_000:
        day = f"2026-02-{rng.randint(1, 28):02}"
        lines = [f"## {' '.join(rng.choices(words, k=4))}", f"- Summary: {rng.choice(words)}"]
        lines += [f"- Date: {day}", f"- Task: {' '.join(rng.choices(words, k=14))}"]
        lines += [
            f"- {name}: {' '.join(rng.choices(words, k=22))}" for name in ("Findings", "Lesson")
        ]
        said.append("\n".join(lines) + "\n")
        have += len(said[-1]) + 1
    return "\n".join(said)


def _measure(revisions: int) -> int:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client

    from memory.services.files.saving import save_file
    from memory.services.files.texts import MAX_EPISODES

    owner = get_user_model().objects.create_user("bench")
    file = save_file(owner, PATH, text_of(1, MAX_EPISODES), by=owner.actor).file
    began = time.perf_counter()
    give_revisions(file, revisions)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE memory_revision")
    made = time.perf_counter() - began
    print(f"{file.size:,} bytes, {revisions:,} revisions made in {made:.0f} s", flush=True)
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    acts = [(name, _timed(act)) for name, act in _acts(owner).items()]
    pages = [(name, *_page(client, url)) for name, url in _pages().items()]
    return _told(acts, pages)


def give_revisions(file: Any, count: int) -> None:
    """Let a file of one version have so many revisions, each with its whole text."""
    from django.db import connection

    from memory.models import MemoryFile

    with connection.cursor() as cursor:
        cursor.execute(OLDER, {"size": count, "file": file.pk})
    MemoryFile.objects.filter(pk=file.pk).update(version=count)


def _acts(owner: Any) -> dict[str, Callable[[int], object]]:
    from beacon_site.text.diff import diff, folded
    from memory.services.files.reading import index_text, read_file
    from memory.services.files.saving import Act, append_to, patching, save_file, write
    from memory.services.files.texts import MAX_EPISODES

    by = owner.actor
    texts = [text_of(seed, MAX_EPISODES) for seed in (1, 2, 3)]
    lesson = "- Lesson: "

    def edit(turn: int) -> object:
        lines = read_file(owner, PATH).content.split("\n")
        place = next(n for n in range(len(lines) // 2, len(lines)) if lines[n].startswith(lesson))
        lines[place] = f"{lesson}changed the {turn}th time"
        return save_file(owner, PATH, "\n".join(lines), by=by)

    def patch(turn: int) -> object:
        lines = read_file(owner, PATH).content.split("\n")
        old = next(line for line in reversed(lines) if line.startswith(lesson))
        return write(owner, PATH, patching([(old, f"{lesson}patched {turn}")]), Act(by))

    return {
        "save, a line changed": edit,
        "patch of a line": patch,
        "append of an entry": lambda n: append_to(owner, PATH, f"## T{n}\n- Summary: s", by=by),
        "save joined with another's": lambda n: _joined(owner, n),
        "restore of an old version": lambda n: _restored(owner, n),
        "save, all rewritten": lambda n: save_file(owner, PATH, texts[1 + n % 2], by=by),
        "diff, a line changed": lambda n: folded(diff(texts[0], texts[0].replace("a", "b", 1))),
        "diff, all rewritten": lambda n: folded(diff(texts[0], texts[1])),
        "index of the files": lambda n: index_text(owner),
    }


def _restored(owner: Any, turn: int) -> object:
    """Change the file, so that there is something to restore; then a version from the middle."""
    from memory.services.files.saving import append_to, restore_version

    newest = append_to(owner, PATH, f"## More {turn}\n- Summary: s", by=owner.actor).file.version
    return lambda: restore_version(owner, PATH, newest // 2, by=owner.actor)


def _joined(owner: Any, turn: int) -> object:
    """Save an edit at the end that was based on the version before one at the beginning."""
    from memory.services.files.reading import read_file
    from memory.services.files.saving import save_file

    file = read_file(owner, PATH)
    lines = file.content.split("\n")
    first, last = list(lines), list(lines)
    first[9], last[-2] = f"- Lesson: first {turn}", f"- Lesson: last {turn}"
    save_file(owner, PATH, "\n".join(first), by=owner.actor)
    return lambda: save_file(owner, PATH, "\n".join(last), by=owner.actor, seen=file.version).merged


def _timed(act: Callable[[int], object]) -> tuple[float, float, float]:
    """Return wall, own processor, and Postgres' processor time; of a further act that it gives, those.

    Medians, but a mean of Postgres', which the system counts in steps of 10 ms.
    """
    took = []
    for turn in range(ROUNDS):
        began = _clocks()
        further = act(turn)
        if callable(further):
            began = _clocks()
            assert further()
        took.append([now - then for now, then in zip(_clocks(), began, strict=True)])
    wall, own, theirs = zip(*took, strict=True)
    return *(statistics.median(one) * 1000 for one in (wall, own)), statistics.mean(theirs) * 1000


def _clocks() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), _postgres()


def _postgres() -> float:
    """Return the processor time of this connection's server process; 0 where it is not here."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone() or (0,)
    try:
        name, _end, told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return 0.0
    ticks = sum(map(int, told.split()[11:13])) if "postgres" in name else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _pages() -> dict[str, str]:
    from django.urls import reverse

    names = {"page: the file": "file", "page: history": "file-history", "page: blame": "file-blame"}
    return {said: reverse(f"memory:{name}", args=[PATH]) for said, name in names.items()}


def _page(client: Any, url: str) -> tuple[int, tuple[float, float, float]]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
        queries = len(captured)
    assert response.status_code == 200, (url, response.status_code)
    return queries, _timed(lambda _turn: [client.get(url)])


def _told(acts: list[Any], pages: list[Any]) -> int:
    print("| what | queries | median (processor: its own + that of Postgres) |\n|---|---|---|")
    rows = [(name, "", clocks) for name, clocks in acts] + pages
    for name, queries, (took, own, theirs) in rows:
        print(f"| {name} | {queries} | {took:.0f} ms ({own:.0f} + {theirs:.0f}) |")
    is_slow = any(clocks[0] >= MAX_MS for _name, clocks in acts)
    is_slow |= any(q > MAX_QUERIES or took[0] >= MAX_PAGE_MS for _name, q, took in pages)
    print("too slow" if is_slow else "all within what issue 5 promises")
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
