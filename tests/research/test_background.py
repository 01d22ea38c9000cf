"""A later run's statements from pages that were published before the last run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from memory.models import Topic
from research.models import Run
from tests.providers.fakes import FakeFetcher, FakeSearch
from tests.research import cast
from tests.research.conftest import Providers

pytestmark = pytest.mark.django_db


def test_an_old_page_adds_at_most_ten_statements_and_isnt_said_to_add_nothing(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]
) -> None:
    cast.set_up(providers, 1)
    run_of(topic)
    # One page beside the known one, with more statements than a report lists.
    lines = [f"Solid-state batteries of plant {n} cost {80 + n} euros in 2024." for n in range(30)]
    providers.search = FakeSearch(
        [cast.hit(2, published_at=date(2020, 5, 4)), cast.hit(3, published_at=date(2020, 5, 4))]
    )
    providers.pages = FakeFetcher(
        {cast.url(2): "\n\n".join(lines), cast.url(3): cast.page(3)} | {cast.url(1): cast.page(1)}
    )
    run = run_of(topic)

    body = run.report.body
    assert not run.delta_items.filter(status="new").exists()
    background = body.partition("## New background information")[2].partition("\n## ")[0]
    assert 1 <= background.count("\n- ") <= 10
    assert run.report.delta.endswith(
        "Beacon read 2 new pages, but what they add was published earlier."
    )
