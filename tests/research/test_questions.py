"""Queries with the same terms are sent to a service once."""

from __future__ import annotations

from typing import Any

import pytest

from beacon_site.providers.search.answers import keywords
from memory.models import Topic
from memory.services.llm import connections
from research.services.runs.search import searching
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers


class ByKeywords(FakeSearch):
    """A service that is asked only by the words of the subject."""

    def worded(self, query: str, options: Any) -> str:
        return " ".join(keywords(query))


def test_a_page_has_one_vote_for_one_question_however_it_was_put(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    made = {
        "wikipedia": ByKeywords([cast.hit(1)], service="wikipedia"),
        "serpapi": FakeSearch([cast.hit(2)], service="serpapi"),
    }
    monkeypatch.setattr(connections, "search_services", lambda names=(): list(made))
    monkeypatch.setattr(searching, "search_provider", lambda name, *, owner: made[name])
    providers.model = cast.model({"queries": ["cells news", "cells latest 2026", "new cells"]})

    work = cast.through(cast.work_of(topic), "filter_seen")

    assert sorted(made["wikipedia"].asked) == ["cells news", "new cells"]
    assert len(made["serpapi"].asked) == 3
    first, second = work.run.hits.order_by("place")
    assert (len(first.queries), len(second.queries)) == (3, 2)
    assert "received only the first" not in work.step.detail
