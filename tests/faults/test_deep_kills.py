"""kill -9 of the worker's child inside a deep run: no finished track is repeated."""

from __future__ import annotations

import os
import signal

import psycopg
import pytest

from tests.conftest import Say
from tests.faults.outside import Outside
from tests.faults.processes import Site
from tests.faults.stops import Gate, Stops

pytestmark = [
    pytest.mark.long,
    pytest.mark.faults,
    pytest.mark.timeout(400),
]

ASKED, TOLD, RECORDING = "Deep harbour asked", "Deep harbour told", "Deep harbour recording"
TITLES = (ASKED, TOLD, RECORDING)


def _kill(beacon: Site, port: int) -> None:
    os.kill(beacon.child_at(port), signal.SIGKILL)


def _calls(outside: Outside, title: str, track: str) -> int:
    return outside.track_calls.count((title, track))


def _tool_calls(beacon: Site, run_id: int) -> list[tuple[int, int]]:
    """Return track and attempt of each row, in order."""
    query = "SELECT part, attempt FROM research_toolcall WHERE run_id = %s ORDER BY part, position"
    with psycopg.connect(beacon.url, autocommit=True) as connection:
        return connection.execute(query, [run_id]).fetchall()


def test_a_deep_run_killed_in_a_track_continues_behind_the_tracks_that_were_finished(
    beacon: Site, outside: Outside, say: Say
):
    gates = {
        ASKED: ("news asked", Gate()),  # its second track has not begun to read
        TOLD: ("news told", Gate()),  # it has read a page, and the model thinks about it
    }
    for title, (kind, gate) in gates.items():
        outside.scenes[title, kind] = gate
    with Stops(beacon) as stops:
        stops.at(
            RECORDING, "recording a tool call"
        )  # its first track, whose first call was answered
        beacon.act("deep", *TITLES)
        for title, (kind, gate) in gates.items():
            _kill(beacon, beacon.wait(lambda gate=gate: gate.port, 120))
            del outside.scenes[title, kind]
            gate.open()
        _kill(beacon, beacon.wait(lambda: stops.caught(RECORDING), 120))
        stops.lift(RECORDING)
        beacon.wait(lambda: len([r for r in beacon.runs(*TITLES) if r.attempt == 1]) == 3)
        beacon.end_leases()  # 45 s each; tests of quick runs wait for them
        runs = beacon.ended(*TITLES, seconds=180)

    tracks = {
        title: [_calls(outside, title, track) for track in ("overview", "news", "voices")]
        for title in TITLES
    }
    rows = {run.title: _tool_calls(beacon, run.id) for run in runs}
    say(
        "kill -9 of the worker's child at 3 places of a deep run's tracks",
        "succeeded as the one Run #1; finished tracks aren't repeated",
        f"{[run.status for run in runs]}, model calls per track {tracks}",
    )

    assert [(r.status, r.number, r.crashes, r.reports) for r in runs] == [
        ("succeeded", 1, 1, 1)
    ] * 3
    assert tracks == {ASKED: [2, 3, 2], TOLD: [2, 4, 2], RECORDING: [3, 2, 2]}
    assert rows[ASKED] == [(1, 1), (2, 2), (3, 2)]
    assert rows[TOLD] == [(1, 1), (2, 1), (2, 2), (3, 2)]  # what was done before stays in sight
    assert rows[RECORDING] == [(1, 2), (2, 2), (3, 2)]
