"""How this Beacon came to be here: as a clone with its Makefile, or as an installed wheel.

A wheel carries templates and static files inside `beacon_site`; a clone has them beside it.  Nothing
of Django is imported here: the launcher starts from this module.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from beacon_site import __version__

PACKAGE = Path(__file__).resolve().parent.parent
PROJECT = PACKAGE.parent  # what `import beacon_site` is found in
IS_WHEEL = (PACKAGE / "templates").is_dir()
ASSETS = PACKAGE if IS_WHEEL else PROJECT
# How one starts and stops it, and carries out a command, in the words of whoever installed it.
MAKE = "beacon" if IS_WHEEL else "make"
MANAGE = "beacon" if IS_WHEEL else "manage.py"
BY_HAND = {
    "make": MAKE,
    "manage": MANAGE,
    "program": "beacon" if IS_WHEEL else ".venv/bin/python manage.py",
    "embedder": (
        f"pip install 'beacon-{__version__}-py3-none-any.whl[embeddings]'"
        if IS_WHEEL
        else "make up"
    ),
}
COMMAND = (sys.executable, "-m", "beacon_site.launcher.command")


def by_hand(request: Any) -> dict[str, dict[str, str]]:
    """Give every page what to type, as its texts say it."""
    return {"by_hand": BY_HAND}


def usual_data_dir() -> Path:
    """Return the data folder where none is named: the clone's own, else the user's own."""
    if not IS_WHEEL:
        return PROJECT / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Beacon"
    named = os.environ.get("XDG_DATA_HOME", "").strip()
    # A relative one is to be taken as none, as its specification says.
    home = Path(named) if named.startswith("/") else Path.home() / ".local" / "share"
    return home / "beacon"
