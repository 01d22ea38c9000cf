"""What several tests of providers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beacon_site.net.extract import Extractor


@pytest.fixture
def impatient() -> Iterator[Extractor]:
    """A reader that gives a document one second."""
    extractor = Extractor(seconds=1.0)
    yield extractor
    extractor.close()
