"""Asking several search services at once: in their order, slow ones, and where none answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.net.errors import ServiceRefused, ServiceUnreachable
from beacon_site.providers.search.base import SearchHit
from memory.models import Topic
from memory.services.llm import connections
from research.services.runs.search import searching
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers


def found(url: str, **more: Any) -> SearchHit:
    return SearchHit(url=url, title=more.pop("title", "A page"), **more)


# --- several services -----------------------------------------------------------------------------


@pytest.fixture
def services(
    providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, FakeSearch]]:
    """Return a function that lets the topic's services be these, in order."""

    def named(**hits: list[SearchHit]) -> dict[str, FakeSearch]:
        made = {name: FakeSearch(found, service=name) for name, found in hits.items()}
        monkeypatch.setattr(connections, "search_services", lambda names=(): list(made))
        monkeypatch.setattr(searching, "search_provider", lambda name, *, owner: made[name])
        return made

    return named


ServicesOf = Callable[..., dict[str, FakeSearch]]


@pytest.mark.parametrize("first", ["wikipedia", "hackernews"])
def test_the_service_that_the_topic_names_first_is_first(
    topic: Topic, providers: Providers, services: ServicesOf, first: str
):
    found = {"wikipedia": [cast.hit(1)], "hackernews": [cast.hit(2)]}
    services(**dict(sorted(found.items(), key=lambda item: item[0] != first)))
    providers.model = cast.model({"queries": ["cells"]})

    work = cast.through(cast.work_of(topic), "filter_seen")

    assert work.run.hits.earliest("place").service == first


def test_a_slow_service_is_asked_the_first_queries_alone_and_the_step_says_so(
    topic: Topic, providers: Providers, services: ServicesOf
):
    made = services(arxiv=[cast.hit(1)], wikipedia=[cast.hit(2)])
    queries = [f"query {n}" for n in range(6)]
    providers.model = cast.model({"queries": queries})

    work = cast.through(cast.work_of(topic), "search")

    assert made["arxiv"].asked == queries[:3]
    assert sorted(made["wikipedia"].asked) == queries
    assert work.step.detail.endswith("; arXiv received only the first 3 of 6 queries")


def unreachable(service: FakeSearch) -> None:
    service.search = lambda query, options: (_ for _ in ()).throw(  # type: ignore[method-assign]
        ServiceUnreachable("Name or service not known")
    )


def test_without_a_network_the_library_answers_and_the_run_says_so_once(
    topic: Topic, providers: Providers, services: ServicesOf, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory.services.library.documents.is_empty", lambda owner: False)
    made = services(wikipedia=[], arxiv=[], hackernews=[], library=[cast.hit(1)])

    providers.pages.pages = {cast.url(1): cast.page(1)}
    for name in ("wikipedia", "arxiv", "hackernews"):
        unreachable(made[name])

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number) == ("succeeded", 1)
    [warning] = run.warnings
    assert warning.startswith("No network connection.")
    assert warning.endswith("couldn’t reach Wikipedia, arXiv and Hacker News.")


def test_where_no_one_can_be_reached_the_run_waits_and_says_what_needs_no_network(
    topic: Topic, providers: Providers, services: ServicesOf
):
    for service in services(wikipedia=[], arxiv=[]).values():
        unreachable(service)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.tries) == ("queued", 1)
    assert "No network connection" in run.error
    assert "the sample topic work without network access" in run.error


def test_a_key_that_is_refused_is_reported_once_and_not_six_times(
    topic: Topic, providers: Providers, services: ServicesOf
):
    made = services(brave=[], wikipedia=[cast.hit(1)])
    providers.model = cast.model({"queries": [f"query {n}" for n in range(6)]})
    made["brave"].enqueue(*[ServiceRefused("Brave rejected the key.") for _query in range(6)])

    work = cast.through(cast.work_of(topic), "search")

    assert work.run.warnings == ["Brave rejected the key."]


def test_two_spellings_from_two_services_are_one_hit_with_both_votes(
    topic: Topic, providers: Providers, services: ServicesOf
):
    services(
        wikipedia=[found("https://A.example/x?utm_source=w")],
        hackernews=[found("https://a.example/x#top")],
    )
    providers.model = cast.model({"queries": ["cells"]})

    hit = cast.through(cast.work_of(topic), "filter_seen").run.hits.get()

    assert sorted(entry["service"] for entry in hit.queries) == ["hackernews", "wikipedia"]
