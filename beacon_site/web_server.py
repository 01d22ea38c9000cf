"""gunicorn's configuration, beside the arguments in `runner.py`.

How long an address may be: a question in a search field has up to 10,000 characters, and Chinese ones
take nine bytes each in an address.  gunicorn refuses what is longer than 8,190 bytes with an answer of
its own that says nothing to a person, and cuts a larger limit down to that: so the bound itself is set
here.

How it logs: as all else does (`settings.LOGGING`), so that its lines hold no query either.

Where its processes count requests (`beacon_site.request_log`): in a folder that this server makes
and takes away.

Beacon is loaded once, before the processes part: each by itself took two thirds of a start.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gunicorn.http import message  # type: ignore[import-untyped]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")

from django.conf import settings
from django.core.checks.urls import check_url_config

LONGEST = 128 * 1024
COUNTS = "beacon-counts-"

message.MAX_REQUEST_LINE = LONGEST
limit_request_line = LONGEST - 1
limit_request_field_size = LONGEST  # Referer and HX-Current-URL repeat the address
logconfig_dict = settings.LOGGING


def on_starting(server: Any) -> None:
    """Make the folder that Beacon asks for, then load it: `preload_app` would load it first."""
    make_place()
    server.app.wsgi()  # kept there, and found there by each process
    check_url_config(None)  # which loads all pages' modules
    gc.freeze()  # what all of them share is neither gone through nor copied


def make_place() -> None:
    """Make the folder of this server's counts; those that killed ones left are taken away."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{COUNTS}*"):
        number = left.name.removeprefix(COUNTS).partition("-")[0]
        if number.isdecimal() and _is_gone(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=f"{COUNTS}{os.getpid()}-", dir=place)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = made


def on_exit(server: Any) -> None:
    """Take the counts away."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)


def _is_gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
