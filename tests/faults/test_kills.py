"""kill -9 of the worker's child at every place of a run, and of a task that always dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from tests.conftest import Say
from tests.faults.outside import Outside
from tests.faults.processes import Site
from tests.faults.stops import Gate, Stops

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

# Where the run is when its process is killed -> the calls that it can repeat for that.
BOUNDARIES = {
    f"step {name} running": ""
    for name in (
        "load_memory", "plan", "search", "filter_seen", "read", "write", "verify", "save"
    )
}  # fmt: skip
INSIDE = {
    "loading": "",
    "model plan": "plan",  # asked, and the model has not answered yet
    "recording a call": "plan",  # answered, and not yet written down
    "step plan done": "plan",
    "keeping hits": "search",
    "filtering": "",
    "keeping a page": "",
    "model write": "write",
    "step write done": "write",
    "step verify done": "",
    "saving the report": "",
    "saving the number": "",
    "step save done": "",
}
ALL = BOUNDARIES | INSIDE
# In `make test-slow`: in the middle of a step, between two, and before and inside the last.
FEW = ("step read running", "model write", "step verify done", "saving the number")
FULL = os.environ.get("BEACON_TEST_FAULTS") == "full"
PLACES = ALL if FULL else {place: ALL[place] for place in FEW}
WHOLE = "Harbour whole"
TITLES = {f"Harbour cranes {n:02}": place for n, place in enumerate(PLACES)}


class Trap:
    """The places at which runs are killed, each once, and when that was."""

    def __init__(self, beacon: Site, outside: Outside, stops: Stops) -> None:
        self._beacon, self._outside, self._stops = beacon, outside, stops
        self._gates: dict[str, tuple[Gate, tuple[str, str]]] = {}
        self.killed: dict[str, float] = {}
        for title, place in TITLES.items():
            self._set(title, place)

    def _set(self, title: str, place: str) -> None:
        if place.startswith("model "):
            asked = (title, place.removeprefix("model "))
            self._gates[title] = (Gate(), asked)
            self._outside.scenes[asked] = self._gates[title][0]
        else:
            self._stops.at(title, place)

    def spring(self) -> bool:
        """Kill whatever has come to its place; say whether all have been."""
        for title in TITLES.keys() - self.killed.keys():
            gate = self._gates.get(title)
            port = gate[0].port if gate else self._stops.caught(title)
            if port is None:
                continue
            os.kill(self._beacon.child_at(port), signal.SIGKILL)
            self.killed[title] = time.monotonic()
            if gate:
                del self._outside.scenes[gate[1]]
                gate[0].open()
            else:
                self._stops.lift(title)
        return len(self.killed) == len(TITLES)


class Resumed(NamedTuple):
    """How the killed runs continued."""

    seconds: dict[str, float]  # from kill to second attempt, by title
    caught_twice: set[str]  # on a slow machine: already resumed when the whole worker was killed


@pytest.fixture(scope="module")
def resumed(beacon: Site, outside: Outside) -> Resumed:
    """Kill one child at each place, then the whole worker, and start another; wait for all."""
    with Stops(beacon) as stops:
        trap = Trap(beacon, outside, stops)
        beacon.act("queue", *TITLES)
        beacon.wait(trap.spring, seconds=180)
        gate = outside.scenes[WHOLE, "write"] = Gate()
        beacon.act("queue", WHOLE)
        beacon.wait(lambda: gate.port)
        beacon.kill("worker")
        trap.killed[WHOLE] = time.monotonic()
        caught_twice = {
            run.title for run in beacon.runs(*TITLES) if run.attempt > 1 and not run.finished_at
        }
        del outside.scenes[WHOLE, "write"]
        gate.open()
        beacon.start_worker(queues="research", children=4)
        return Resumed(_resumed(beacon, trap.killed), caught_twice)


def _resumed(beacon: Site, killed: dict[str, float]) -> dict[str, float]:
    """Return the seconds from kill to second attempt by title, once all runs are over."""
    seconds: dict[str, float] = {}

    def all_over() -> bool:
        runs = beacon.runs(*killed)
        for run in runs:
            if run.attempt > 1 and run.title not in seconds:
                seconds[run.title] = time.monotonic() - killed[run.title]
        return all(run.finished_at for run in runs)

    beacon.wait(all_over, seconds=240)
    return seconds


def _calls_too_many(outside: Outside, titles: Iterable[str]) -> list[str]:
    """Return the topics that paid for a finished step again."""
    wrong = []
    for title in titles:
        place = TITLES[title]
        again = PLACES[place]
        for kind, once in (("plan", 1), ("search", 2), ("write", 1)):
            most = once + (2 if kind == "search" else 1) * (again == kind)
            if not once <= outside.calls(title, kind) <= most:
                wrong.append(f"{place}: {outside.calls(title, kind)} x {kind}")
    return wrong


def test_a_child_killed_at_any_place_costs_no_report_no_number_and_no_call_of_a_finished_step(
    beacon: Site, outside: Outside, resumed: Resumed, say: Say
):
    twice = resumed.caught_twice
    runs = [
        (r.status, r.number, r.crashes - (r.title in twice), r.reports)
        for r in beacon.runs(*TITLES)
    ]
    wrong = _calls_too_many(outside, TITLES.keys() - twice)
    slowest = max(seconds for title, seconds in resumed.seconds.items() if title != WHOLE)
    say(
        f"kill -9 of the worker's child at {len(PLACES)} places: before and inside each step",
        "succeeded as the one Run #1, no call of a finished step repeated, resumed within 90 s",
        f"{runs.count(('succeeded', 1, 1, 1))} of {len(runs)} succeeded, {len(wrong)} extra calls, "
        f"resumed after at most {slowest:.0f} s",
    )

    assert runs == [("succeeded", 1, 1, 1)] * len(PLACES)
    assert wrong == []
    assert len(twice) <= 4  # no more than the worker had children
    assert slowest < 2 * 90


def test_a_run_whose_whole_worker_is_killed_continues_with_another_behind_its_last_finished_step(
    beacon: Site, outside: Outside, resumed: Resumed, say: Say
):
    [run] = beacon.runs(WHOLE)
    calls = [outside.calls(WHOLE, kind) for kind in ("plan", "search", "write")]
    say(
        "kill -9 of the whole worker, another started",
        "the run resumes within 90 s",
        f"{run.status}, resumed after {resumed.seconds[WHOLE]:.0f} s, {calls[0]} plan and {calls[1]} "
        "searches, as in an undisturbed run",
    )

    assert (run.status, run.number, run.crashes, run.reports) == ("succeeded", 1, 1, 1)
    assert calls == [1, 2, 2]
    assert resumed.seconds[WHOLE] < 2 * 90


class Killer(Gate):
    """A model that kills its caller."""

    def __init__(self, beacon: Site) -> None:
        super().__init__()
        self.deaths = 0
        self._beacon = beacon

    def __call__(self, request):
        os.kill(self._beacon.child_at(int(request.environ["REMOTE_PORT"])), signal.SIGKILL)
        self.deaths += 1
        return super().__call__(request)


def test_a_task_that_always_dies_fails_after_three_and_others_continue(
    beacon: Site, outside: Outside, say: Say
):
    poison, other = "Harbour poison", "Harbour other"
    killer = Killer(beacon)
    killer.open()
    outside.scenes[poison, "plan"] = killer
    beacon.act("queue", poison)
    for deaths in (1, 2, 3):
        beacon.wait(lambda deaths=deaths: killer.deaths == deaths)
        time.sleep(1)  # the message comes again at once, and must find the run taken
        beacon.end_leases()  # 45 s each; above the test waits for them
    beacon.act("queue", other)
    died, lived = beacon.ended(poison, other)
    say(
        "a task that kills its worker each time",
        "failed with its reason after 3 attempts, other topics continue",
        f"{died.status} after {killer.deaths}: “{died.error}”; the other topic {lived.status}",
    )

    assert (died.status, died.crashes, killer.deaths) == ("failed", 3, 3)
    assert died.error.startswith("the worker stopped unexpectedly 3 times")
    assert lived.status == "succeeded"
