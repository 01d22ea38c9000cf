"""A whole Beacon for a browser: web, worker and beat as `make up` starts them, on a free port."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beacon_site.launcher import runner
from tests.faults.processes import ROOT, Site


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The memory of an agent on this machine; the last file can't be shown.
AGENT_FILES = {
    ".claude/CLAUDE.md": "# Preferences\n\n- Use uv, not pip.\n- Explain each change in one sentence.\n",
    ".claude/projects/-home-kira-code-fleet-api/memory/MEMORY.md": "# Fleet API\n\n- [Deployment](deployment.md): how the service is released\n",
    ".claude/projects/-home-kira-code-fleet-api/memory/deployment.md": "---\nname: deployment\ntype: project\n---\n\nThe service is released every Tuesday at 10:00.\n",
    ".claude/projects/-home-kira-code-fleet-api/memory/old.md": "Gr\xfc\xdfe",
}


class BrowserSite(Site):
    """A site with an empty database, without any account, and a web process."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        # The cast has started more runs than a person can within an hour.
        given = {"BEACON_PORT": str(self.port), "BEACON_RUNS_PER_HOUR": "500"}
        given["BEACON_AGENT_DIRS"] = f"claude={folder}/.claude; api={folder}/missing"
        super().__init__(folder, **(given | variables))
        for path, text in AGENT_FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode("latin-1"))

    def __enter__(self) -> BrowserSite:
        self.create_database()
        return self

    def start(self, *names: str) -> None:
        """Start the named ones of web, worker and beat, and wait until pages are answered."""
        listed = runner.commands("127.0.0.1", self.port, self.folder / "beat-schedule")
        for name in names:
            arguments, more = listed[name]
            if name == "worker":  # two cores here, and a browser on them
                arguments = [*arguments, "--concurrency=2"]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    arguments, cwd=ROOT, env={**self.environment, **more}, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
        if "web" in names:
            self.wait(self._answers)
        if "worker" in names:
            self.wait(lambda: self.value("SELECT count(*) FROM research_worker"))

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.base}/livez", timeout=5).close()
        except OSError:
            return False
        return True

    def play(self, module: str, *arguments: str) -> Any:
        """Run a module of the tests on this site's database; return the JSON it prints."""
        ended = subprocess.run(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, text=True, capture_output=True,
            env=self.environment, check=False, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.strip().splitlines()[-1])

    def first_link(self) -> str:
        """Return the one-time link for the first account, as `make up` prints it."""
        return self.manage("first_account_link").stdout.strip()


@contextlib.contextmanager
def browser_site(*names: str, **variables: str) -> Iterator[BrowserSite]:
    """A site with the named processes in a temporary folder; nothing is left afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="beacon-browser-") as folder,
        BrowserSite(Path(folder), **variables) as made,
    ):
        made.start(*names)
        yield made
