"""Tests against real servers, which nobody has who only works on Beacon: see each file's head."""

from __future__ import annotations

import os

NEEDED = ("BEACON_TEST_LLAMA_SERVER", "BEACON_TEST_LLAMA_MODEL")
collect_ignore = [] if all(map(os.environ.get, NEEDED)) else ["test_llama_server.py"]
