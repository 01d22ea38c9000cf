"""Health checks: free disk space, `/livez`, `/readyz`, and the container health check."""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext_lazy as _

from beacon_site.db.errors import FULL, GONE, failure_of, was_full
from beacon_site.embedded.places import read_state

# Below this, Postgres can fail at any moment, since it writes its log in several files of 16 MiB.
MIN_ROOM = 128 * 1024**2
ASKED_EVERY = 10.0  # seconds; in between, polling and page loads use the last result
# Postgres sorts this on disk and discards it, which needs about 1 MiB of space.
_WRITE = "SELECT count(*) FROM generate_series(1, 30000)"

_free: tuple[float, int | None] = (-ASKED_EVERY, None)
_could_write: tuple[float, bool] = (-ASKED_EVERY, True)
TOGETHER = "BEACON_STARTED_TOGETHER"  # set by the launcher
_began = time.monotonic()


def free_bytes(*, fresh: bool = False) -> int | None:
    """Return the free space of the data folder or of an embedded Postgres, whichever is less.

    None if it's unknown.  Measured at most every ten seconds, unless `fresh`.
    """
    global _free
    now = time.monotonic()
    if fresh or now - _free[0] >= ASKED_EVERY:
        results = []
        for folder in {settings.DATA_DIR, *_storage()}:
            try:
                results.append(shutil.disk_usage(folder).free)
            except OSError:
                continue
        _free = (now, min(results, default=None))
    return _free[1]


def _storage() -> list[Path]:
    storage = read_state(Path(settings.DATA_DIR)).get("storage")
    return [Path(storage)] if storage else []


def postgres_can_write() -> bool:
    """Let Postgres write a temporary file of 1 MiB; False if its disk is full.

    This also detects a full disk on another machine.  Checked at most every ten seconds.  Raises
    DatabaseError for other failures.
    """
    global _could_write
    now = time.monotonic()
    if now - _could_write[0] >= ASKED_EVERY:
        _could_write = (now, _writes())
    return _could_write[1]


def _writes() -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('work_mem', '64kB', true)")
            cursor.execute(_WRITE)
    except DatabaseError as exc:
        if failure_of(exc) is not FULL:
            raise
        return False
    return True


def problem(*, ask_postgres: bool = False) -> str:
    """Return "full" if something couldn't be written, "low" if space is almost used up, else "".

    Without `ask_postgres` it needs no query, and relies on this process's writes of the last minute.
    """
    if (ask_postgres and not postgres_can_write()) or was_full():
        return "full"
    free = free_bytes()
    if free is None or free >= MIN_ROOM:
        return ""
    return "low" if free else "full"


# --- `/livez`, `/readyz`, and the checks behind the banner ---

# Seconds after which a process counts as gone.  Workers and beats report every 15 s.
OLDEST = {"worker": 45, "upkeep": 45, "beat": 60}
_FULL = _(
    "The server’s disk is full, so nothing new can be saved. Your saved data is safe. Free up disk space on the server, or ask your admin to."
)
_LOW = _("The server’s disk is almost full. Free up disk space soon, or saving will fail.")
SERVERS = {"web": "BEACON_PORT", "mcp": "BEACON_MCP_PORT"}  # checked by a request to them


def ages() -> dict[str, float | None]:
    """Return the seconds since a worker and beat last reported; None if they never did."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, extract(epoch FROM now() - max(seen_at)) FROM research_worker GROUP BY 1"
        )
        found = {kind: float(age) for kind, age in cursor.fetchall()}
    return {kind: found.get(kind) for kind in OLDEST}


def silent(spoke: dict[str, float | None]) -> list[str]:
    """Return the kinds of process that no longer report.

    None if `make up` has just started this process, because the others start at the same time.
    """
    if os.environ.get(TOGETHER) and time.monotonic() - _began < min(OLDEST.values()):
        return []
    return [kind for kind, age in spoke.items() if age is None or age > OLDEST[kind]]


def redis_problem() -> str:
    """Return the name of the error if Redis doesn't answer, else ""."""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5
        ) as server:
            server.ping()
    except redis.RedisError as exc:
        return type(exc).__name__
    return ""


def disk_warning() -> str:
    """Return the warning about a full or almost full disk, or "".  Needs no query."""
    return {"full": str(_FULL), "low": str(_LOW)}.get(problem(), "")


def livez(request: HttpRequest) -> HttpResponse:
    """Answer 200, which shows that the web process runs."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> HttpResponse:
    """Report what works: 200 if pages can be served, with the ages of worker and beat in seconds.

    503 if the database is gone or has no space to write.  If Redis is down, a worker is silent or
    the disk is almost full, it's `degraded`, since pages, edits and reads still work.
    """
    state: dict[str, Any] = {"redis": redis_problem() or "ok", **_disk(problem())}
    try:
        spoke = ages()
        state |= _disk(problem(ask_postgres=True))
    except DatabaseError as exc:
        why = {"status": "down", "database": type(exc).__name__, "reason": str(GONE.title)}
        if state["disk"] != "ok":
            why["reason"] = str(FULL.title)
        return JsonResponse({**state, **why}, status=503)
    if state["disk"] == "full":
        why = {"status": "not ready", "database": "ok", "reason": str(FULL.words)}
        return JsonResponse({**state, **why}, status=503)
    gone = silent(spoke)
    state |= {
        "database": "ok",
        "worker_age": spoke["worker"],
        "upkeep_age": spoke["upkeep"],
        "beat_age": spoke["beat"],
        "status": "degraded" if gone or state["redis"] != "ok" else "ok",
    }
    if state["disk"] == "low":
        state |= {"status": "degraded", "reason": str(_LOW)}
    return JsonResponse(state)


def _disk(found: str) -> dict[str, Any]:
    # A write can fail before the free space is measured again, so measure it now.
    free = free_bytes(fresh=found == "full")
    return {"disk": found or "ok", "disk_free_mib": None if free is None else free // 1024**2}


def answers(port: int) -> bool:
    """Return whether the server at a port of this machine, or container, answers `/livez`."""
    bind = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.BEACON_BIND, settings.BEACON_BIND)  # noqa: S104  (what is bound is compared, not bound)  # nosec B104
    server = http.client.HTTPConnection(bind, port, timeout=5)
    # Use a host name that the site answers to.
    host = next((name for name in settings.ALLOWED_HOSTS if name not in {"*", ""}), "localhost")
    try:
        server.request("GET", "/livez", headers={"Host": host.removeprefix(".")})
        return server.getresponse().status == 200
    except OSError:
        return False
    finally:
        server.close()


def main(kind: str) -> int:
    """Return 0 if a process of `kind` reported recently (or, for `web` and `mcp`, answers), else 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    if kind in SERVERS:
        port = getattr(settings, SERVERS[kind])
        does = answers(port)
        sys.stdout.write(f"{kind}: {'responds' if does else 'no response'} on port {port}\n")
        return 0 if does else 1
    # No app is loaded for this one query, and Django would warn about that.
    warnings.filterwarnings("ignore", "Accessing the database during app initialization")
    try:
        age = ages().get(kind)
    except DatabaseError as exc:
        sys.stderr.write(f"the database isn't responding: {type(exc).__name__}\n")
        return 1
    alive = age is not None and age <= OLDEST.get(kind, 0)
    sys.stdout.write(f"{kind}: {'never checked in' if age is None else f'{age:.0f} s ago'}\n")
    return 0 if alive else 1


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in {*SERVERS, *OLDEST}:
        sys.exit("usage: python -m beacon_site.health " + "|".join([*SERVERS, *OLDEST]))
    sys.exit(main(sys.argv[1]))
