"""What `make up` prints; as a process it is tried in test_runner.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beacon_site.embedded import places, processes
from beacon_site.launcher import command, preparation

HOLD_LOCK = (
    "import sys, pathlib; from beacon_site.embedded import places as locks\n"
    "locks.take(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("url", ["http://0.0.0.0:8010", "http://[::]:8010"])
def test_who_listens_to_all_and_names_no_address_is_told_to(settings: Any, url: str):
    settings.BEACON_URL, settings.BEACON_PORT = url, 8010
    assert "such as http://nas.local:8010." in " ".join(preparation.for_others())


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://nas.local:8000"])
def test_who_named_an_address_is_told_nothing(settings: Any, url: str):
    settings.BEACON_URL = url
    assert preparation.for_others() == []


def test_down_stops_no_process_that_has_the_number_of_an_earlier_beacon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BEACON_DATA_DIR", str(tmp_path))
    starting = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path / "up.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        assert starting.stdout is not None
        assert starting.stdout.readline() == "held\n"
        pid, started, _boot = str(processes.identity(stranger.pid)).split(":")
        earlier = {"pid": stranger.pid, "process": f"{pid}:{started}:earlier"}
        places.write_state(tmp_path, up=earlier)

        with pytest.raises(command.CannotStart, match="still starting"):
            command.down()

        assert stranger.poll() is None
    finally:
        for child in (starting, stranger):
            child.kill()
            child.wait()
