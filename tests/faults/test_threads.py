"""The one worker of `make up`: its threads share a process, so they die and stop together."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.conftest import Say
from tests.faults.outside import Outside
from tests.faults.processes import Site, site
from tests.faults.stops import Gate

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

FIRST, SECOND = "Harbour cranes one", "Harbour cranes two"


@pytest.fixture
def outside() -> Iterator[Outside]:
    with Outside() as made:
        yield made


@pytest.fixture
def beacon(outside: Outside) -> Iterator[Site]:
    with site(**outside.variables) as made:
        made.start_threads()
        yield made


def _at_the_model(beacon: Site, outside: Outside) -> list[Gate]:
    """Queue two runs, and return when both wait for the model to write."""
    gates = [Gate(), Gate()]
    for title, gate in zip((FIRST, SECOND), gates, strict=True):
        outside.scenes[title, "write"] = gate
    beacon.act("queue", FIRST, SECOND)
    beacon.wait(lambda: all(gate.port for gate in gates))
    return gates


@pytest.mark.long
def test_runs_in_a_killed_process_continue_in_the_next(beacon: Site, outside: Outside, say: Say):
    gates = _at_the_model(beacon, outside)
    beacon.kill("worker")
    outside.scenes.clear()
    for gate in gates:
        gate.open()
    beacon.start_threads()
    beacon.end_leases()

    runs = beacon.ended(FIRST, SECOND, seconds=120)
    say(
        "kill -9 of a worker whose threads execute two runs",
        "both continue after their last finished step",
        ", ".join(f"{run.status}, attempt {run.attempt}" for run in runs),
    )
    assert [(r.status, r.number, r.attempt, r.crashes) for r in runs] == [
        ("succeeded", 1, 2, 1)
    ] * 2


def test_a_stopped_process_saves_the_progress_of_its_runs(beacon: Site, outside: Outside, say: Say):
    gates = _at_the_model(beacon, outside)
    for gate in gates:
        threading.Timer(2, gate.open).start()

    seconds = beacon.terminate("worker")
    outside.scenes.clear()
    waiting = [run.status for run in beacon.runs(FIRST, SECOND)]
    beacon.start_threads()
    beacon.end_waits()

    runs = beacon.ended(FIRST, SECOND, seconds=120)
    say(
        "SIGTERM to a worker whose threads execute two runs",
        "it ends within 25 s, and both continue without counting as crashed",
        f"ended after {seconds:.0f} s; " + ", ".join(run.status for run in runs),
    )
    assert seconds < 25
    assert waiting == ["queued"] * 2
    assert [(r.status, r.number, r.crashes) for r in runs] == [("succeeded", 1, 0)] * 2
