"""Helpers for other processes: waiting with a limit, and access for their users."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Return whether `holds` became true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def let_others_through(folder: Path) -> None:
    """Let the servers' own user pass from the temporary folder down to `folder`.

    Else, under root, each test's database would be in /var/lib and stay there.
    """
    top = Path(tempfile.gettempdir())
    for parent in folder.parents:
        if top in parent.parents:
            parent.chmod(0o711)
