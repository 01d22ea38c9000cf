"""gunicorn's configuration, in addition to the arguments in `runner.py`.

URL length: a search query has up to 10,000 characters, and Chinese ones take nine bytes each in a
URL.  gunicorn refuses URLs longer than 8,190 bytes with an unhelpful answer, and doesn't allow a
higher setting, so its own constant is changed here.

Logs: it uses `settings.LOGGING`, so that its lines contain no queries either.

Counters: its processes count requests (`beacon_site.web.request_log`) in a folder that this server
creates and deletes.

Beacon is loaded once, before the processes fork, since loading it takes two thirds of a start.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from gunicorn.http import message  # type: ignore[import-untyped]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")

from django.conf import settings
from django.core.checks.urls import check_url_config

MAX_LENGTH = 128 * 1024
COUNTS = "beacon-counts-"

message.MAX_REQUEST_LINE = MAX_LENGTH
limit_request_line = MAX_LENGTH - 1
limit_request_field_size = MAX_LENGTH  # Referer and HX-Current-URL repeat the URL
logconfig_dict = settings.LOGGING


def on_starting(server: Any) -> None:
    """Create the folder that Beacon needs, then load Beacon; `preload_app` would load it too early."""
    load(server)


def load(server: Any, *modules: str) -> None:
    """Do `on_starting`, and also load `modules` before the processes fork."""
    make_place()
    server.app.wsgi()  # stays in the app object, where each process finds it
    if "beacon_site.urls" not in sys.modules:
        check_url_config(None)  # loads the modules of all pages
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # the collector then doesn't scan shared objects, so their memory isn't copied


def make_place() -> None:
    """Create the folder for this server's counts, and delete those that killed servers left."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{COUNTS}*"):
        number = left.name.removeprefix(COUNTS).partition("-")[0]
        if number.isdecimal() and _is_gone(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    text = tempfile.mkdtemp(prefix=f"{COUNTS}{os.getpid()}-", dir=place)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = text


def on_exit(server: Any) -> None:
    """Delete the counts."""
    path = Path(os.environ.get("PROMETHEUS_MULTIPROC_DIR", ""))
    if path.name.startswith(COUNTS):  # it is another's if the server ended before `make_place`
        shutil.rmtree(path, ignore_errors=True)


def _is_gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
