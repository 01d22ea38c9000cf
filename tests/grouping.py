"""Tests of one group share one process, since they share what is slow to start.

pytest-xdist's own `--dist loadgroup` finds no group under pytest 9.2, and says nothing
(pytest-dev/pytest-xdist issue 1386); until it does, the group is read from the test's file.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent
# What starts processes or carries out many runs.
SLOW = (
    "tests/faults/", "tests/site/", "tests/research/test_thirty_",
    "tests/memory/test_files_threads.py", "tests/memory/test_mirror_processes.py",
    "tests/pages/test_every_address.py",
)  # fmt: skip
MARK = re.compile(r'xdist_group\("([\w-]+)"\)')


@cache
def group_of(path: str) -> str:
    """Return the group that a test file names for its tests, or nothing."""
    found = MARK.search((ROOT / path).read_text(encoding="utf-8"))
    return found[1] if found else ""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends the tests of one group to one process, and every other test where there is room."""

    _is_ordered = False

    def _assign_work_unit(self, node: Any) -> None:
        """Hand out groups first, then single tests that are slow: quick ones fill up the end.

        Otherwise one process might begin a test of a minute when the others have nothing left.
        """
        if not self._is_ordered:
            self._is_ordered = True
            self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=_turn))
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> Any:
        return group_of(nodeid.partition("::")[0]) or nodeid


def _turn(unit: tuple[str, dict[str, bool]]) -> int:
    scope, tests = unit
    if len(tests) > 1:
        return 0
    return 1 if scope.startswith(SLOW) else 2
