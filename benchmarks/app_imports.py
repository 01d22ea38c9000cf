"""Time and memory of an import from another app: `python -m benchmarks.app_imports [--mib 200]`.

Writes a ChatGPT export of that size with conversations of 40 messages, and previews and imports it in a
database of its own.  Prints seconds and the most memory that this process used beyond what it had before.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path

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


def write(path: Path, size: int) -> int:
    """Write an export of about `size` bytes; return its number of conversations."""
    chance, count = random.Random(26), 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while file.tell() < size:
            file.write("," if count else "")
            json.dump(conversation(count, chance), file)
            count += 1
        file.write("]")
    return count


def conversation(number: int, chance: random.Random) -> dict:
    """Return a conversation of 40 messages with 300 words each."""
    mapping, parent = {}, None
    for place in range(40):
        text = " ".join(chance.choices(WORDS, k=300))
        role = "assistant" if place % 2 else "user"
        content = {"content_type": "text", "parts": [text]}
        said = {
            "author": {"role": role},
            "content": content,
            "recipient": "all",
            "create_time": 1.7e9,
        }
        mapping[f"m{place}"] = {"message": said, "parent": parent}
        parent = f"m{place}"
    return {
        "title": f"Talk {number}",
        "id": f"c{number}",
        "current_node": parent,
        "mapping": mapping,
    }


def main() -> None:
    """Print a line for the preview and one for the import."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app_imports", description=__doc__)
    parser.add_argument("--mib", type=int, default=200)
    mib = parser.parse_args().mib
    with database() as folder:
        from memory.accounts.archive import app_exports
        from memory.accounts.archive.importer import ImportContext
        from memory.models import User

        owner = User.objects.create_user("kira")
        path = folder / "conversations.json"
        count = write(path, mib * 1024**2)
        print(f"{count:,} conversations, {path.stat().st_size / 1024**2:.0f} MiB")
        for name, only_look in (("preview", True), ("import", False)):
            had, started = _memory(), time.perf_counter()
            app = app_exports.app_of(path)
            outcome = app_exports.import_app_export(
                app_exports.items(path, app), ImportContext(owner, owner.actor, path.name, True), app,
                memories=True, documents=True, private=True, only_look=only_look,
            )  # fmt: skip
            seconds = time.perf_counter() - started
            more = _memory() - had
            print(
                f"{name}: {outcome.documents:,} documents, {seconds:.0f} s, {more:.0f} MiB more memory"
            )


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
