"""What a search service may answer: a report, or a failed run that leaves what is known as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Say
from tests.faults.outside import KEY, Outside
from tests.faults.processes import Site
from tests.providers.servers import Scene, cut, html, says, slow, status

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

# What the search does in the second run of a topic -> the scene; how the run ends; a word of what it
# says.  None: it answers what it answered the first time.
SCENES: dict[str, tuple[Callable[[Outside], Scene | None], str, str]] = {
    "is down (503)": (lambda _o: status(503), "failed", "503"),
    "breaks off": (lambda _o: cut(), "failed", "was lost"),
    "answers with a web page": (lambda _o: html(), "failed", "didn’t return JSON"),
    "answers with another shape": (lambda _o: says("no results here"), "failed", "format"),
    "takes 3 s": (lambda o: slow(3, o.serp.stand_well), "succeeded", "Nothing new"),
    "finds nothing": (lambda o: o.serp.nothing, "succeeded", "Nothing new"),
    "finds only what was seen": (lambda _o: None, "succeeded", "Nothing new"),
}
TITLES = {f"Harbour cranes by search {n:02}": name for n, name in enumerate(SCENES)}
SEEN = (
    "SELECT s.url FROM memory_seenurl s JOIN memory_topic t ON t.id = s.topic_id"
    " WHERE t.title = %s ORDER BY 1"
)


@pytest.fixture(scope="module")
def second_runs(beacon: Site, outside: Outside) -> dict[str, Any]:
    """Run every topic once well and once with its scene; return the second runs by title.

    Each run has what was seen before it, under `seen`.
    """
    beacon.act("queue", *TITLES)
    beacon.ended(*TITLES, seconds=120)
    seen = {title: beacon.rows(SEEN, title) for title in TITLES}
    for title, name in TITLES.items():
        scene = SCENES[name][0](outside)
        if scene is not None:
            outside.scenes[title, "search"] = scene
    beacon.act("queue", *TITLES)
    until = time.monotonic() + 120
    while any(run.finished_at is None for run in beacon.runs(*TITLES)):
        assert time.monotonic() < until, beacon.logs()[-4000:]
        time.sleep(2)
        beacon.end_waits()  # a postponed run waits 30 s, then 120 s
    return {run.title: (run, seen[run.title]) for run in beacon.runs(*TITLES)}


@pytest.mark.parametrize("title", TITLES, ids=list(TITLES.values()))
def test_what_a_search_answers_ends_in_a_report_or_leaves_all_as_it_was(
    beacon: Site, outside: Outside, second_runs: dict[str, Any], say: Say, title: str
):
    (run, seen), name = second_runs[title], TITLES[title]
    _scene, ends, word = SCENES[name]
    said = run.error or str(
        beacon.value("SELECT body || delta FROM research_report WHERE run_id = %s", run.id)
    )
    asked = len(outside.queries(title)) - 2  # those of the first run
    say(
        f"a search that {name}",
        "a “nothing new” report or a failed run; seen URLs unchanged on failure",
        f"{run.status}, asked {asked} times in all: “{said.split('. ')[0][:100]}”",
    )

    assert run.status == ends, said
    assert word in said
    assert beacon.rows(SEEN, title) == seen
    assert asked <= 2 * 3 + 2 * 2
    assert KEY not in said
