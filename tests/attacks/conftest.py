"""Which attacks run when, and how each test notes what it counted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import figures

Count = Callable[..., None]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long ones to `make attacks`."""
    if os.environ.get("BEACON_TEST_ATTACKS") == "full":
        return
    here = Path(__file__).parent
    long = [i for i in items if i.get_closest_marker("long") and i.path.is_relative_to(here)]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Count:
    """Note for a sink how many were tried, refused with an explanation, neutralised, and run.

    What was tried and is not told otherwise was neutralised.  Note before you assert: a test
    that fails is counted too.  A sink may be spoken of by many tests; the table adds them up.
    """

    def noted(sink: str, tried: int, *, refused: int = 0, run: int = 0) -> None:
        record_property(figures.NAME, [sink, tried, refused, tried - refused - run, run])

    return noted
