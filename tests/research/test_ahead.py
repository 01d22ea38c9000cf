"""Work on pages while the model writes, which isn't repeated afterward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from memory.models import Topic
from research.claims import duplicates
from research.services.runs.context import cited_pages
from research.services.runs.context.cited_pages import PagePreparer, Pages
from research.services.runs.context.run_context import RunContext
from tests.research import cast
from tests.research.conftest import Providers


@pytest.fixture
def work(topic: Topic, providers: Providers) -> RunContext:
    """A run that has read three pages."""
    cast.set_up(providers, 1, 2, 3)
    return cast.through(cast.work_of(topic), "read")


def gone_through(work: RunContext) -> PagePreparer:
    ahead = PagePreparer(work.run)
    for _slice in range(20):
        ahead.go_on()
    return ahead


def as_told(pages: Pages) -> Any:
    cited = {n: (page.link, page.read.stored) for n, page in pages.cited.items()}
    return cited, [page.number for page in pages.others], pages.origins


def test_pages_that_were_gone_through_are_the_same_without_reading_them_again(
    work: RunContext,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
):
    sources = [{"n": 1, "link": cast.url(2)}]
    plainly = as_told(cited_pages.load(work.run, sources))
    ahead = gone_through(work)
    monkeypatch.delattr(duplicates, "origins")

    with django_assert_num_queries(1):
        assert as_told(cited_pages.load(work.run, sources, ahead)) == plainly


def test_a_page_that_was_not_gone_through_is_held_against_the_others(work: RunContext):
    plainly = as_told(cited_pages.load(work.run, []))
    ahead = gone_through(work)
    del ahead.pages[min(ahead.pages)]

    assert as_told(cited_pages.load(work.run, [], ahead)) == plainly


def test_origins_are_found_once_before_the_model_has_written(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    cast.set_up(providers, 1, 2)
    providers.model = cast.model(cast.PLAN, cast.report(1, 2))
    done: list[str] = []
    compared = duplicates.origins
    monkeypatch.setattr(duplicates, "origins", lambda p: (done.append("origins"), compared(p))[1])

    def wait_for(_work: RunContext, call: Callable[[], Any], *, meanwhile: Any = None) -> Any:
        for _slice in range(20 if meanwhile else 0):
            meanwhile()
        done.append("answer")
        return call()

    monkeypatch.setattr(RunContext, "wait_for", wait_for)
    run = cast.carried_out(cast.started(topic))

    assert run.status == "succeeded"
    assert done == ["answer", "origins", "answer"]
