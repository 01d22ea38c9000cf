"""`python -m beacon_site.embedded.janitor FOLDER [--remove]`: stop what a killed process left running.

It waits until no process uses the folder's servers, which the locks show even after `kill -9`.
Then it ends the processes that the runner listed in the state file, and stops the servers.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from beacon_site import embedded
from beacon_site.embedded import places, processes
from beacon_site.embedded.places import read_state, write_state

STEPS = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0))


def end_leftovers(folder: Path) -> int:
    """End the processes that the last runner left running; return how many.

    Call it with `servers.lock` held.
    """
    listed: dict[str, list[str]] = read_state(folder).get("processes", {})
    found = [mark for mark in listed.get("groups", []) if processes.is_alive(mark)]
    for mark in found:
        processes.stop(mark, ((signal.SIGTERM, 0.0),), group=True)
    for mark in found:
        processes.stop(mark, STEPS, group=True)
    write_state(folder, processes=None)
    return len(found)


def main(folder: Path, *, remove: bool = False) -> None:
    """Wait until the last user is gone, then stop everything; `remove` also deletes the folder."""
    users, servers = folder / "users.lock", folder / "servers.lock"
    for path in (users, servers):
        places.descriptor(path)
    embedded.remember(folder)
    while True:
        places.take(users)
        places.release(users)
        with places.held(servers):
            if not places.take(users, wait=False):
                embedded.remember(folder)
                continue  # another process started using them
            places.release(users)
            if read_state(folder).get("processes"):
                end_leftovers(folder)
            embedded.stop_if_unused(folder)
            break
    if remove:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), remove="--remove" in sys.argv)
