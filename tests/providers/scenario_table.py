"""The table in docs/dev/search-services.md: service x scenario -> what the run said.

    python -m tests.providers.scenario_table            prints it
    python -m tests.providers.scenario_table --write    puts it into the document

Each service's real adapter asks its loopback server once through `research.search.searching.ask`, with
its three tries (R47).  Two things differ from a run: pauses between tries are left out, and the
patience is half a second; what is printed names the run's own.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import django
import pytest

if __name__ == "__main__":  # the imports below need Django's settings
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    os.environ.setdefault("BEACON_DATA_DIR", tempfile.mkdtemp())
    os.environ.setdefault("DATABASE_URL", "postgres://nobody:x@127.0.0.1:1/none")  # never asked
    os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
    django.setup()

from beacon_site.net import http
from beacon_site.net.bounded import Limits
from beacon_site.search_services.base import (
    SearchOptions,
    SearchProfile,
    SearchProvider,
    get_search,
)
from beacon_site.search_services.catalogue import BY_NAME, CATALOGUE
from research.search import searching
from research.search.searching import Asked
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
    "ok": "answers with three results",
    "empty": "answers that there is nothing",
    "unauthorised": "refuses the key; without keys, a proxy wants a sign-in (401)",
    "rate": "too many requests for now (429, `Retry-After: 7` where the vendor sends one)",
    "quota": "the plan is used up; without plans, a proxy refuses (403)",
    "html": "a web page with status 200",
    "slow": "no answer within the time limit",
    "cut": "the connection closes in mid body",
    "500 then ok": "a fault of the vendor's, then an answer",
}
FEED_PATIENCE = Limits().whole_seconds
ENGINES_SILENT = {"results": [], "unresponsive_engines": [["google", "timeout"]]}
OWN: dict[str, dict[str, Scene]] = {
    "searxng": {
        "JSON is not enabled": html(403),
        "its engines are silent": lambda _request: json_answer(ENGINES_SILENT),
    },
    "wikipedia": {"its databases lag": wikipedia_error("maxlag", "Waiting for db1: 7 s lagged")},
    "arxiv": {"a bad query": arxiv_error()},
    "gdelt": {"a refusal in plain text with 200": text(GDELT_TOO_SHORT)},
}
"""What only one service does."""

ASKS_NOBODY = {
    "library": "cannot happen: it asks nobody, but reads the documents that Beacon holds",
    "sample": "cannot happen: it asks nobody, its articles come with Beacon",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one service did in one scenario: what a run makes of it and how often it was asked."""

    asked: Asked
    warnings: tuple[str, ...] = ()
    requests: int = 0

    @property
    def said(self) -> str:
        """Return what the run says."""
        asked = self.asked
        if asked.problem:
            told = searching.complaints([asked.as_json()])
        else:
            told = [f"{len(asked.hits)} hits" if asked.hits else "nothing found"]
        told += [warning for warning in self.warnings if warning not in told[0]]
        return _as_in_a_run("; ".join(told), asked.service)

    @property
    def then(self) -> str:
        """Return what the run does about it."""
        tries = "asked once" if self.asked.tries == 1 else f"asked {self.asked.tries} times"
        if self.asked.may_retry and self.asked.retry_after:
            return f"{tries}; may be tried again after {self.asked.retry_after:g} s"
        return f"{tries}; may be tried again" if self.asked.may_retry else tries


def measured() -> dict[tuple[str, str], Outcome]:
    """Return what came of each scenario of each service that sends requests.  Takes some seconds."""
    keyed = [SerpApiServer(key=SERPAPI_KEY), TavilyServer(), BraveServer(), SearxngServer()]
    every = [*keyed, *(kind() for kind in OPEN_SERVERS), FeedServer()]
    found: dict[tuple[str, str], Outcome] = {}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=len(every)))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(searching, "LONGEST_PAUSE", 0.0)
        patch.setattr(open_servers, "PATIENCE", FEED_PATIENCE)
        for server in every:
            server.__enter__()
        # Side by side: to stop one takes half a second.
        stack.callback(lambda: list(pool.map(lambda server: server.__exit__(), every)))
        for outcomes in pool.map(_promptly, every):
            found.update(outcomes)
        # Short only for this scenario: amid others a busy machine would look slow.
        patch.setattr(http, "PATIENCE", PATIENCE)
        patch.setattr(open_servers, "PATIENCE", PATIENCE)
        slow = pool.map(lambda server: _played(server, "slow"), every)
        found.update({(s.service, "slow"): o for s, o in zip(every, slow, strict=True)})
    return found


def _promptly(server: SearchServer) -> dict[tuple[str, str], Outcome]:
    """Return what came of all scenarios that end by themselves."""
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
    """Return a text with a run's own patience, and without the port of the moment."""
    seconds = FEED_PATIENCE if service == "feeds" else http.PATIENCE
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8888", text)
    return text.replace(f"{PATIENCE:g} seconds", f"{seconds:g} seconds")


# --- as Markdown ----------------------------------------------------------------------------------


def table(outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """Return the tables, one per service, in the order of the catalog."""
    return "\n\n".join(_section(service.name, outcomes) for service in CATALOGUE)


def _section(service: str, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    rows = [(name, *_cells(service, name, outcomes)) for name in SCENARIOS]
    rows += [(name, *_cells(service, name, outcomes)) for name in OWN.get(service, {})]
    lines = ["| scenario | what the run said | and did |", "|---|---|---|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return f"### {BY_NAME[service].label}\n\n" + "\n".join(lines)


def _cells(
    service: str, scenario: str, outcomes: Mapping[tuple[str, str], Outcome]
) -> tuple[str, str]:
    if service not in ASKS_NOBODY:
        outcome = outcomes[service, scenario]
        return outcome.said, outcome.then
    if scenario == "ok":
        return _found_at_home(service), "asked once"
    if scenario == "empty" and service == "library":
        return "nothing found; an empty library is not asked", "asked once"
    return ASKS_NOBODY[service], "–"


def _found_at_home(service: str) -> str:
    if service == "library":
        return "the documents that hold the query's words"
    hits = get_search(SearchProfile(service)).search(QUERY, SearchOptions())
    return f"{len(hits)} hits"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def written(document: str, tables: str) -> str:
    """Return the document with its tables replaced by these."""
    before, _begin, rest = document.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    legend = "\n".join(f"- **{name}**: {meaning}" for name, meaning in MEANING.items())
    return f"{before}{BEGIN}\n\n{legend}\n\n{tables}\n\n{END}{after}"


def main(arguments: Iterable[str], show: Callable[[str], object] = print) -> None:
    """Print the tables, or write them into the document."""
    tables = table(measured())
    if "--write" in arguments:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), tables))
        show(f"written: {DOCUMENT.relative_to(ROOT)}")
    else:
        show(tables)


if __name__ == "__main__":
    main(sys.argv[1:])
