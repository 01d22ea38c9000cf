"""Beacon as it is served, for benchmarks: its processes, the loopback services, other programs.

Everything works in a folder that goes when the benchmark ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(os.environ.get("BEACON_BENCH_ENVIRONMENTS", tempfile.gettempdir())) / "beacon-bench-env"


def free_port() -> int:
    """Return a port of loopback that is free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def configure(folder: Path, origin: str, port: int, **more: str) -> None:
    """Set the environment of a Beacon that asks only the loopback services."""
    configure_alone(
        folder,
        port,
        BEACON_LLM_BASE_URL=f"{origin}/v1",
        BEACON_LLM_MODEL="loopback",
        SERPAPI_BASE_URL=origin,
        SERPAPI_API_KEY="benchmark-key-1234",
        BEACON_SEARCH="serpapi",
        BEACON_FETCH_ALLOW_HOSTS=origin.removeprefix("http://"),
        BEACON_ENV="production",
        **more,
    )


def configure_alone(folder: Path, port: int, **more: str) -> None:
    """Set the environment of a Beacon without a model, which nothing but the benchmark limits."""
    os.environ |= {
        "BEACON_DATA_DIR": str(folder),
        "BEACON_PORT": str(port),
        "BEACON_MCP_PORT": str(free_port()),
        "BEACON_EMBEDDINGS": "none",
        "BEACON_RUNS_PER_HOUR": "1000000",
        "BEACON_API_REQUESTS_PER_MINUTE": "1000000",
        "DJANGO_SETTINGS_MODULE": "beacon_site.settings",
        "SECRET_KEY": "a key only for this benchmark, long enough for Django",
        **more,
    }


@contextmanager
def loopback(pace: float = 1.0, **more: str) -> Iterator[str]:
    """Run the loopback model, search services and web site; yield their address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loopback"],
        cwd=ROOT,
        env={**os.environ, "LOOPBACK_PACE": str(pace), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(timeout=10)


@contextmanager
def beacon(folder: Path, port: int) -> Iterator[psutil.Process]:
    """Run what `make up` runs until the end of the block; yield the launcher's process.

    The servers of DATABASE_URL and REDIS_URL are used. The log is `up.log` in the folder.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "beacon_site.launcher.command", "up"],
            cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        answers(f"http://127.0.0.1:{port}", process)
        launcher = psutil.Process(process.pid)
        _settle(launcher)
        yield launcher
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=90)


def processes_of(launcher: psutil.Process, name: str) -> list[psutil.Process]:
    """Return the launcher's children whose name begins with `beacon` and this one."""
    found = []
    for one in launcher.children():
        with contextlib.suppress(psutil.Error):
            if one.name().startswith(f"beacon {name}"):
                found.append(one)
    return found


def _settle(launcher: psutil.Process, within: float = 60) -> None:
    """Wait until the processes have come up: loading takes them seconds after the site answers."""

    def taken() -> float:
        every = [launcher, *launcher.children(recursive=True)]
        return sum(sum(one.cpu_times()[:2]) for one in every if one.is_running())

    end, before = time.monotonic() + within, taken()
    while time.monotonic() < end:
        time.sleep(1)
        before, earlier = taken(), before
        if before - earlier < 0.1:
            return


def answers(base: str, process: subprocess.Popen[bytes], *, within: float = 120) -> float:
    """Wait until the site answers; return the seconds that took."""
    import httpx

    began = time.monotonic()
    while time.monotonic() < began + within and process.poll() is None:
        try:
            httpx.get(f"{base}/livez", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return time.monotonic() - began
    raise SystemExit("the site did not start")


def python_312() -> str:
    """Return a Python 3.12 that starts, which some peers need; else this one."""
    kept = sorted(Path.home().glob(".pyenv/versions/3.12*/bin/python3.12"))
    for candidate in (shutil.which("python3.12"), *map(str, kept)):
        # A shim of pyenv may be in the path without a version behind it.
        if (
            candidate
            and not subprocess.run(
                [candidate, "--version"], capture_output=True, check=False
            ).returncode
        ):
            return candidate
    return sys.executable


def environment_of(name: str, packages: Sequence[str], python: str = sys.executable) -> Path:
    """Return the folder of programs of an environment that holds these packages and no others.

    It is made where there is none yet (BEACON_BENCH_ENVIRONMENTS, else the system's folder for
    temporary files), so that what a benchmark needs does not become a part of Beacon's own.
    """
    place = KEPT / name
    done = place / "installed"
    if not done.exists() or done.read_text().split() != list(packages):
        print(f"installing {' '.join(packages)} into {place} …", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", *packages]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        done.write_text("\n".join(packages))
    return place / "bin"
