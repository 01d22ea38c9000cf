"""Postgres restarted, and connections cut: no half-saved report, and no edit lost without a word."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from signal import Signals

import httpx
import pytest

from tests.conftest import Say
from tests.faults.broken import FAST, IMMEDIATE, Broken
from tests.faults.outside import Outside
from tests.faults.person import words
from tests.faults.stops import Gate, Stops

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(300),
]

HELD_AT = ("model plan", "keeping a page", "saving the report", "saving the number")


def _hold(broken: Broken, outside: Outside, stops: Stops, titles: list[str]) -> Gate:
    """Let one run come to each of the places and wait there; return the gate of the model's."""
    gate = outside.scenes[titles[0], "plan"] = Gate()
    for title, place in zip(titles[1:], HELD_AT[1:], strict=True):
        stops.at(title, place)
    broken.site.act("queue", *titles)
    broken.site.wait(lambda: gate.port and all(stops.caught(title) for title in titles[1:]))
    return gate


def _whole(broken: Broken, titles: list[str], *, is_quick: bool = True) -> list[tuple[object, ...]]:
    """Wait until the runs have ended; return status, number, reports and facts of each."""
    if is_quick:
        time.sleep(3)  # what can continue by itself does
        broken.site.end_leases()
        broken.site.end_waits()
    counts = "SELECT count(*) FROM memory_topicfact f JOIN memory_topic t ON t.id = f.topic_id WHERE t.title = %s"
    return [
        (run.status, run.number, run.reports, broken.site.value(counts, run.title))
        for run in broken.site.ended(*titles, seconds=200)
    ]


def _half_saved(broken: Broken, titles: list[str]) -> int:
    """Return how many of the runs have a report without a number, or a number without a report."""
    return sum((run.number is None) != (run.reports == 0) for run in broken.site.runs(*titles))


@pytest.mark.parametrize(
    ("how", "is_quick"),
    [
        pytest.param(IMMEDIATE, True, id="immediate, time made to pass", marks=pytest.mark.long),
        pytest.param(IMMEDIATE, False, id="immediate", marks=pytest.mark.long),
        pytest.param(FAST, False, id="fast", marks=pytest.mark.long),
    ],
)
def test_a_restart_under_four_runs_leaves_no_half_saved_report(
    broken: Broken, outside: Outside, say: Say, how: Signals, is_quick: bool
):
    name = "immediate" if how == IMMEDIATE else "fast"
    titles = [f"Harbour {name} {is_quick} {n}" for n in range(4)]
    with Stops(broken.site) as stops:
        gate = _hold(broken, outside, stops, titles)
        gone = broken.restart("postgres", how)
        half = _half_saved(broken, titles)
        began = time.monotonic()
    del outside.scenes[titles[0], "plan"]
    gate.answer(outside.good(titles[0], "plan"))
    found = _whole(broken, titles, is_quick=is_quick)
    took = time.monotonic() - began
    say(
        f"Postgres restarted ({name}) under 4 runs: in plan, read and twice within the save",
        "no half-saved report; each run ends as Run #1",
        f"{half} half-saved, {found.count(('succeeded', 1, 1, 1))} of 4 succeeded "
        + ("(leases ended manually)" if is_quick else f"{took:.0f} s after it was back")
        + f", gone for {gone:.0f} s",
    )

    assert half == 0
    assert found == [("succeeded", 1, 1, 1)] * 4
    assert took < 2 * 90


def test_cut_connections_under_a_run_cost_a_short_wait_and_nothing_else(
    broken: Broken, outside: Outside, say: Say
):
    title = "Harbour severed"
    gate = outside.scenes[title, "write"] = Gate()
    broken.site.act("queue", title)
    broken.site.wait(lambda: gate.port)
    broken.postgres.cut()
    del outside.scenes[title, "write"]
    gate.answer(outside.good(title, "write", outside.chat.asked[-1].prompt))
    found = _whole(broken, [title])
    say(
        "every connection to Postgres cut during a run",
        "no half-saved report; the run ends as Run #1",
        f"{found[0][0]} as Run #{found[0][1]}, {found[0][2]} report",
    )

    assert found == [("succeeded", 1, 1, 1)]


def _fact(broken: Broken, title: str, text: str) -> httpx.Response:
    return broken.person.post(
        f"/topics/{title.lower().replace(' ', '-')}/facts/", htmx=True, text=text, url=""
    )


def _stored(broken: Broken, text: str) -> int:
    query = "SELECT count(*) FROM memory_topicfact WHERE text = %s"
    return int(broken.site.value(query, text))


@pytest.mark.long
def test_an_edit_while_postgres_restarts_is_saved_or_refused_whole_and_saved_the_next_time(
    broken: Broken, say: Say
):
    title, text = "Harbour edits", "The harbour has 14 cranes."
    broken.site.act("topics", title)
    assert broken.person.get("/topics/").status_code == 200
    broken.postgres.close()
    refused, listed = _fact(broken, title, text), broken.person.get("/topics/")
    slowest = broken.person.seconds
    broken.postgres.heal()
    stored = _stored(broken, text)
    again = [_fact(broken, title, text), broken.person.get("/topics/")]
    say(
        "Postgres gone during an edit and a list, and back",
        "the whole edit is saved or rejected, and the answer says which; the next try works",
        f"edit {refused.status_code}, list {listed.status_code} "
        f"after {slowest:.1f} s; then {again[0].status_code} and {again[1].status_code}",
    )

    assert (refused.status_code, stored) in [(200, 1), (503, 0)]
    assert listed.status_code in (200, 503)
    assert listed.status_code == 200 or "The database isn’t responding" in words(listed)
    assert [answer.status_code for answer in again] == [200, 200]
    assert _stored(broken, text) == 1


def test_an_edit_that_postgres_restarts_under_is_refused_whole_and_saved_the_next_time(
    broken: Broken, say: Say
):
    title, text = "Harbour restarts", "The harbour has 16 cranes."
    broken.site.act("topics", title)
    with Stops(broken.site) as stops, ThreadPoolExecutor(1) as pool:
        stops.at(title, "adding a fact")
        edit = pool.submit(_fact, broken, title, text)
        broken.site.wait(lambda: stops.caught(title))
        broken.restart("postgres", IMMEDIATE, down=0.5)
        answer = edit.result(timeout=60)
    stored = _stored(broken, text)
    again = _fact(broken, title, text)
    say(
        "Postgres restarted (immediate) in the middle of an edit",
        "the whole edit is saved or rejected; the next try works",
        f"edit {answer.status_code}, {stored} stored; then {again.status_code}",
    )

    assert (answer.status_code, stored) in [(200, 1), (503, 0)]
    assert again.status_code == 200
    assert _stored(broken, text) == 1


@pytest.mark.long
def test_connections_cut_behind_the_pages_are_made_again_unseen(broken: Broken, say: Say):
    title = "Harbour pools"
    broken.site.act("topics", title)
    # Postgres may still be recovering from the test before, and each web process has its own pool.
    broken.site.wait(
        lambda: all(broken.person.get("/topics/").status_code == 200 for _page in range(8))
    )
    for page in range(4):
        assert broken.person.get("/topics/").status_code == 200, page
    broken.postgres.cut()
    edit = _fact(broken, title, "The harbour has 15 cranes.")
    broken.postgres.cut()
    listed = broken.person.get("/topics/")
    say(
        "every connection to Postgres cut between pages",
        "the edit is saved, the list answers",
        f"edit {edit.status_code}, list {listed.status_code}",
    )

    assert (edit.status_code, listed.status_code) == (200, 200)
    assert _stored(broken, "The harbour has 15 cranes.") == 1
