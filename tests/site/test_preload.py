"""Beacon is loaded before its processes fork, so nothing may belong to one process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from beacon_site.embedded.places import PROJECT

BY_WEB_SERVER = """
from types import SimpleNamespace
from beacon_site.launcher import web_server
from beacon_site.wsgi import application

web_server.on_starting(SimpleNamespace(app=SimpleNamespace(wsgi=lambda: application)))
web_server.on_exit(None)
"""
BY_LAUNCHER = """
from beacon_site.launcher import forking, runner

with forking.loading_libraries(runner.LOADED):
    pass
forking.load_django()
forking.load_rest()
forking.finish_loading()
"""
STATE = """
import threading
from django.db import connections
from django.urls import resolvers
print(threading.active_count())
connection = connections["default"]
print(len(type(connection)._connection_pools), connection.connection)
resolver = resolvers.get_resolver()
print(resolver.__dict__["url_patterns"] is not None, bool(resolver._reverse_dict))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "compiled"),
    [(BY_WEB_SERVER, False), (BY_LAUNCHER, True)],
    ids=["web server", "launcher"],
)
def test_what_is_loaded_ahead_has_no_thread_and_no_connection_and_knows_all_pages(
    load: str, compiled: bool
) -> None:
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", load + STATE],
        cwd=PROJECT,
        env={**os.environ, "BEACON_PROCESS": "web"},
        capture_output=True,
        text=True,
        check=False,
    )

    # A thread would be in no child, and a connection in all of them at once.
    assert told.stdout.split("\n") == ["1", "0 None", f"True {compiled}", ""], told.stderr
