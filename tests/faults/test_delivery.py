"""Duplicate messages, several schedulers, and workers that are stopped."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.conftest import Say
from tests.faults.outside import Outside
from tests.faults.processes import Site
from tests.faults.stops import Gate

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


RUN = "research.tasks.execute_run"
UNENDED_STEPS = (
    "SELECT count(*) FROM research_step WHERE run_id = %s AND state IN ('waiting', 'running')"
)


def _calls(outside: Outside, titles: list[str]) -> list[tuple[int, ...]]:
    return [tuple(outside.calls(t, kind) for kind in ("plan", "search", "write")) for t in titles]


def test_a_message_delivered_four_times_at_once_makes_one_run(
    beacon: Site, outside: Outside, say: Say
):
    titles = [f"Harbour twins {n}" for n in range(6)]
    with beacon.paused("worker"):
        beacon.act("queue", *titles)
        for run in beacon.runs(*titles):
            beacon.send(RUN, run.id, queue="research", times=3)
    runs = beacon.ended(*titles)
    calls = _calls(outside, titles)
    say(
        "each of 6 messages delivered 4 times at once",
        "0 duplicate rows, 0 double calls",
        f"{len(runs)} runs, {sum(r.reports for r in runs)} reports, "
        f"{sum(sum(c) for c in calls) - 24} double calls",
    )

    assert [(r.status, r.number, r.attempt, r.reports) for r in runs] == [
        ("succeeded", 1, 1, 1)
    ] * 6
    assert calls == [(1, 2, 1)] * 6


@pytest.mark.long
def test_a_message_delivered_again_during_and_after_its_run_changes_nothing(
    beacon: Site, outside: Outside, say: Say
):
    title = "Harbour echo"
    gate = outside.scenes[title, "write"] = Gate()
    beacon.act("queue", title)
    beacon.wait(lambda: gate.port)
    [run] = beacon.runs(title)
    beacon.send(RUN, run.id, queue="research", times=3)
    time.sleep(1)  # all are taken, and postponed
    del outside.scenes[title, "write"]
    gate.answer(outside.good(title, "write", outside.chat.asked[-1].prompt))
    beacon.ended(title)
    # What follows a run counts on its row; it is over before the row is compared.
    beacon.wait(lambda: not beacon.value(UNENDED_STEPS, run.id))
    before = beacon.runs(title)
    beacon.send(RUN, run.id, queue="research", times=3)
    time.sleep(1)
    after = beacon.runs(title)
    calls = _calls(outside, [title])
    say(
        "a message delivered 3 times more during its run, 3 times after it",
        "0 duplicate rows, 0 double calls",
        f"{len(after)} run, {after[0].reports} report, {sum(calls[0]) - 4} double calls",
    )

    assert before == after
    assert [(r.status, r.number, r.attempt, r.reports) for r in after] == [("succeeded", 1, 1, 1)]
    assert calls == [(1, 2, 1)]


@pytest.mark.parametrize(
    ("beats", "seconds"),
    [
        pytest.param(3, 20, marks=pytest.mark.long),
        pytest.param(2, 60, marks=pytest.mark.long),
        pytest.param(3, 60, marks=pytest.mark.long),
    ],
)
def test_several_beats_start_one_run_a_slot(beacon: Site, say: Say, beats: int, seconds: int):
    titles = [f"Harbour slots {beats} {seconds} {n:02}" for n in range(20)]
    more = [f"beat{n}" for n in range(2, beats + 1)]
    for name in more:
        beacon.start_beat(name)
    slots: list[datetime] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(slots) < 2:
        slots.append(datetime.fromisoformat(beacon.act("due", "1", *titles)))
        # Beats tick every 15 s; a burst on top of that makes ticks that work at the same time.
        beacon.tick(times=2 * beats)
        beacon.wait(lambda: len(beacon.runs(*titles)) >= 20 * len(slots))
        beacon.ended(*titles, seconds=90)
    for name in more:
        beacon.terminate(name)
    runs = beacon.runs(*titles)
    a_slot = [sum(run.scheduled_for == slot for run in runs) for slot in slots]
    say(
        f"{beats} beats for {seconds} s with 20 topics due",
        "exactly 20 runs per scheduled time",
        f"{len(slots)} slots, runs in each: {', '.join(map(str, a_slot))}",
    )

    assert a_slot == [20] * len(slots)
    assert len(runs) == 20 * len(slots)
    assert {run.status for run in runs} == {"succeeded"}


@pytest.mark.long
def test_a_worker_told_to_stop_during_four_runs_lets_go_of_them_and_all_resume(
    beacon: Site, outside: Outside, say: Say
):
    titles = [f"Harbour stop {n}" for n in range(4)]
    gates = {title: Gate() for title in titles}
    outside.scenes |= {(title, "write"): gate for title, gate in gates.items()}
    beacon.act("queue", *titles)
    beacon.wait(lambda: all(gate.port for gate in gates.values()))
    took = beacon.terminate("worker")
    left = [run.status for run in beacon.runs(*titles)]
    for title, gate in gates.items():
        del outside.scenes[title, "write"]
        gate.open()
    began = time.monotonic()
    beacon.start_worker(queues="research", children=4)
    runs = beacon.ended(*titles, seconds=120)
    say(
        "SIGTERM during 4 runs",
        "a warm stop within 20 s, all resume",
        f"stopped after {took:.1f} s, {left.count('queued')} of 4 queued, all over "
        f"{time.monotonic() - began:.0f} s after the new start, 0 planned or searched again",
    )

    assert took < 2 * 20
    assert left == ["queued"] * 4
    assert [(r.status, r.number, r.crashes) for r in runs] == [("succeeded", 1, 0)] * 4
    assert _calls(outside, titles) == [(1, 2, 2)] * 4
