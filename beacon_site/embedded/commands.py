"""The servers for one `manage.py` command: the running ones, else its own for its duration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from beacon_site import embedded

# These load the settings and touch no database: they get addresses at which nothing listens.
NO_SERVERS = {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
COMMANDS_WITHOUT_SERVERS = frozenset(
    {"", "help", "--help", "-h", "version", "--version", "makemessages", "compilemessages"}
)


@contextmanager
def servers_for(arguments: Sequence[str]) -> Iterator[None]:
    """Put DATABASE_URL and REDIS_URL into the environment for the command in `arguments`.

    What is set already stays.  Raises EmbeddedError.
    """
    embedded.load_env_file()
    missing = tuple(name for name in NO_SERVERS if not os.environ.get(name, "").strip())
    if not missing:
        yield
        return
    if (arguments[0] if arguments else "") in COMMANDS_WITHOUT_SERVERS:
        os.environ |= {name: NO_SERVERS[name] for name in missing}
        yield
        return
    with embedded.ensure(need=missing) as servers:
        for note in servers.notes:
            print(f"Beacon: {note}", file=sys.stderr)
        os.environ |= servers.urls
        yield
