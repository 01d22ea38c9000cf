"""Locust's requests to a running Beacon, and its figures."""

from __future__ import annotations

import csv
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import stack

LOCUST = ("locust==2.47.0",)
# The requests whose times count, by the kind of user.
NAMES = {
    "Reader": (), "Watcher": ("idle poll",), "Writer": ("save",), "Asker": ("recall",),
    "Rememberer": ("remember",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Latencies:
    """Locust's figures for the requests with one name, in milliseconds."""

    count: int
    failed: int
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Locust:
    """Sends requests to `base` for `seconds`; locust and the site write to `folder`.

    `given` is the file that tells the simulated users which addresses and words exist.
    """

    base: str
    folder: Path
    given: Path
    seconds: int

    def send(self, user: str, rate: float, users: int) -> dict[str, Latencies]:
        """Let `users` of one kind send `rate` requests per second together; return their latencies by name."""
        prefix = self.folder / f"{user}-{time.monotonic_ns()}"
        command = [
            str(stack.environment_of("locust", LOCUST) / "locust"),
            "-f", str(stack.ROOT / "benchmarks" / "load_users.py"), "--headless", "--only-summary",
            "--host", self.base, "--users", str(users), "--spawn-rate", str(users),
            "--run-time", f"{self.seconds}s", "--csv", str(prefix), user,
        ]  # fmt: skip
        more = {"LOAD_GIVEN": str(self.given), "LOAD_EACH": str(rate / users)}
        done = subprocess.run(
            command, env={**os.environ, **more}, capture_output=True, text=True, check=False
        )
        with Path(f"{prefix}_stats.csv").open() as file:
            latencies = {line["Name"]: _latencies(line) for line in csv.DictReader(file)}
        if any(one.failed for one in latencies.values()):
            self._say_what_failed(prefix)
        for name in ("Aggregated", *NAMES[user]):
            latencies.setdefault(name, Latencies(0, 0, 0, 0))
        if not latencies["Aggregated"].count:
            print(f"  locust sent nothing: {done.stderr[-1000:]}", flush=True)
        return latencies

    def _say_what_failed(self, prefix: Path) -> None:
        print(Path(f"{prefix}_failures.csv").read_text(), flush=True)
        log = (self.folder / "up.log").read_text().splitlines()
        print("\n".join([line for line in log if "error" in line[:9_000]][-3:]), flush=True)


def _latencies(line: dict[str, str]) -> Latencies:
    figures = [line[name] for name in ("50%", "95%")]
    median, p95 = (float(one) if one not in ("", "N/A") else 0.0 for one in figures)
    return Latencies(int(line["Request Count"]), int(line["Failure Count"]), median, p95)
