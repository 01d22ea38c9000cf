"""gunicorn's configuration: where its processes count, and how it logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from beacon_site.launcher import web_server


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a folder of the test's own be the machine's for what is temporary."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    return tmp_path


def test_it_makes_a_folder_for_its_counts_and_takes_it_away(place: Path) -> None:
    web_server.make_place()
    (made,) = place.iterdir()
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(made)

    web_server.on_exit(None)
    assert list(place.iterdir()) == []


def test_what_a_killed_one_left_goes_and_what_a_living_one_counts_stays(place: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, living = (place / f"beacon-counts-{number}-x" for number in (dead.pid, os.getppid()))
    for folder in (left, living, place / "beacon-counts-not-ours"):
        folder.mkdir()

    web_server.make_place()

    assert not left.exists()
    assert living.exists() and (place / "beacon-counts-not-ours").exists()
    web_server.on_exit(None)


def test_a_folder_that_it_did_not_create_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(place))
    web_server.on_exit(None)
    assert place.exists()


def test_two_processes_are_one_in_what_is_reported(tmp_path: Path) -> None:
    count = (
        "from beacon_site.web import request_log as f; "
        "f.REQUESTS.labels('home', 'GET', '2xx').inc(); f.SECONDS.labels('home').observe(0.2); "
        "from prometheus_client import generate_latest; "
        "print(generate_latest(f.registry()).decode())"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _process in range(2):
        told = subprocess.run(
            [sys.executable, "-c", count],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert 'beacon_http_requests_total{method="GET",route="home",status="2xx"} 2.0' in told
    assert 'beacon_http_request_seconds_count{route="home"} 2.0' in told


def test_the_next_process_of_a_name_continues_to_count_in_its_files(tmp_path: Path) -> None:
    count = (
        "from beacon_site.web import request_log as f; f.process = 'web-2'; "
        "f.REQUESTS.labels('home', 'GET', '2xx').inc(); "
        "from prometheus_client import generate_latest; "
        "print(generate_latest(f.registry()).decode())"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _process in range(2):
        told = subprocess.run(
            [sys.executable, "-c", count],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert 'beacon_http_requests_total{method="GET",route="home",status="2xx"} 2.0' in told
    assert {path.name for path in tmp_path.iterdir()} == {"counter_web-2.db"}


def test_its_own_lines_are_of_our_form() -> None:
    assert web_server.logconfig_dict["loggers"]["gunicorn.error"]["handlers"] == ["console"]
