"""`make up` as a process: it says where it is, runs once, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from beacon_site import embedded
from beacon_site.embedded import processes
from beacon_site.embedded.places import read_state, write_state
from beacon_site.launcher import runner
from tests.site.waiting import eventually, let_others_through

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class Beacon:
    """One `make up` on a data folder of its own, its environment already there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}},
            "BEACON_DATA_DIR": str(folder),
            "BEACON_PORT": str(processes.free_port()),
            "BEACON_MCP_PORT": "0",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Beacon:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "beacon_site.launcher.command", "up"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        eventually(lambda: self.says("Beacon is ready at") or self.process.poll() is not None, 100)
        assert self.says("Beacon is ready at"), self.log.read_text()
        return self

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    def once(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "beacon_site.launcher.command", *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def started(self) -> list[str]:
        """Return what runs for it: its processes and both servers."""
        eventually(lambda: "processes" in read_state(self.folder))
        state = read_state(self.folder)
        listed = state["processes"]
        servers = [state["postgres"]["process"], state["valkey"]["process"]]
        return [*listed["groups"], *servers]

    def is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return probe.connect_ex(("127.0.0.1", int(self.environment["BEACON_PORT"]))) != 0


def answers(address: str) -> bool:
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(address).status == 200  # type: ignore[no-any-return]
    return False


DUMMIES = """
import sys
from pathlib import Path
from beacon_site.launcher import runner

runner.BACKOFF, runner.KILL_WAIT = (0.1, 0.2), 2
made = runner.Runner(Path(sys.argv[1]), ("127.0.0.1", 1), lambda: [])
for name, code in zip(sys.argv[2::2], sys.argv[3::2]):
    made.add(name, ["sh", "-c", code], {}, is_extra=name == "extra")
sys.exit(made.run())
"""
LIVES = "echo alive; exec sleep 600"
# The child keeps its parent's output open, as a worker's children do.
WITH_CHILD = "sleep 600 & echo child=$!; wait"


class Dummies:
    """A runner of its own over shell commands that stand in for Beacon's processes."""

    def __init__(self, folder: Path, **commands: str) -> None:
        self.folder = folder
        self.log = folder / "its.log"
        told = [word for pair in commands.items() for word in pair]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", DUMMIES, str(folder), *told],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def times(self, words: str) -> int:
        return self.log.read_text().count(words)

    def pids(self, name: str) -> list[int]:
        found = re.findall(rf"\b{name} started \(pid=(\d+)\)", self.log.read_text())
        return [int(pid) for pid in found]

    def marks(self) -> list[str]:
        return list(read_state(self.folder).get("processes", {}).get("groups", []))

    def notes(self, pid: int) -> bool:
        return any(processes.pid_of(mark) == pid for mark in self.marks())


@contextmanager
def dummies_in(folder: Path, **commands: str) -> Iterator[Dummies]:
    made = Dummies(folder, **commands)
    try:
        yield made
    finally:
        made.process.terminate()
        made.process.wait(timeout=40)


def none_alive(marks: list[str]) -> bool:
    return not any(processes.is_alive(mark) for mark in marks)


@contextmanager
def beacon_in(folder: Path) -> Iterator[Beacon]:
    let_others_through(folder)
    beacon = Beacon(folder)
    try:
        yield beacon
    finally:
        beacon.once("down")
        if beacon.process:
            beacon.process.wait(timeout=60)


@contextmanager
def own_folder() -> Iterator[Path]:
    """A data folder outside of pytest's, which the next pytest on this machine closes to others."""
    with tempfile.TemporaryDirectory(prefix="beacon-up-") as top:
        yield Path(top) / "its data"


@pytest.fixture
def beacon() -> Iterator[Beacon]:
    """A Beacon that can be started, stopped at the test's end."""
    with own_folder() as folder, beacon_in(folder) as made:
        yield made


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """A data folder with a database that is up to date: making one takes as long as a test."""
    with own_folder() as folder:
        let_others_through(folder)
        migrate = [sys.executable, "manage.py", "migrate", "-v0"]
        subprocess.run(migrate, cwd=ROOT, env=Beacon(folder).environment, check=True)
        yield folder


@pytest.fixture
def settled(beacon: Beacon, prepared: Path) -> Beacon:
    """A Beacon that ran here before, so that its start is a quick one."""
    subprocess.run(["cp", "-a", prepared, beacon.folder], check=True)  # with the files' owners
    write_state(beacon.folder, storage=str(beacon.folder))
    return beacon


def test_it_answers_refuses_a_twin_and_leaves_nothing_behind_after_sigterm(beacon: Beacon):
    mcp = beacon.environment["BEACON_MCP_PORT"] = str(processes.free_port())
    beacon.start()
    assert beacon.says("Creating the database")
    started = beacon.started()
    port = beacon.environment["BEACON_PORT"]
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/livez").status == 200
    assert eventually(lambda: answers(f"http://127.0.0.1:{mcp}/livez"), 60)
    below = {one.name() for one in psutil.Process(beacon.process.pid).children()}
    assert {"beacon web", "beacon worker"} <= below
    assert eventually(lambda: "janitor" not in read_state(beacon.folder))

    twin = beacon.once("up")
    beacon.process.send_signal(signal.SIGTERM)

    assert twin.returncode == 1
    assert f"already running in {beacon.folder}, at http://127.0.0.1:{port}" in twin.stderr
    assert beacon.process.wait(timeout=60) == 0
    assert none_alive(started)
    assert beacon.is_free()


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("also", ["", "web", "worker"])
def test_after_kill_9_of_the_runner_all_it_started_ends_by_itself(settled: Beacon, also: str):
    started = settled.start().started()
    eventually(lambda: settled.says("worker@"), 60)

    for group in re.findall(rf"\b{also} started \(pid=(\d+)\)", settled.log.read_text()):
        if also:
            os.killpg(int(group), signal.SIGKILL)
    settled.process.kill()
    settled.process.wait()

    assert eventually(lambda: none_alive(started), 60)
    assert eventually(settled.is_free)


@pytest.mark.long
@pytest.mark.faults
def test_after_kill_9_of_nearly_all_next_to_a_process_that_hangs_it_starts_again(
    settled: Beacon,
):
    started = settled.start().started()
    assert eventually(lambda: "janitor" not in read_state(settled.folder))
    web, worker, postgres, valkey = map(processes.pid_of, started)
    os.killpg(web, signal.SIGSTOP)
    # Until then, its thread could begin to start the janitor, and stop with the lock that this needs.
    assert eventually(lambda: psutil.Process(web).status() == psutil.STATUS_STOPPED)
    os.killpg(worker, signal.SIGKILL)
    for pid in (settled.process.pid, postgres, valkey):
        os.kill(pid, signal.SIGKILL)
    settled.process.wait()
    settled.log.write_text("")

    settled.start()

    assert settled.says("Stopped processes left over from a Beacon instance that was killed.")
    assert none_alive(started)


def test_a_server_that_dies_comes_back_while_beacon_runs(settled: Beacon):
    settled.start()
    assert not settled.says("Creating the database")
    os.kill(processes.pid_of(read_state(settled.folder)["postgres"]["process"]), signal.SIGKILL)

    assert eventually(lambda: settled.says("postgres crashed and was restarted"), 40)
    assert set(embedded.running_urls(settled.folder)) == {"DATABASE_URL", "REDIS_URL"}


@pytest.mark.long
@pytest.mark.faults
def test_down_stops_a_beacon_that_runs_elsewhere(settled: Beacon):
    started = settled.start().started()

    assert settled.once("down").returncode == 0
    assert none_alive(started)


def test_down_says_that_nothing_ran(beacon: Beacon):
    beacon.folder.mkdir(parents=True, exist_ok=True)

    assert beacon.once("down").stdout == "Beacon wasn't running.\n"


def test_a_taken_port_is_reported_and_nothing_is_left(beacon: Beacon):
    with socket.create_server(("127.0.0.1", int(beacon.environment["BEACON_PORT"]))):
        refused = beacon.once("up")

    assert refused.returncode == 1
    assert "can't listen on 127.0.0.1, port" in refused.stderr
    assert "BEACON_PORT" in refused.stderr
    assert embedded.running_urls(beacon.folder) is None


def test_a_setting_that_is_wrong_stops_the_start_and_is_named(beacon: Beacon):
    refused = beacon.once("up", BEACON_PORT="eighty")

    assert refused.returncode == 1
    assert "BEACON_PORT must be a whole number" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_database_that_is_not_there_is_reported_without_a_traceback(beacon: Beacon):
    refused = beacon.once("up", DATABASE_URL="postgresql://x@127.0.0.1:1/none")

    assert refused.returncode == 1
    assert "The database none at 127.0.0.1:1 couldn't be updated" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_another_word_after_up_gets_the_usage(beacon: Beacon):
    assert "usage:" in beacon.once("up", "sideways").stderr


def test_the_commands_for_several_hosts_are_those_of_the_design(tmp_path: Path):
    commands = runner.commands("::1", 8000, tmp_path / "schedule")

    assert {"--worker-class=gthread", "--no-control-socket", "--bind=[::1]:8000"} <= set(
        commands["web"][0]
    )
    assert "--config=python:beacon_site.launcher.web_server" in commands["web"][0]
    assert "--queues=research" in commands["worker"][0]
    assert "--queues=maintenance,reflect,background" in commands["upkeep"][0]
    assert commands["worker"][1]["REMAP_SIGTERM"] == "SIGQUIT"
    assert f"--schedule={tmp_path / 'schedule'}" in commands["beat"][0]
    assert commands["mcp"][0][-1] == "mcp"


def test_on_one_machine_two_commands_do_the_same(tmp_path: Path):
    commands = runner.few_commands("::1", 8000, tmp_path / "schedule")

    assert list(commands) == ["web", "worker"]
    assert "--config=python:research.mcp.beside_pages" in commands["web"][0]
    assert "--queues=research,maintenance,reflect,background" in commands["worker"][0]
    assert f"--beat-schedule={tmp_path / 'schedule'}" in commands["worker"][0]
    assert commands["worker"][1]["REMAP_SIGTERM"] == "SIGQUIT"
    assert commands["worker"][1]["CELERY_SKIP_CHECKS"] == "1"


@pytest.mark.parametrize(("gigabytes", "number"), [(1, 1), (8, 2)])
def test_a_second_web_process_needs_memory(
    gigabytes: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "memory_bytes", lambda: gigabytes * 10**9)
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    assert f"--workers={number}" in runner.few_commands("::1", 8000, tmp_path)["web"][0]


def test_a_killed_worker_and_web_server_are_started_again_and_serve_as_before(settled: Beacon):
    mcp = settled.environment["BEACON_MCP_PORT"] = str(processes.free_port())
    settled.start()
    eventually(lambda: settled.says("worker@"), 60)
    heads = dict(re.findall(r"\b(web|worker) started \(pid=(\d+)\)", settled.log.read_text()))
    for pid in heads.values():
        os.killpg(int(pid), signal.SIGKILL)

    # The launcher keeps the port open, so a request waits for the next process.
    assert answers(f"http://127.0.0.1:{settled.environment['BEACON_PORT']}/livez")
    assert eventually(lambda: settled.log.read_text().count("web started") == 2, 20)
    assert eventually(lambda: settled.log.read_text().count("ready.") >= 2, 90)
    assert eventually(lambda: answers(f"http://127.0.0.1:{mcp}/livez"), 60)
    assert eventually(
        lambda: answers(f"http://127.0.0.1:{settled.environment['BEACON_PORT']}/livez")
    )


@pytest.mark.skipif(runner.web_processes() < 2, reason="needs two cores and 3 GB of memory")
def test_an_extra_web_process_answers_while_the_first_is_replaced(settled: Beacon):
    settled.start()
    settled.process.send_signal(signal.SIGUSR1)
    assert eventually(lambda: settled.says("web-2 started"))
    (first,) = re.findall(r"\bweb started \(pid=(\d+)\)", settled.log.read_text())
    os.kill(int(first), signal.SIGKILL)

    assert answers(f"http://127.0.0.1:{settled.environment['BEACON_PORT']}/livez")
    assert eventually(lambda: settled.log.read_text().count("web started") == 2)
    assert settled.log.read_text().count("web-2 started") == 1


def test_a_process_that_is_killed_is_started_again_and_the_others_continue(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, worker=WITH_CHILD) as runs:
        assert eventually(lambda: runs.times("child=") == 1)
        os.kill(runs.pids("worker")[0], signal.SIGKILL)

        assert eventually(lambda: runs.times("child=") == 2)
        assert runs.times("worker exited with code -9. Restarting in 0.1 s.") == 1
        assert len(runs.pids("web")) == 1
        first_child = int(re.findall(r"child=(\d+)", runs.log.read_text())[0])
        assert processes.identity(first_child) is None


def test_what_was_started_again_is_written_down_and_ends_with_the_rest(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, worker=LIVES) as runs:
        assert eventually(lambda: len(runs.pids("worker")) == 1)
        os.kill(runs.pids("worker")[0], signal.SIGKILL)
        assert eventually(lambda: len(runs.pids("worker")) == 2)
        assert eventually(lambda: runs.notes(runs.pids("worker")[1]))
        marks = runs.marks()
        runs.process.send_signal(signal.SIGTERM)

        assert runs.process.wait(timeout=20) == 0
        assert len(marks) == 2
        assert none_alive(marks)


def test_an_extra_process_starts_when_it_is_requested_and_can_end_by_itself(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, extra="echo helps; sleep 0.5") as runs:
        assert eventually(lambda: runs.times("alive") == 1)
        assert runs.pids("extra") == []
        for number in (1, 2):
            runs.process.send_signal(signal.SIGUSR1)
            assert eventually(lambda n=number: runs.times("extra stopped (rc=0)") == n)

        assert runs.times("helps") == 2
        assert runs.times("Restarting") == 0


def test_what_a_process_wrote_without_the_end_of_a_line_is_printed_when_it_ends(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, worker="printf half; sleep 0.2; printf ' a line'") as runs:
        assert eventually(lambda: runs.times("half a line") >= 1)


def test_a_process_that_dies_again_and_again_ends_everything_with_a_plain_word(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, worker="echo broken; exit 3") as runs:
        assert runs.process.wait(timeout=30) == 3
        assert runs.times("broken") == runner.DEATHS
        assert (
            runs.times("worker exited with code 3 5 times within 60 s, so Beacon is stopping.") == 1
        )
        assert processes.identity(runs.pids("web")[0]) is None


def test_a_stop_while_a_process_waits_for_its_new_start_starts_nothing(tmp_path: Path):
    with dummies_in(tmp_path, web=LIVES, beat="sleep 0.3") as runs:
        assert eventually(lambda: runs.times("beat exited with code 0. Restarting") == 1)
        runs.process.send_signal(signal.SIGTERM)

        assert runs.process.wait(timeout=20) == 0
        assert none_alive(runs.marks())
        assert runs.times("beat started") <= 2


def test_new_starts_come_later_each_time_and_a_quiet_minute_is_forgiven():
    patience = runner.RestartBackoff()

    assert [patience.wait_after(now) for now in (0, 1, 2, 3, 4)] == [1.0, 2.0, 5.0, 10.0, None]
    assert patience.wait_after(70) == 1.0


def test_an_address_can_hold_ten_thousand_chinese_characters(monkeypatch: pytest.MonkeyPatch):
    from gunicorn.http import message

    monkeypatch.setattr(message, "MAX_REQUEST_LINE", message.MAX_REQUEST_LINE)
    from beacon_site.launcher import web_server

    assert web_server.limit_request_line < message.MAX_REQUEST_LINE
    assert web_server.limit_request_line > len(quote("电" * 10_000))
    assert web_server.limit_request_field_size > web_server.limit_request_line


def test_what_runs_next_to_pages_stands_back_within_and_between_sessions():
    tells = "import os, sys; print(os.nice(0), sys.argv[1:]); print(open('/proc/self/autogroup').read())"
    if not Path("/proc/self/autogroup").exists():
        tells = tells.partition("; print(open")[0]
    command = runner.set_back([sys.executable, "-c", tells, "two words", '"$HOME'])

    told = subprocess.run(
        command, capture_output=True, text=True, check=True, start_new_session=True
    )

    back = os.nice(0) + runner.BACK
    assert told.stdout.startswith(f"{back} ['two words', '\"$HOME']")
    assert "autogroup" not in told.stdout or f"nice {runner.BACK}" in told.stdout
    assert told.stderr == ""
