"""Numbers are written as people of each language write them."""

from __future__ import annotations

import pytest
from django.utils import translation

from beacon_site.text.messages import grouped


@pytest.mark.parametrize(
    ("language", "written"),
    [("en", "1,234,567"), ("de", "1.234.567"), ("fr", "1 234 567"), ("ja", "1,234,567")],
)
def test_thousands_are_grouped_as_in_the_language(language: str, written: str) -> None:
    with translation.override(language):
        assert grouped(1_234_567).replace("\xa0", " ").replace("\u202f", " ") == written
