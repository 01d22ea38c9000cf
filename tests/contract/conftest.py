"""Tests against real servers, which most developers of Beacon don't have: see the top of each file."""

from __future__ import annotations

import os

NEEDED = ("BEACON_TEST_LLAMA_SERVER", "BEACON_TEST_LLAMA_MODEL")
collect_ignore = [] if all(map(os.environ.get, NEEDED)) else ["test_llama_server.py"]
