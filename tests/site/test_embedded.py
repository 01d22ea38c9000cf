"""The embedded servers: started once, shared, stopped by the last one out."""

from __future__ import annotations

import os


def test_the_tests_run_on_servers_of_their_own():
    assert "beacon-test-" in os.environ["BEACON_DATA_DIR"]
