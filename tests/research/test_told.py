"""The context of a finding for comparisons: the day, title and sentences of its page."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm import adapters
from beacon_site.providers.llm.adapters import MiniLmEmbedder
from research.claims.selection import PageText
from research.services.runs.reporting.delta import Statement, local_vectors, with_pages

DAY = date(2026, 4, 3)
PAGE = PageText(
    1,
    "https://a.example/1",
    "Revolta opens Dunkirk plant",
    "a.example",
    "It rained. Revolta opened its plant.\nIt takes cells from two van makers. The end.",
    published_at=DAY,
)


def test_a_finding_is_reported_with_the_day_title_and_the_sentence_before():
    finding = Statement("It takes cells.", (1,), "It takes cells from two van makers.")

    told = with_pages([finding], [PAGE])[0]

    assert (told.on, told.title) == (DAY, "Revolta opens Dunkirk plant")
    assert told.before == "Revolta opened its plant."


@pytest.mark.parametrize("quote", ["", "What stands nowhere.", "It rained."])
def test_without_a_sentence_before_there_is_none(quote: str):
    assert with_pages([Statement("It rained.", (1,), quote)], [PAGE])[0].before == ""


def test_what_cites_no_page_stays_as_it_is():
    finding = Statement("It rained.", (7,))

    assert with_pages([finding], [PAGE]) == [finding]


def test_vectors_that_are_turned_off_are_not_made(settings: Any):
    settings.BEACON_EMBEDDINGS = "none"

    assert local_vectors() is None


def test_an_embedder_that_does_not_start_is_gone_without(
    settings: Any, monkeypatch: pytest.MonkeyPatch
):
    def broken(_self: Any, texts: list[str]) -> None:
        raise ProviderRejected("not the file that was reviewed")

    settings.BEACON_EMBEDDINGS = "auto"
    monkeypatch.setattr(adapters, "local_is_installed", lambda: True)
    monkeypatch.setattr(MiniLmEmbedder, "embed", broken)

    assert local_vectors() is None
