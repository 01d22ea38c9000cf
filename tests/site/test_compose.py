"""docker-compose.yml and Dockerfile, tried without Docker: their own commands as processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from beacon_site.embedded import processes
from research.management.variables import VARIABLES
from tests.site.waiting import eventually

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = {name: s for name, s in COMPOSE["services"].items() if "build" in s}
DATABASE = "compose_trial"


def filled(value: str) -> str:
    """Put the defaults into `${NAME:-default}`, as compose does where nothing is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that compose gives our services, its hosts rewritten to the test's servers."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    given = {name: filled(value) for name, value in OURS["web"]["environment"].items()}
    yield {
        "PATH": os.environ["PATH"],
        **given,
        "DATABASE_URL": server.rpartition("/")[0] + f"/{DATABASE}",
        "REDIS_URL": os.environ["REDIS_URL"].rpartition("/")[0] + "/60",
        "BEACON_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "BEACON_MIRROR_DIR": str(tmp_path_factory.mktemp("memory")),
        "BEACON_BIND": "127.0.0.1",
        "BEACON_PORT": str(processes.free_port()),
        "BEACON_MCP_PORT": str(processes.free_port()),
    }
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def command(words: list[str]) -> list[str]:
    """Return a command of the image for this machine: its programs are ours."""
    ours = {
        "python": [sys.executable],
        "beacon": [sys.executable, "-m", "beacon_site.launcher.command"],
    }
    return [one for word in words if word != "CMD" for one in ours.get(word, [word])]


def is_healthy(name: str, environment: dict[str, str]) -> bool:
    check = command(OURS[name]["healthcheck"]["test"])
    return subprocess.run(check, env=environment, cwd=ROOT, capture_output=True).returncode == 0


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(240)
def test_each_service_of_ours_starts_by_its_command_becomes_healthy_and_stops(
    environment: dict[str, str], tmp_path: Path
):
    prepare = command(OURS["prepare"]["command"])
    subprocess.run(prepare, env=environment, cwd=ROOT, check=True, capture_output=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    # Beat's tick is carried out by the worker, so the worker is there before beat.
    for name in ("web", "worker", "upkeep", "beat", "mcp"):
        log = (tmp_path / name).open("wb")
        words = command(OURS[name]["command"])
        running[name] = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        for name in running:
            said = (tmp_path / name).read_text
            assert eventually(lambda name=name: is_healthy(name, environment), 60), said()
    finally:
        for child in running.values():
            child.terminate()
        codes = {name: child.wait(timeout=30) for name, child in running.items()}
    assert set(codes.values()) == {0}, codes


def test_what_is_in_env_reaches_the_containers_whichever_variable_it_is():
    documented = {
        name for group in VARIABLES.values() for one in group for name in one.names.split()
    }
    # The runner sets the one, `docker compose exec -e` gives the other.
    elsewhere = {"BEACON_PROCESS", "BEACON_API_TOKEN"}

    assert documented - set(OURS["web"]["environment"]) == elsewhere


def test_everything_is_reached_from_this_machine_alone():
    ports = [str(p) for s in COMPOSE["services"].values() for p in s.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_lasting_service_has_time_to_stop_and_a_health_check():
    lasting = {n: s for n, s in COMPOSE["services"].items() if n != "prepare"}

    assert {s["stop_grace_period"] for s in lasting.values()} == {"30s"}
    assert [n for n, s in lasting.items() if "healthcheck" not in s] == []


def test_redis_asks_for_the_password_that_beacon_gives():
    redis = COMPOSE["services"]["redis"]

    given = OURS["web"]["environment"]["REDIS_URL"]
    assert redis["environment"]["REDIS_PASSWORD"] in given
    assert "requirepass" in " ".join(redis["command"])
    assert filled(given) == "redis://:beacon@redis:6379/0"  # which production refuses


def test_the_database_has_pgvector():
    assert COMPOSE["services"]["postgres"]["image"].startswith("pgvector/pgvector:")


def copied() -> list[str]:
    """Return the sources of the Dockerfile's COPY lines."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(), re.M)
    return [source for line in lines for source in line.split()[:-1]]


def test_every_copied_file_is_tracked():
    listed = subprocess.run(
        ["git", "ls-files", "--", *copied()], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = listed.stdout.splitlines()

    assert copied()
    assert [s for s in copied() if not any(f == s or f.startswith(s + "/") for f in tracked)] == []


def test_what_the_image_copies_is_not_ignored_by_docker():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}

    assert kept == set(copied())


def test_the_image_starts_as_the_web_service_does_and_is_asked_as_it_is():
    dockerfile = (ROOT / "Dockerfile").read_text()
    said = re.search(r"^CMD (\[.+\])$", dockerfile, re.M)
    asked = re.search(r"^HEALTHCHECK .+\\\n +CMD (\[.+\])$", dockerfile, re.M)

    assert said is not None and asked is not None
    assert yaml.safe_load(said[1]) == OURS["web"]["command"]
    assert ["CMD", *yaml.safe_load(asked[1])] == OURS["web"]["healthcheck"]["test"]


def test_the_last_stage_runs_as_no_one_in_particular_and_is_handed_only_what_was_built():
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]

    assert re.findall(r"^USER (.+)$", last, re.M) == ["beacon"]
    assert re.findall(r"^COPY (.+)$", last, re.M) == ["--from=packages /opt/beacon /opt/beacon"]
    assert "pip uninstall" in last


def test_the_image_has_chromium_only_if_its_path_is_set():
    build = OURS["worker"]["build"]
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]

    assert build["args"] == {"BEACON_CHROMIUM": OURS["worker"]["environment"]["BEACON_CHROMIUM"]}
    assert filled(build["args"]["BEACON_CHROMIUM"]) == ""
    assert re.search(r'^ARG BEACON_CHROMIUM=""\nRUN if \[ -n "\$BEACON_CHROMIUM" \]', last, re.M)
    # Chromium leaves orphaned processes, which the container's first process must reap.
    assert all(service["init"] for service in OURS.values())


def test_a_container_of_ours_writes_to_its_volume_alone():
    for service in OURS.values():
        assert service["read_only"] is True and service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
