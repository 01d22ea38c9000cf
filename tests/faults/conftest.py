"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.broken import Broken, broken_site
from tests.faults.outside import Outside
from tests.faults.processes import Site, site


# What runs ends with the tests of this folder: left idle it would take from all that follow.
@pytest.fixture(scope="package")
def outside() -> Iterator[Outside]:
    """The outside that the shared site asks; each test takes its own topics."""
    with Outside() as made:
        yield made


@pytest.fixture(scope="package")
def beacon(outside: Outside) -> Iterator[Site]:
    """A site that many tests share, since starting one takes ten seconds: they leave it running."""
    with site(**outside.variables) as made:
        made.start_beat()
        made.start_worker("upkeep", queues="maintenance,reflect,background")
        made.start_worker(queues="research", children=4)
        yield made


@pytest.fixture(scope="package")
def broken(outside: Outside) -> Iterator[Broken]:
    """A whole site on its own servers, which tests break and repair again."""
    with broken_site(outside) as made:
        yield made
