"""Which attacks run when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long ones to `make attacks`; of other folders it runs those that it counts."""
    if os.environ.get("BEACON_TEST_ATTACKS") == "full":
        left = [one for one in items if not _is_here(one) and not one.get_closest_marker("attacks")]
    else:
        left = [one for one in items if _is_here(one) and one.get_closest_marker("long")]
    if left:
        config.hook.pytest_deselected(items=left)
        out = set(left)
        items[:] = [item for item in items if item not in out]


def _is_here(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE)
