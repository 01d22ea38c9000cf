"""The servers for one `manage.py` command: those already running, or its own while it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from beacon_site import embedded
from beacon_site.embedded.places import MAKE, EmbeddedError, read_state

# These load the settings but use no database, so they get URLs where nothing listens.
NO_SERVERS = {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
NOTHING_YET = (
    f"There is no data in {{place}} yet. Run `{MAKE} up` first, or set BEACON_DATA_DIR to your "
    "Beacon's data folder."
)
COMMANDS_WITHOUT_SERVERS = frozenset(
    {
        "", "help", "--help", "-h", "version", "--version", "makemessages", "compilemessages",
        "document",
    }
)  # fmt: skip
# Beacon's own commands work on existing data and create no folder or database.
COMMANDS_ON_DATA = frozenset(
    {
        "research",
        "first_account_link",
        "api_token",
        "backup",
        "export_account",
        "import_account",
        "export_files",
        "import_files",
        "rebuild_recall",
        "import_redis",
        "mcp",
        "verify",
    }
)


@contextmanager
def servers_for(arguments: Sequence[str]) -> Iterator[None]:
    """Put DATABASE_URL and REDIS_URL into the environment for the command in `arguments`.

    Variables that are already set stay.  Raises EmbeddedError, also if a command needs data and
    there is none.
    """
    embedded.load_env_file()
    missing = tuple(name for name in NO_SERVERS if not os.environ.get(name, "").strip())
    if not missing:
        yield
        return
    command = arguments[0] if arguments else ""
    if command in COMMANDS_ON_DATA and "DATABASE_URL" in missing and not _was_used():
        raise EmbeddedError(NOTHING_YET.format(place=embedded.data_dir()))
    if command in COMMANDS_WITHOUT_SERVERS:
        os.environ |= {name: NO_SERVERS[name] for name in missing}
        yield
        return
    with embedded.ensure(need=missing) as servers:
        for note in servers.notes:
            print(f"Beacon: {note}", file=sys.stderr)
        os.environ |= servers.urls
        if "DATABASE_URL" in missing and (up := read_state(embedded.data_dir()).get("up")):
            os.environ.setdefault("BEACON_MIRROR_DIR", str(up.get("mirror") or ""))
        yield


def _was_used() -> bool:
    """Whether servers have used the data folder before."""
    folder = embedded.data_dir()
    return bool(read_state(folder)) or (folder / "postgres").exists()
