"""Writes the lists in docs/dev/search-services.md: what a run says for each service and scenario.

    python -m tests.providers.scenario_table            prints them
    python -m tests.providers.scenario_table --write    writes them into the document

Each service's real adapter sends its loopback server one query by `research.services.runs.search.searching.ask`,
with up to three attempts (R47).  Unlike in a run, there are no pauses between attempts, and the
timeout is half a second.  The lists show the real timeout.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import django
import pytest

if __name__ == "__main__":  # the imports below need Django settings
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    os.environ.setdefault("BEACON_DATA_DIR", tempfile.mkdtemp())
    os.environ.setdefault("DATABASE_URL", "postgres://nobody:x@127.0.0.1:1/none")  # never used
    os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
    django.setup()

from beacon_site.net import http
from beacon_site.net.bounded import Limits
from beacon_site.providers.search.base import (
    BY_NAME,
    CATALOGUE,
    SearchOptions,
    SearchProvider,
    get_search,
)
from research.services.runs.search import searching
from research.services.runs.search.searching import QueryResult
from tests.providers import open_servers
from tests.providers.loopback import Scene, html, json_answer
from tests.providers.open_servers import (
    GDELT_TOO_SHORT,
    OPEN_SERVERS,
    FeedServer,
    arxiv_error,
    text,
    wikipedia_error,
)
from tests.providers.scenarios import PATIENCE, SCENARIOS, SearchServer
from tests.providers.search_servers import BraveServer, SearxngServer, SerpApiServer, TavilyServer

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "dev" / "search-services.md"
BEGIN = "<!-- what follows is written by: python -m tests.providers.scenario_table --write -->"
END = "<!-- until here -->"
QUERY = "postgres logical replication news"
SERPAPI_KEY = "serpapi-secret-0123456789"

MEANING = {
    "ok": "the service returns three results",
    "empty": "the service returns no results",
    "unauthorized": "the service rejects the key; if a service has no keys, a proxy requires a sign-in (401)",
    "rate": "the service reports too many requests (429, with `Retry-After: 7` if the vendor sends this header)",
    "quota": "the plan's quota is used up; if a service has no plans, a proxy blocks the request (403)",
    "html": "the service returns a web page with status 200",
    "slow": "the service doesn't respond within the time limit",
    "cut": "the connection is closed in the middle of the response",
    "500 then ok": "the service returns a server error first, and results at the second attempt",
}
FEED_PATIENCE = Limits().whole_seconds
ENGINES_SILENT = {"results": [], "unresponsive_engines": [["google", "timeout"]]}
OWN: dict[str, dict[str, Scene]] = {
    "searxng": {
        "JSON is off": html(403),
        "its engines don't answer": lambda _request: json_answer(ENGINES_SILENT),
    },
    "wikipedia": {"its databases lag": wikipedia_error("maxlag", "Waiting for db1: 7 s lagged")},
    "arxiv": {"a bad query": arxiv_error()},
    "gdelt": {"an error in plain text with status 200": text(GDELT_TOO_SHORT)},
}
"""Scenarios of only one service."""

SENDS_NO_REQUESTS = ("library", "sample")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one scenario of one service, and the number of requests."""

    asked: QueryResult
    warnings: tuple[str, ...] = ()
    requests: int = 0

    @property
    def said(self) -> str:
        """Return the text that the run shows."""
        asked = self.asked
        if asked.problem:
            told = searching.complaints([asked.as_json()])
        else:
            told = [f"{len(asked.hits)} hits" if asked.hits else "nothing found"]
        told += [warning for warning in self.warnings if warning not in told[0]]
        return _as_in_a_run("; ".join(told), asked.service)

    @property
    def then(self) -> str:
        """Return how many attempts the run makes, and whether it can retry."""
        tries = "1 attempt" if self.asked.tries == 1 else f"{self.asked.tries} attempts"
        if self.asked.may_retry and self.asked.retry_after:
            return f"{tries}, can be retried after {self.asked.retry_after:g} s"
        return f"{tries}, can be retried" if self.asked.may_retry else tries


