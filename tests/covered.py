"""Runs pytest and tells which share of the lines of our apps it carried out (R167).

    python -m tests.covered memory,research 95 -n 2 …

slipcover counts, which instruments bytecode: under Python 3.11 coverage.py traces every line of
every package, and the tests took twice as long.

Where no more than a handful of ten thousand tests failed, those are run once more by themselves, in
a fresh process.  One that fails there too fails the run.  One that passes lost against the crowd of
others: the run says so at its end, by name, so that it is mended and not forgotten.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Files = dict[str, Any]

FEW = 5  # more than this is no chance
FAILED = 1  # what pytest returns where tests failed, and nothing else went wrong


def main(arguments: list[str]) -> int:
    """Run the tests and print the shares; return what failed first: the tests, or the share."""
    apps, least, *options = arguments
    with tempfile.TemporaryDirectory(prefix="beacon-covered-") as folder:
        found, lost = Path(folder) / "lines.json", Path(folder) / "lost"
        counted = ["slipcover", "--source", apps, "--json", "--out", str(found)]
        done = subprocess.run(
            [sys.executable, "-m", *counted, "-m", "pytest", *options],
            env={**os.environ, "BEACON_TEST_LOST": str(lost)},
            check=False,
        )
        if not found.exists():
            print("Nothing was counted: the tests did not come to their end.")
            return done.returncode or 1
        failed = lost.read_text().splitlines() if lost.exists() else []
        code = settled(done.returncode, failed, _by_itself)
        files = {
            name: one
            for name, one in json.loads(found.read_text())["files"].items()
            if "/migrations/" not in name
        }
    is_enough = told(files, apps.split(","), float(least))
    if failed and not code:
        print("\nFailed among the others and passed by itself; each is to be mended:")
        print("\n".join(failed))
    return code or (0 if is_enough else 2)


def settled(code: int, failed: list[str], passes: Callable[[list[str]], bool]) -> int:
    """Return what the tests ended with, once those few that failed had a second try alone."""
    if code == FAILED and 0 < len(failed) <= FEW and passes(failed):
        return 0
    return code


def _by_itself(tests: list[str]) -> bool:
    print(f"\n{len(tests)} failed; once more, by themselves:", flush=True)
    # Each in a process of its own: two that collide would do so again.
    alone = [sys.executable, "-m", "pytest", "-q", "-n0"]
    return all(subprocess.run([*alone, test], check=False).returncode == 0 for test in tests)


def told(files: Files, apps: list[str], least: float) -> bool:
    """Print the share of each app, and of the files below `least`; say whether no app is."""
    print("\nLines that the tests carry out")
    for name, one in sorted(files.items()):
        if one["missing_lines"] and share(one) < least:
            print(f"{share(one):6.1f} %  {name} ({len(one['missing_lines'])} not)")
    shares = {app: share(*_of(files, app)) for app in apps}
    for app, carried in shares.items():
        print(f"{carried:6.1f} %  all of {app}; at least {least:g} % are asked for")
    return all(carried >= least for carried in shares.values())


def share(*files: dict[str, Any]) -> float:
    """Return the per cent of the lines of these files that were carried out."""
    done = sum(len(one["executed_lines"]) for one in files)
    missing = sum(len(one["missing_lines"]) for one in files)
    return 100.0 * done / (done + missing) if done + missing else 0.0


def _of(files: Files, app: str) -> list[dict[str, Any]]:
    return [one for name, one in files.items() if name.startswith(f"{app}/")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
