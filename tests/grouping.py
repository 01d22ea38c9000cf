"""Tests of one group share one process, since they share what is slow to start.

pytest-xdist's own `--dist loadgroup` finds no group under pytest 9.2, and says nothing
(pytest-dev/pytest-xdist issue 1386); until it does, the group is read from the test's file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r'xdist_group\("([\w-]+)"\)')


@cache
def group_of(path: str) -> str:
    """Return the group that a test file names for its tests, or nothing."""
    found = MARK.search((ROOT / path).read_text(encoding="utf-8"))
    return found[1] if found else ""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends the tests of one group to one process, and every other test where there is room."""

    def _split_scope(self, nodeid: str) -> Any:
        return group_of(nodeid.partition("::")[0]) or nodeid
