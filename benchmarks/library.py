"""How fast a folder of documents is imported into the library, and searched.

    .venv/bin/python benchmarks/library.py --folder /usr/share/doc --most 1000

It copies up to `--most` readable files into a temporary folder, imports them (all, then with
nothing changed, then with one file in twenty touched), and asks queries made of the documents' own
titles, as a run does.  The data is in a temporary database (DATABASE_URL's server if set,
else an embedded one).  Times are wall time; `cpu` is this process's share, without Postgres' and
without the reader's of HTML and PDF.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

QUERIES = 200


def main() -> int:
    """Copy the files, start what is needed, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, required=True, help="a folder of real documents")
    parser.add_argument("--most", type=int, default=1000, help="files to take (default 1000)")
    asked = parser.parse_args()
    with database() as place:
        library = place / "benchmarked"
        files = _copied(asked.folder, library, asked.most)
        if not files:
            print(f"no readable document below {asked.folder}", file=sys.stderr)
            return 1
        _measure(library, files)
    return 0


def _copied(folder: Path, library: Path, most: int) -> list[Path]:
    """Copy readable files, evenly over the folder, and return the copies."""
    from memory.services.library.reading import MAX_BYTES, media_type_of

    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and media_type_of(path.name) and 0 < path.stat().st_size <= MAX_BYTES
    ]
    step = max(1, len(found) // most)
    copies = []
    for path in found[::step][:most]:
        copy = library / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copies.append(Path(shutil.copy2(path, copy)))
    return copies


def _measure(library: Path, files: list[Path]) -> None:
    from django.contrib.auth import get_user_model

    from memory.services.library import folder as library_folder

    owner = get_user_model().objects.create_user("bench", is_staff=True)
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"{len(files)} files, {size:.1f} MB")
    print(f"{'':28}{'wall s':>9}{'cpu s':>9}{'files/s':>9}")

    def look() -> Any:
        return library_folder.scan_folder(owner, library)

    _row("first look", look, len(files))
    _row("nothing changed", look, len(files))
    for path in files[::20]:
        path.write_bytes(path.read_bytes() + b"\nOne line more.\n")
    _row("one in twenty changed", look, len(files[::20]))
    _searches(owner, library)


def _row(name: str, act: Callable[[], Any], count: int) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:28}{wall:9.2f}{cpu:9.2f}{count / wall:9.1f}")


def _searches(owner: Any, library: Path) -> None:
    """Print what the queries took, as the page asks them and as a run does."""
    from django.conf import settings
    from django.utils import timezone

    from beacon_site.providers.search.base import SearchOptions
    from memory.models import LibraryDocument, LibraryFolder
    from memory.services.library.documents import LibrarySearch, find

    # Looked at just now, so that the searches do not look again.
    settings.BEACON_LIBRARY_DIR = str(library)
    LibraryFolder.objects.create(owner=owner, folder=str(library), checked_at=timezone.now())
    titles = list(LibraryDocument.objects.live().values_list("title", flat=True))
    chosen = random.Random(7).choices(titles, k=QUERIES)
    search = LibrarySearch(owner).search
    _spread("search on its page", [partial(find, owner, title) for title in chosen])
    asked = [
        partial(search, f"{title} release announcement 2026", SearchOptions(about=title))
        for title in chosen
    ]
    _spread("search by a run", asked)


def _spread(name: str, acts: Sequence[Callable[[], object]]) -> None:
    taken = []
    for act in acts:
        began = time.perf_counter()
        act()
        taken.append((time.perf_counter() - began) * 1000)
    slowest = statistics.quantiles(taken, n=20)[-1]
    print(f"{name:28} p50 {statistics.median(taken):6.1f} ms   p95 {slowest:6.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
