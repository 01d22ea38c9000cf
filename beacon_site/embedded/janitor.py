"""`python -m beacon_site.embedded.janitor FOLDER [--remove]`: stop what a killed process left running.

It waits until no process uses the folder's servers, which the locks show even after `kill -9`.
Then it ends the processes that the runner listed in the state file, and stops the servers.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from beacon_site import embedded
from beacon_site.embedded import places
from beacon_site.embedded.places import read_state


def main(folder: Path, *, remove: bool = False) -> None:
    """Wait until the last user is gone, then stop everything; `remove` also deletes the folder."""
    users, servers = folder / "users.lock", folder / "servers.lock"
    for path in (users, servers):
        places.descriptor(path)
    embedded.remember(folder)
    while True:
        places.take(users)
        places.release(users)
        with places.file_lock(servers):
            if not places.take(users, wait=False):
                embedded.remember(folder)
                continue  # another process started using them
            places.release(users)
            if read_state(folder).get("processes"):
                embedded.end_leftovers(folder)
            embedded.stop_if_unused(folder)
            break
    if remove:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), remove="--remove" in sys.argv)
