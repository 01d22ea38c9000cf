"""CPU time of each kind of page, in Python and in Postgres.

    .venv/bin/python -m benchmarks.page_cost [--full] [words of a page's name …]

It asks each page that benchmarks/load.py asks, and Context with a message and a topic, 20 times
through all middleware, over its data (5,000 notes, 50 topics of 10 runs; `--full`: 100,000 notes,
500 topics of 20 runs), and prints the median of the milliseconds of processor.  `PROFILE=folder` writes what pyinstrument says of
each there; it has to be installed for that.  Nothing is promised, so it always ends with 0.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

ROUNDS, WARM = 20, 3


def main(words: list[str]) -> int:
    """Make the data, ask the pages, print the table; return the exit code."""
    with database() as folder:
        from django.template.base import Template

        from benchmarks import load_data
        from research.services.reports import since_read

        is_full = "--full" in words
        words = [word for word in words if word != "--full"]
        sizes = load_data.Sizes() if is_full else load_data.Sizes.quick()
        world = load_data.make(sizes, folder, "http://testserver")
        while since_read.catch_up():  # as the worker would
            pass
        pages = {name: paths[0] for name, paths in world.given["pages"].items()}
        pages["context"] = f"/agents/?message=w40+w90&topic={world.topics[0].slug}"
        # Tests get a signal for each template, which costs more than many a template.
        plainly = mock.patch.object(Template, "_render", lambda self, at: self.nodelist.render(at))
        with plainly:
            _measure(world.owner, {n: p for n, p in pages.items() if _is_asked(n, words)})
    return 0


def _is_asked(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


def _measure(owner: Any, pages: dict[str, str]) -> None:
    from django.test import Client

    from benchmarks.processor import Meter

    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    print(f"| page | Python, ms | Postgres, ms |\n|---|---|---|  ({ROUNDS} requests each)")
    for name, path in pages.items():
        for _round in range(WARM):
            assert client.get(path).status_code == 200, path
        meter = Meter()
        spent, both = [], meter.now()
        with _profiled(name):
            for _round in range(ROUNDS):
                began = time.process_time()
                client.get(path)
                spent.append((time.process_time() - began) * 1000)
            beside = (meter.now() - both - sum(spent)) / ROUNDS
        print(f"| {name} | {statistics.median(spent):.1f} | {beside:.1f} |", flush=True)


def _profiled(name: str) -> Any:
    """Return what writes a profile of what happens inside it, if that is asked for."""
    folder = os.environ.get("PROFILE")
    if not folder:
        return nullcontext()
    from contextlib import contextmanager

    from pyinstrument import Profiler

    @contextmanager
    def profiled() -> Any:
        with Profiler() as profiler:
            yield
        target = Path(folder) / f"{name.replace(' ', '-')}.txt"
        target.write_text(profiler.output_text(show_all=True, time="percent_of_total"))

    return profiled()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
