"""Which attacks run when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.classes import sink_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `make attacks`, run only the counted tests of other folders."""
    if os.environ.get("BEACON_TEST_ATTACKS") != "full":
        return
    left = {
        one for one in items
        if not one.path.is_relative_to(HERE)
        and not one.get_closest_marker("attacks")
        and not sink_of(one.nodeid)
    }  # fmt: skip
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
