"""`make audit`: does a locked package have a known weakness?  pip-audit knows whom to ask.

It is not among the locked packages, and needs a network: it is run by hand.  A package that could not
be looked up counts as a failure, since nothing is known of it.  Exit code: 0 nothing found, 1 a
weakness or a package that was left out, 2 not audited.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
RUNNERS = (["pip-audit"], ["uvx", "pip-audit"], ["pipx", "run", "pip-audit"])
OPTIONS = ["--format", "json", "--progress-spinner", "off", "--require-hashes", "--disable-pip"]
# What it says, or the libraries below it, if there is no network.
_NO_NETWORK = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|Max retries|NameResolution|Network is unreachable"
    r"|Failed to (?:establish|connect)|Temporary failure|timed out|ProxyError|SSLError"
    r"|Connection refused|dns error|error sending request",
    re.IGNORECASE,
)


def main() -> int:
    """Audit every lock file; return the exit code."""
    runner = next((one for one in RUNNERS if shutil.which(one[0])), None)
    if runner is None:
        print("not audited: there is no pip-audit here (pipx install pip-audit)")
        return 2
    files = [f for path in sorted(REQUIREMENTS.glob("*.txt")) for f in ("-r", str(path))]
    done = subprocess.run([*runner, *OPTIONS, *files], capture_output=True, text=True, check=False)
    lines, code = judged(done.stdout, done.stderr)
    print("\n".join(lines))
    return code


def judged(out: str, errors: str) -> tuple[list[str], int]:
    """Return what to say of pip-audit's answer, and the exit code."""
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        if _NO_NETWORK.search(errors):
            return ["not audited: no network"], 2
        last = errors.strip().splitlines()[-5:] or ["it said nothing"]
        return ["not audited: pip-audit failed", *last], 2
    if not packages:
        return ["not audited: no package was checked"], 2
    left_out = [
        f"{one['name']}: left out, {one['skip_reason']}" for one in packages if "skip_reason" in one
    ]
    if len(left_out) == len(packages):  # a mirror of PyPI hands packages out, and knows no more
        said = (
            f"not audited: none of {len(packages)} packages was found where weaknesses are listed"
        )
        return [said, left_out[0]], 2
    weak = [
        f"{one['name']} {one['version']}: {weakness['id']}, {_fixed(weakness)}"
        for one in packages
        for weakness in one.get("vulns", [])
    ]
    total = f"{len(packages)} packages, {len(weak)} known weaknesses, {len(left_out)} left out"
    return [*weak, *left_out, total], 1 if weak or left_out else 0


def _fixed(weakness: dict[str, Any]) -> str:
    versions = ", ".join(weakness.get("fix_versions") or [])
    return f"fixed in {versions}" if versions else "not fixed yet"


if __name__ == "__main__":
    sys.exit(main())
