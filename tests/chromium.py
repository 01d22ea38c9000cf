"""Where the Chromium is that checks the pages; imports nothing of Beacon's."""

from __future__ import annotations

import os
import shutil

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """Return the Chromium to test with: the one `make test-slow` found, else one on the PATH, or ""."""
    found = [os.environ.get("BEACON_TEST_CHROMIUM"), *map(shutil.which, CHROMIUMS)]
    return next((path for path in found if path), "")
