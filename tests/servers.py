"""The tests' own servers and environment, as an early plugin (`-p tests.servers`).

It is imported before Django's settings are read (a conftest would be too late): the process
that was called starts the servers in a temporary folder, the workers of pytest-xdist inherit
their addresses.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from beacon_site import embedded
from beacon_site.providers.search.base import CATALOGUE

SERVICES = tuple(f"{service.name.upper()}_" for service in CATALOGUE)
OURS = ("BEACON_", "OPENAI_", "DJANGO_SUPERUSER_", *SERVICES)
NAMED = (
    "DATABASE_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS",
)

_servers: embedded.Servers | None = None
_folder: Path | None = None


def _clean_environment() -> None:
    for name in list(os.environ):
        ours = name.startswith(OURS) and not name.startswith("BEACON_TEST_")
        if ours or name in NAMED:
            del os.environ[name]


def _own_servers(folder: Path) -> dict[str, str]:
    global _servers
    _servers = embedded.ensure(folder, durable=False)
    return _servers.urls


def _start() -> None:
    """Give this process the environment of the tests; start the servers if it was called first."""
    global _folder
    # Some machines ask for no bytecode: each of two hundred processes would compile all of Beacon.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        number = int(worker.removeprefix("gw")) + 1
        os.environ["REDIS_URL"] = os.environ["REDIS_URL"].rpartition("/")[0] + f"/{number}"
        # Files are named by rows' numbers, and locked: each worker has a folder as it has rows.
        own = Path(os.environ["BEACON_DATA_DIR"]) / worker
        (own / "static").mkdir(parents=True, exist_ok=True)  # WhiteNoise warns if it's missing
        os.environ["BEACON_DATA_DIR"] = str(own)
        return
    given = {
        name: os.environ.get(f"BEACON_TEST_{name}", "") for name in ("DATABASE_URL", "REDIS_URL")
    }
    _clean_environment()
    _folder = Path(tempfile.mkdtemp(prefix="beacon-test-"))
    urls = given if all(given.values()) else _own_servers(_folder)
    os.environ |= urls
    (_folder / "static").mkdir()
    os.environ["BEACON_DATA_DIR"] = str(_folder)
    os.environ["BEACON_ENV"] = "local"
    os.environ["BEACON_EMBEDDINGS"] = "none"  # a test that is about vectors says so
    os.environ["SECRET_KEY"] = "a key for tests alone, long enough for every check of Django's"
    # A terminated run ends like an interrupted one, so that its servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Stop the servers, also after Ctrl-C; a killed run leaves that to the janitor."""
    global _servers, _folder
    if _servers is not None:
        _servers.close()
        _servers = None
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)
        _folder = None


# Loading eight thousand tests makes much that stays and nothing that goes: scanning all of
# it again and again took a quarter of the time.  tests/conftest.py turns the collector on again.
gc.disable()
_start()
