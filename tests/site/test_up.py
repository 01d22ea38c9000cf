"""What `make up` tells whoever starts it; as a process it is tried in test_runner.py."""

from __future__ import annotations

from typing import Any

import pytest

from beacon_site import up


@pytest.mark.parametrize("url", ["http://0.0.0.0:8010", "http://[::]:8010"])
def test_who_listens_to_all_and_names_no_address_is_told_to(settings: Any, url: str):
    settings.BEACON_URL, settings.BEACON_PORT = url, 8010
    assert "in BEACON_URL, such as http://nas.local:8010." in " ".join(up._for_others())


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://nas.local:8000"])
def test_who_named_an_address_is_told_nothing(settings: Any, url: str):
    settings.BEACON_URL = url
    assert up._for_others() == []
