"""The embedded servers: started once, shared, and stopped by the last user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from beacon_site import embedded
from beacon_site.embedded import places, postgres, processes, servers_for
from tests.site.waiting import eventually, let_others_through

pytestmark = pytest.mark.slow

HOLD = """
import sys, pathlib
from beacon_site import embedded
embedded.ensure(pathlib.Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with a space and a quote in its path, reachable for the servers' user."""
    folder = tmp_path_factory.mktemp("it's data") / "my data"
    let_others_through(folder)
    yield folder
    embedded.stop_servers(folder) if folder.exists() else None


def another_user_of(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


def marks(folder: Path) -> list[str]:
    state = places.read_state(folder)
    return [state["postgres"]["process"], state["valkey"]["process"]]


def test_the_tests_run_on_servers_of_their_own():
    assert "beacon-test-" in os.environ["BEACON_DATA_DIR"]


def test_both_servers_answer_in_a_path_with_a_space_and_stop_with_their_last_user(folder: Path):
    with embedded.ensure(folder) as servers:
        running = embedded.running_urls(folder)
        assert running == servers.urls
        started = marks(folder)

    assert not any(processes.is_alive(mark) for mark in started)
    assert embedded.running_urls(folder) is None


def test_a_second_user_shares_the_servers_and_the_last_one_stops_them(folder: Path):
    other = another_user_of(folder)
    with embedded.ensure(folder) as servers:
        shared = embedded.running_urls(folder) == servers.urls
    started = marks(folder)
    assert shared
    assert all(processes.is_alive(mark) for mark in started)

    other.communicate()  # its input ends, so it does, without a word of goodbye

    assert eventually(lambda: not any(processes.is_alive(mark) for mark in started))


def test_what_was_stored_is_there_after_both_servers_and_their_user_were_killed(folder: Path):
    other = another_user_of(folder)
    url = embedded.running_urls(folder)["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    for pid in [*map(processes.pid_of, marks(folder)), other.pid]:
        os.kill(pid, signal.SIGKILL)
    other.wait()

    with embedded.ensure(folder) as servers, psycopg.connect(servers.urls["DATABASE_URL"]) as again:
        assert again.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_dead_server_comes_back_at_its_old_address(folder: Path):
    with embedded.ensure(folder) as servers:
        os.kill(processes.pid_of(marks(folder)[1]), signal.SIGKILL)
        eventually(lambda: not processes.is_alive(marks(folder)[1]))

        assert embedded.revive(folder) == ["valkey"]
        assert embedded.running_urls(folder) == servers.urls


def test_a_lost_state_file_loses_no_data(folder: Path):
    with embedded.ensure(folder) as servers, psycopg.connect(servers.urls["DATABASE_URL"]) as first:
        first.execute("CREATE TABLE kept (n int)")
    (folder / "state.json").unlink()

    with embedded.ensure(folder) as servers, psycopg.connect(servers.urls["DATABASE_URL"]) as again:
        assert again.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_the_servers_stop_even_if_their_folder_was_removed_under_them(folder: Path):
    with embedded.ensure(folder):
        started = marks(folder)
        while folder.exists():  # the servers still write into it
            shutil.rmtree(folder, ignore_errors=True)

    assert not any(processes.is_alive(mark) for mark in started)


@pytest.fixture
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A second data folder, whose servers are not ours."""
    folder = tmp_path_factory.mktemp("other") / "data"
    let_others_through(folder)
    yield folder
    embedded.stop_servers(folder)


def write_pid_file(folder: Path, pid: int, *, since: float) -> Path:
    """Leave the file that a Postgres leaves which was killed together with its machine."""
    storage, _account = processes.storage_of(folder)
    left = storage / "postgres" / "postmaster.pid"
    left.write_text(f"{pid}\n{left.parent}\n{since:.0f}\n5432\n\n127.0.0.1\n\nready\n")
    return left


@pytest.mark.parametrize("started", ["at another time", "at the same time"])
def test_a_pid_that_another_postgres_has_now_is_not_signalled(
    folder: Path, other_folder: Path, started: str
):
    embedded.ensure(folder).close()
    with embedded.ensure(other_folder, need=("DATABASE_URL",)) as others:
        theirs = places.read_state(other_folder)["postgres"]["process"]
        pid = processes.pid_of(theirs)
        same = started == "at the same time"
        write_pid_file(folder, pid, since=processes.started_at(pid) if same else 1_700_000_000)

        with embedded.ensure(folder) as ours:
            assert processes.is_alive(theirs)
            for servers in (ours, others):
                with psycopg.connect(servers.urls["DATABASE_URL"]) as connection:
                    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_postgres_that_wrote_the_pid_file_is_ended(folder: Path):
    with embedded.ensure(folder, need=("DATABASE_URL",)):
        left = places.read_state(folder)["postgres"]["process"]
        storage, _account = processes.storage_of(folder)

        postgres._end_leftover(storage / "postgres")

        assert not processes.is_alive(left)


def test_a_postgres_on_our_folder_that_did_not_write_the_file_is_left_to_people(folder: Path):
    with embedded.ensure(folder, need=("DATABASE_URL",)):
        running = places.read_state(folder)["postgres"]["process"]
        left = write_pid_file(folder, processes.pid_of(running), since=1_700_000_000)

        with pytest.raises(embedded.EmbeddedError, match="didn't stop it"):
            postgres._end_leftover(left.parent)

        assert processes.is_alive(running)


def test_a_number_of_an_earlier_boot_is_another_process(folder: Path):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        pid, started, _boot = processes.identity(stranger.pid).split(":")
        mark = f"{pid}:{started}:3f0c2e9a-0000-4000-8000-000000000000"
        places.prepare(folder)
        places.write_state(folder, processes={"groups": [mark]}, valkey={"process": mark})

        embedded.end_leftovers(folder)
        embedded.stop_servers(folder)

        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_strangers_on_the_machine_are_refused_without_the_password():
    url = os.environ["DATABASE_URL"]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url, password="wrong")


def test_the_state_file_and_the_logs_are_closed_to_others(folder: Path):
    with embedded.ensure(folder):
        storage, _ = processes.storage_of(folder)
        closed = [folder / "state.json", storage / "postgres.log", storage / "valkey.log"]

        assert [oct(path.stat().st_mode & 0o777) for path in closed] == ["0o600"] * 3


def test_a_lock_ends_with_the_process_that_held_it(tmp_path: Path):
    taker = (
        "import sys, pathlib; from beacon_site.embedded import places as locks\n"
        "locks.take(pathlib.Path(sys.argv[1])); print('up', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", taker, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child.stdout.readline()
    assert places.take(tmp_path / "lock", wait=False) is False

    child.kill()
    child.wait()

    assert places.take(tmp_path / "lock", wait=False) is True


def test_a_zombie_counts_as_dead():
    child = subprocess.Popen(["true"])
    time.sleep(0.3)

    assert processes.identity(child.pid) is None
    child.wait()


def test_the_environment_wins_over_beacon_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "beacon.env").write_text(
        "# mine\nBEACON_CONTACT='a b'\nexport BEACON_PORT=9\n", "utf-8"
    )
    monkeypatch.setenv("BEACON_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("BEACON_PORT", "8123")
    monkeypatch.setenv("BEACON_CONTACT", "")  # empty is unset, as everywhere

    embedded.load_env_file()

    assert (os.environ["BEACON_CONTACT"], os.environ["BEACON_PORT"]) == ("a b", "8123")


@pytest.mark.parametrize("line", ["no equals sign", "BEACON_DATA_DIR=/elsewhere", "two words=1"])
def test_a_line_of_beacon_env_that_means_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
):
    (tmp_path / "beacon.env").write_text(f"\n{line}\n", encoding="utf-8")
    monkeypatch.setenv("BEACON_DATA_DIR", str(tmp_path))

    with pytest.raises(embedded.EmbeddedError, match="line 2"):
        embedded.load_env_file()


def test_help_starts_no_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BEACON_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("REDIS_URL", "")

    with servers_for(["help"]):
        assert os.environ["DATABASE_URL"].endswith("127.0.0.1:1/none")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["research", "first_account_link", "api_token"])
def test_a_command_on_data_that_is_not_there_says_so_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
):
    folder = tmp_path / "data"
    monkeypatch.setenv("BEACON_DATA_DIR", str(folder))
    monkeypatch.setenv("DATABASE_URL", "")

    with pytest.raises(embedded.EmbeddedError, match="Run `make up` first") as told:
        servers_for([command]).__enter__()
    assert str(folder) in str(told.value)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_under_a_folder_that_the_service_user_cannot_enter_the_database_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = tmp_path / "var"
    elsewhere.mkdir()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(processes, "SYSTEM_STORAGE", elsewhere)

    storage, chosen = processes.storage_of(closed / "data")

    assert storage.parent == elsewhere
    assert chosen.name in {"postgres", "nobody"}
