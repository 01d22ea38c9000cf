"""The number of queries of every page in every state, with the data of the browser tests.

    .venv/bin/python -m benchmarks.page_queries [words of a page's name …]

It puts the cast into a throw-away database, asks each place of `tests/browser/places.py` twice
through all middleware, prints the second count, most first, and ends with exit code 1 if one takes
more than 12 besides those for session and user (MORE says which may, and why).  `SHOW=1` prints the
queries of those that are named.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

MAX = 2 + 12
MORE = {
    # Two times two recalls: rules and summaries, and observations of the topic and of all.
    "context topic": 38,
    "recall notices": 15,  # what was superseded is followed to what replaced it
}


def main(words: list[str]) -> int:
    """Make the cast, ask its pages, print the table; return the exit code."""
    os.environ["BEACON_RUNS_PER_HOUR"] = "500"  # the cast starts more than a person may
    with database():
        from tests.browser import cast

        with contextlib.redirect_stdout(io.StringIO()) as said:
            cast.main()
        return _measure(json.loads(said.getvalue().strip().splitlines()[-1]), words)


def _measure(found: dict[str, str], words: list[str]) -> int:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from tests.browser import places

    clients: dict[str, Any] = {"": Client()}
    for name in (places.FULL, places.EMPTY):
        clients[name] = Client()
        owner = get_user_model().objects.get(username=name)
        clients[name].force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    asked = {
        (place.path.partition("#")[0], place.who): place.name
        for place in places.chosen(places.places(found), words)
    }
    rows = []
    for (path, who), name in asked.items():
        clients[who].get(path)
        status, queries = _ask(clients[who], path)
        rows.append((len(queries), status, name, path))
        if words and os.environ.get("SHOW"):
            print(f"--- {name}", *queries, sep="\n")
    for row in sorted(rows, reverse=True):
        print(f"{row[0]:>4}  {row[1]}  {row[2]:<40} {row[3][:80]}")
    return int(any(row[0] > MORE.get(row[2], MAX) for row in rows))


def _ask(client: Any, path: str) -> tuple[int, list[str]]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
        answer.getvalue()
    return answer.status_code, [one["sql"] for one in captured]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