def measured() -> dict[tuple[str, str], Outcome]:
    """Return the outcome of each scenario of each service that sends requests.  Takes seconds."""
    keyed = [SerpApiServer(key=SERPAPI_KEY), TavilyServer(), BraveServer(), SearxngServer()]
    every = [*keyed, *(kind() for kind in OPEN_SERVERS), FeedServer()]
    found: dict[tuple[str, str], Outcome] = {}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=len(every)))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(searching, "MAX_PAUSE", 0.0)
        patch.setattr(open_servers, "PATIENCE", FEED_PATIENCE)
        for server in every:
            server.__enter__()
        # In parallel, because stopping one takes half a second.
        stack.callback(lambda: list(pool.map(lambda server: server.__exit__(), every)))
        for outcomes in pool.map(_promptly, every):
            found.update(outcomes)
        # Only for this scenario: in the others, a busy machine would look slow.
        patch.setattr(http, "PATIENCE", PATIENCE)
        patch.setattr(open_servers, "PATIENCE", PATIENCE)
        slow = pool.map(lambda server: _played(server, "slow"), every)
        found.update({(s.service, "slow"): o for s, o in zip(every, slow, strict=True)})
    return found


def _promptly(server: SearchServer) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes of all scenarios except `slow`."""
    names = [name for name in SCENARIOS if name != "slow"]
    found = {(server.service, name): _played(server, name) for name in names}
    for name, scene in OWN.get(server.service, {}).items():
        server.forget()
        server.enqueue(*[scene] * searching.TRIES)
        found[server.service, name] = _outcome(server)
    return found


def _played(server: SearchServer, scenario: str) -> Outcome:
    server.forget()
    server.results = []
    server.play(scenario)
    return _outcome(server)


def _outcome(server: SearchServer) -> Outcome:
    options = SearchOptions()
    if isinstance(server, FeedServer):
        provider: SearchProvider = server.provider()
        options = server.options()
    else:
        provider = get_search(server.profile())
    asked = searching.ask(provider, QUERY, options)
    return Outcome(asked, tuple(getattr(provider, "warnings", ())), len(server.asked))


def _as_in_a_run(text: str, service: str) -> str:
    """Return a text with the timeout of a run and a fixed port."""
    seconds = FEED_PATIENCE if service == "feeds" else http.PATIENCE
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8888", text)
    return text.replace(f"{PATIENCE:g} seconds", f"{seconds:g} seconds")


# --- as Markdown ----------------------------------------------------------------------------------


def table(outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """Return a list of what most services do, and one for each service that differs."""
    services = [service.name for service in CATALOGUE if service.name not in SENDS_NO_REQUESTS]
    usual = {name: _most_common(name, services, outcomes) for name in SCENARIOS}
    sections = [_section("Most services", usual.items())]
    for service in services:
        rows = {name: _cells(service, name, outcomes) for name in SCENARIOS}
        rows = {name: cells for name, cells in rows.items() if cells != usual[name]}
        rows |= {name: _cells(service, name, outcomes) for name in OWN.get(service, {})}
        if rows:
            sections.append(_section(str(BY_NAME[service].label), rows.items()))
    return "\n\n".join(sections)


def _section(title: str, rows: Iterable[tuple[str, tuple[str, str]]]) -> str:
    lines = [f"{name} ({then}): {' '.join(said.split())}" for name, (said, then) in rows]
    return f"### {title}\n\n```text\n" + "\n".join(lines) + "\n```"


def _most_common(
    scenario: str, services: list[str], outcomes: Mapping[tuple[str, str], Outcome]
) -> tuple[str, str]:
    return Counter(_cells(name, scenario, outcomes) for name in services).most_common(1)[0][0]


def _cells(
    service: str, scenario: str, outcomes: Mapping[tuple[str, str], Outcome]
) -> tuple[str, str]:
    outcome = outcomes[service, scenario]
    return outcome.said.replace(str(BY_NAME[service].label), "SERVICE"), outcome.then


def written(document: str, tables: str) -> str:
    """Return the document with its lists replaced by these."""
    before, _begin, rest = document.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    legend = "\n".join(f"- **{name}**: {meaning}" for name, meaning in MEANING.items())
    return f"{before}{BEGIN}\n\n{legend}\n\n{tables}\n\n{END}{after}"


def main(arguments: Iterable[str], show: Callable[[str], object] = print) -> None:
    """Print the lists, or write them into the document."""
    tables = table(measured())
    if "--write" in arguments:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), tables))
        show(f"written: {DOCUMENT.relative_to(ROOT)}")
    else:
        show(tables)


if __name__ == "__main__":
    main(sys.argv[1:])
