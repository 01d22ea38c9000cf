"""A mounted folder with many files: `python -m benchmarks.agent_folders [--files 10000] [--tries 500]`.

Measures the first check of an agent's folder, later checks, both directions of an edit, and the list page.
Then it edits one file on both sides at random, and counts the lines that are nowhere afterwards.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.throwaway import database

WORDS = [
    "harbour",
    "fleet",
    "tide",
    "tea",
    "quay",
    "anchor",
    "pilot",
    "ferry",
    "crane",
    "signal",
    "buoy",
    "rope",
    "deck",
    "engine",
    "chart",
]
ROUNDS = 30
SHARED = "folders/vault/shared.md"


def main() -> None:
    """Print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent_folders", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tries", type=int, default=500)
    chosen = parser.parse_args()
    with database() as folder:
        vault = folder / "vault"
        _write(vault, chosen.files)
        from django.conf import settings
        from django.test import Client

        from memory.models import MemoryFile, User
        from memory.services.files import agent_folders
        from memory.services.files.saving import save_file

        settings.BEACON_AGENT_DIRS = {"vault": str(vault)}
        settings.ALLOWED_HOSTS = ["testserver"]
        owner = User.objects.create_user("kira", is_staff=True)
        started = time.perf_counter()
        while MemoryFile.objects.mounted("vault").count() < chosen.files:
            agent_folders.catch_up()
        print(f"first check of {chosen.files:,} files: {time.perf_counter() - started:.0f} s")
        _tell("check without changes", agent_folders.catch_up)
        one = vault / "f10" / "note10.md"

        def on_disk() -> None:
            one.write_text(one.read_text() + f"- {time.monotonic_ns()}\n")
            agent_folders.catch_up()

        def in_beacon() -> None:
            file = MemoryFile.objects.live().get(path="folders/vault/f10/note10.md")
            text = file.content + f"- {time.monotonic_ns()}\n"
            save_file(owner, file.path, text, by=owner.actor, seen=file.version)
            assert one.read_text() == text

        _tell("check after an edit on disk", on_disk)
        _tell("edit in Beacon until it's on disk", in_beacon)
        client = Client()
        client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
        for query in ("", "?q=harbour", "?cursor=" + _middle(client)):
            _tell(
                f"GET /agents/folders/{query[:12]}",
                lambda q=query: client.get(f"/agents/folders/{q}"),
            )
        print(f"{chosen.tries} edits on both sides: {_lost(owner, vault, chosen.tries)} lines lost")


def _write(vault: Path, count: int) -> None:
    chance = random.Random(26)
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "shared.md").write_text("# Shared\n\n- Begin.\n")
    for number in range(count - 1):
        place = vault / f"f{number % 200}"
        place.mkdir(exist_ok=True)
        lines = "".join(f"- {' '.join(chance.choices(WORDS, k=9))}\n" for _ in range(12))
        (place / f"note{number}.md").write_text(f"# Note {number}\n\n{lines}")


def _tell(name: str, act: Callable[[], Any]) -> None:
    taken = []
    for _round in range(ROUNDS):
        started = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - started))
    p95 = statistics.quantiles(taken, n=20)[-1]
    print(f"{name}: p50 {statistics.median(taken):.0f} ms, p95 {p95:.0f} ms")


def _middle(client: Any) -> str:
    return client.get("/agents/folders/").context["next_cursor"]


def _lost(owner: Any, vault: Path, tries: int) -> int:
    """Edit the shared file on both sides. Each line has a number of its own; return how many are nowhere."""
    from django.conf import settings

    from memory.models import FileDraft, MemoryFile, Revision
    from memory.services.files import agent_folders
    from memory.services.files.saving import save_file

    chance, dirs, path = random.Random(26), settings.BEACON_AGENT_DIRS, vault / "shared.md"
    for number in range(tries):
        # Without the setting, an edit in Beacon waits, so that both sides differ at the next check.
        settings.BEACON_AGENT_DIRS = dirs if chance.random() < 0.5 else {}
        if chance.random() < 0.5:
            file = MemoryFile.objects.live().get(path=SHARED)
            text = _with_line(file.content, f"- here {number}\n", chance)
            save_file(owner, SHARED, text, by=owner.actor, seen=file.version)
        else:
            path.write_text(_with_line(path.read_text(), f"- there {number}\n", chance))
        settings.BEACON_AGENT_DIRS = dirs
        if chance.random() < 0.6:
            agent_folders.catch_up()
    agent_folders.catch_up()
    texts = [
        path.read_text(),
        *MemoryFile.objects.filter(path=SHARED).values_list("content", flat=True),
        *FileDraft.objects.values_list("content", flat=True),
        *(str(one.after.get("content", "")) for one in Revision.objects.filter(label=SHARED)),
    ]
    return sum(not any(f" {n}\n" in text for text in texts) for n in range(tries))


def _with_line(text: str, line: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(chance.randint(1, len(lines)), line)
    return "".join(lines)


if __name__ == "__main__":
    main()
