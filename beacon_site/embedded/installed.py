"""How this Beacon was installed: as a clone with its Makefile, or as a wheel.

A wheel has templates and static files inside `beacon_site`; a clone has them beside it.  Django
isn't imported here, because the launcher starts from this module.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
PROJECT = PACKAGE.parent  # the folder from which `beacon_site` is imported
IS_WHEEL = (PACKAGE / "templates").is_dir()
ASSETS = PACKAGE if IS_WHEEL else PROJECT
# What to type to start it, stop it and run a command, depending on how it was installed.
MAKE = "beacon" if IS_WHEEL else "make"
MANAGE = "beacon" if IS_WHEEL else "manage.py"
BY_HAND = {
    "make": MAKE,
    "manage": MANAGE,
    "program": "beacon" if IS_WHEEL else ".venv/bin/python manage.py",
    "embedder": (
        f"pip install 'beacon-{metadata.version('beacon')}-py3-none-any.whl[embeddings]'"
        if IS_WHEEL
        else "make up"
    ),
}
COMMAND = (sys.executable, "-m", "beacon_site.launcher.command")


def by_hand(request: Any) -> dict[str, dict[str, str]]:
    """Give every template the commands to type."""
    return {"by_hand": BY_HAND}


def usual_data_dir() -> Path:
    """Return the default data folder: in the clone, or in the user's home."""
    if not IS_WHEEL:
        return PROJECT / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Beacon"
    named = os.environ.get("XDG_DATA_HOME", "").strip()
    # The XDG specification says to ignore relative paths.
    home = Path(named) if named.startswith("/") else Path.home() / ".local" / "share"
    return home / "beacon"
