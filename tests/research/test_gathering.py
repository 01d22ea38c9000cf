"""Searching with the services, and separating new hits from known ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.providers.search.base import SearchHit, SearchOptions
from memory.models import SeenUrl, Topic
from memory.services.llm import connections
from research.models import Hit, Run, TopicSettings
from research.services.runs.context.run_context import RunContext
from research.services.runs.search import reading, searching
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def searched(topic: Topic, providers: Providers, *hits: SearchHit, **settings: Any) -> RunContext:
    """Carry a run out up to its filter, where one query finds these hits."""
    TopicSettings.objects.filter(topic=topic).update(**settings)
    topic.refresh_from_db()
    providers.search = FakeSearch(list(hits))
    providers.model = cast.model({"queries": ["cells"]})
    return cast.through(cast.work_of(topic), "filter_seen")


def found(url: str, **more: Any) -> SearchHit:
    return SearchHit(url=url, title=more.pop("title", "A page"), **more)


@pytest.mark.requirement("R36")
def test_every_planned_query_is_asked_of_every_service(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    services = {"fake": providers.search, "other": FakeSearch([cast.hit(1)], service="other")}
    monkeypatch.setattr(connections, "search_services", lambda names=(): list(services))
    monkeypatch.setattr(searching, "search_provider", lambda name, *, owner: services[name])
    providers.model = cast.model(cast.PLAN)

    work = cast.through(cast.work_of(topic), "search")

    assert all(sorted(s.asked) == sorted(cast.PLAN["queries"]) for s in services.values())
    asked = {(e["service"], e["query"]) for e in work.output("search")["asked"]}
    assert len(asked) == 4


@pytest.mark.requirement("R14", "R17", "R49")
def test_fifty_hits_that_are_one_page_are_one_hit(topic: Topic, providers: Providers):
    providers.model = cast.model({"queries": [f"query {n}" for n in range(5)]})
    spelled = [f"https://A.example/x/?utm_source={n}&fbclid={n}#part{n}" for n in range(10)]
    providers.search = FakeSearch([found(url) for url in spelled])

    work = cast.through(cast.work_of(topic), "filter_seen")

    hit = work.run.hits.get()
    assert (hit.url, hit.rank, work.run.new_count) == ("https://a.example/x", 1, 1)
    assert len(hit.queries) == 5  # one vote a query, however often the page came


def test_a_page_that_several_queries_found_stands_before_one_that_a_single_query_found(
    topic: Topic, providers: Providers
):
    providers.model = cast.model(cast.PLAN)
    providers.search = FakeSearch(
        {"cell lines": [cast.hit(1), cast.hit(2)], "cell prices": [cast.hit(3), cast.hit(2)]}
    )

    work = cast.through(cast.work_of(topic), "filter_seen")

    assert work.run.hits.earliest("place").url == cast.url(2)


@pytest.mark.parametrize("url", ["", "   ", "https://a.example/" + "x" * 3000])
def test_a_hit_without_a_usable_address_is_left_out_and_the_run_says_so(
    topic: Topic, providers: Providers, url: str
):
    work = searched(topic, providers, found(url), cast.hit(1))

    assert [hit.url for hit in work.run.hits.all()] == [cast.url(1)]
    assert work.run.warnings == ["Results from fake without a usable URL were left out."]


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "ftp://a.example/x", "data:text/html,x", "file:///etc/passwd", "x"],
)
def test_a_hit_that_isnt_a_web_page_is_blocked_and_says_why(
    topic: Topic, providers: Providers, url: str
):
    work = searched(topic, providers, found(url))

    hit = work.run.hits.get()
    assert (hit.state, work.run.new_count) == ("blocked", 0)
    assert "not a web page" in hit.reason


def test_a_hit_at_a_private_address_is_not_opened_and_the_reason_stands_on_it(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "get_fetcher", GuardedFetcher)
    providers.search = FakeSearch([found("http://192.168.1.1/admin"), found("http://127.0.0.1/")])

    run = cast.carried_out(cast.started(topic))

    assert run.number == 1
    assert all(hit.reading == "failed" and hit.reason for hit in run.hits.all())
    assert run.report.sources == []


@pytest.mark.parametrize(
    "odd",
    [
        {"title": "t" * 900},
        {"title": "", "url": "https://a.example/" + "y" * 900},
        {"title": "a\x00b\ud800", "snippet": "s\x00"},
        {"url": "https://a.example/\x00nul"},
        {"url": "http://[half"},
        {"url": "https://a.example:99999/"},
        {"rank": 0},
    ],
)
def test_odd_hits_end_no_run(topic: Topic, providers: Providers, odd: dict[str, Any]):
    work = searched(topic, providers, found(**({"url": "https://a.example/odd"} | odd)))

    assert work.run.hits.count() == 1
    assert len(work.run.hits.get().title) <= 500


@pytest.mark.parametrize(
    ("settings", "states"),
    [
        ({"block_domains": ["site1.example"]}, ["blocked", "new"]),
        ({"block_domains": ["example"]}, ["blocked", "blocked"]),
        ({"allow_domains": ["site1.example"]}, ["new", "blocked"]),
        ({"allow_domains": ["example"], "block_domains": ["site2.example"]}, ["new", "blocked"]),
        ({"block_domains": ["ite1.example"]}, ["new", "new"]),
    ],
)
def test_blocked_domains_are_left_out_and_only_allowed_ones_are_taken(
    topic: Topic, providers: Providers, settings: dict[str, Any], states: list[str]
):
    work = searched(topic, providers, cast.hit(1), cast.hit(2), **settings)

    hits = work.run.hits.order_by("url")
    assert [hit.state for hit in hits] == states
    assert all(bool(hit.reason) is (hit.state == "blocked") for hit in hits)


@pytest.mark.requirement("R13")
def test_blocked_hits_are_neither_read_nor_seen(topic: Topic, providers: Providers):
    TopicSettings.objects.filter(topic=topic).update(block_domains=["site1.example"])
    cast.set_up(providers, 1, 2)

    cast.carried_out(cast.started(topic))

    assert providers.pages.history == [cast.url(2)]
    assert list(SeenUrl.objects.values_list("url", flat=True)) == [cast.url(2)]


def test_a_topic_whose_every_hit_is_blocked_says_so(topic: Topic, providers: Providers):
    TopicSettings.objects.filter(topic=topic).update(allow_domains=["elsewhere.example"])
    cast.set_up(providers, 1, 2)

    run = cast.carried_out(cast.started(topic))

    assert run.report.summary.startswith(
        "The searches found 2 sources, but your rules block all of them"
    )


@pytest.mark.requirement("R37", "R49")
def test_new_known_and_returning_hits_are_told_apart_and_counted_once(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1, 2)
    run_of(topic)
    SeenUrl.objects.filter(topic=topic, url=cast.url(1)).delete()  # it fell out of the 500
    cast.set_up(providers, 1, 2, 3)

    run = run_of(topic)

    states = {hit.url: hit.state for hit in run.hits.all()}
    assert states == {cast.url(1): "returning", cast.url(2): "known", cast.url(3): "new"}
    assert (run.new_count, run.known_count, run.returning_count) == (1, 1, 1)
    assert cast.sentence(1) not in run.report.delta
    # The second page is known, and read again since a fact rests on it.
    assert sorted(providers.pages.history) == [cast.url(1), cast.url(2), cast.url(3)]


@pytest.mark.requirement("R47")
def test_one_query_that_fails_is_a_warning(topic: Topic, providers: Providers):
    providers.model = cast.model(cast.PLAN)
    providers.search.enqueue(ProviderRejected("too long"), [cast.hit(1)])

    work = cast.through(cast.work_of(topic), "search")

    assert work.run.warnings == ["fake: 1 of 2 searches failed: too long"]
    assert work.run.hits.count() == 1


@pytest.mark.requirement("R47")
def test_a_service_that_is_down_is_asked_three_times_and_waits_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    pauses: list[float] = []
    monkeypatch.setattr(searching.time, "sleep", pauses.append)
    search = FakeSearch()
    search.enqueue(
        ProviderUnavailable("a"), ProviderUnavailable("b", retry_after=60), ["https://x"]
    )

    asked = searching.ask(search, "q", SearchOptions())

    assert (asked.tries, asked.problem, len(asked.hits)) == (3, "", 1)
    assert pauses == [0.5, 5.0]


def test_what_a_feed_warns_of_stands_on_the_run(topic: Topic, providers: Providers):
    providers.search.warnings = ["the feed is broken in part"]  # type: ignore[attr-defined]
    providers.model = cast.model({"queries": ["cells"]})

    work = cast.through(cast.work_of(topic), "search")

    assert work.run.warnings == ["the feed is broken in part"]


@pytest.mark.parametrize("names", [[], ["feeds"]])
def test_a_topic_that_no_service_can_be_asked_for_fails_and_says_what_to_set_up(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, names: list[str], providers: Providers
):
    monkeypatch.setattr(connections, "search_services", lambda chosen=(): names)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number) == ("failed", None)
    assert "No search service is available" in run.error
    assert "retry the run" in run.error


def test_the_services_are_told_what_the_topic_asks_for(topic: Topic, providers: Providers):
    work = searched(
        topic, providers, cast.hit(1), time_frame="week", languages=["de"], engine="google_news"
    )

    options = providers.search.history[0].options
    assert options.since == timezone.localdate() - timedelta(days=7)
    assert (options.languages, options.engine, options.batch) == (("de",), "google_news", 1)
    assert work.run.new_count == 1


def test_a_hit_keeps_its_date_and_its_snippet(topic: Topic, providers: Providers):
    dated = found("https://a.example/d", snippet="What\nit says", published_at=date(2026, 5, 4))

    hit = searched(topic, providers, dated).run.hits.get()

    assert (hit.published_at, hit.snippet) == (date(2026, 5, 4), "What it says")


@pytest.mark.requirement("R42")
def test_a_second_run_that_finds_no_source_says_so(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)
    providers.search = FakeSearch()

    run = run_of(topic)

    assert (run.status, run.number, run.report.is_quiet) == ("succeeded", 2, True)
    assert run.report.delta.startswith("Nothing new since")
    assert run.report.delta.endswith("The searches found no pages.")
    text = run.report.as_markdown()
    assert text.count("1 known page was checked again") == 1
    assert text.count("since Run #1") == 1
    assert "new pages: 0 · known pages: 1" in text


def test_one_source_that_was_known_is_told_as_one(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)

    assert "The searches found 1 page, which was already known." in run_of(topic).report.delta


def test_a_second_run_that_could_not_read_what_came_up_does_not_call_it_known(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    providers.pages.pages = {}

    run = run_of(topic)

    assert "1 new source couldn’t be read" in run.report.delta
    assert "all already known" not in run.report.delta
    assert Hit.objects.get(run=run, state="new").reading == "failed"


def test_an_empty_library_is_not_asked_and_its_silence_hides_no_service_that_is_down(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    serpapi = FakeSearch(service="serpapi")
    serpapi.search = lambda query, options: (_ for _ in ()).throw(  # type: ignore[method-assign]
        ProviderRejected("the key is wrong")
    )
    monkeypatch.setattr(connections, "search_services", lambda chosen=(): ["serpapi", "library"])
    monkeypatch.setattr(searching, "search_provider", lambda name, *, owner: serpapi)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number) == ("failed", None)
    assert "the key is wrong" in run.error


def test_a_topic_with_nothing_to_search_fails_and_says_what_to_set_up(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "search_services", lambda chosen=(): ["feeds", "library"])

    run = cast.carried_out(cast.started(topic))

    assert run.status == "failed"
    assert "the library is empty" in run.error
