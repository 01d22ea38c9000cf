"""What a run's queries learn from each other about a service, and how failures are reported."""

from __future__ import annotations

from typing import Any

import pytest

from beacon_site.net.errors import (
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.providers.search.base import SearchOptions
from memory.models import User
from research.services.runs.search import searching
from research.services.runs.search.searching import Gate, Network, ask, complaints
from tests.providers.fakes import FakeSearch

OPTIONS = SearchOptions()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching.time, "sleep", lambda seconds: None)


def test_a_service_that_refuses_its_key_is_not_asked_the_remaining_queries():
    service, gate = FakeSearch(service="brave"), Gate("brave")
    service.enqueue(ServiceRefused("Brave rejected the key."))

    first, second = (ask(service, query, OPTIONS, gate=gate) for query in ("a", "b"))

    assert service.asked == ["a"]
    assert (first.tries, second.tries, second.problem) == (1, 0, "Brave rejected the key.")


def test_a_query_that_is_refused_for_itself_keeps_no_other_from_being_asked():
    service, gate = FakeSearch(service="brave"), Gate("brave")
    service.enqueue(ProviderRejected("too long"), ["https://x.example"])

    asked = [ask(service, query, OPTIONS, gate=gate) for query in ("a", "b")]

    assert [each.problem for each in asked] == ["too long", ""]


def test_the_same_refusal_twice_is_about_the_service():
    service, gate = FakeSearch(), Gate("fake")
    service.enqueue(*[ProviderRejected("JSON is off") for _query in "ab"])

    asked = [ask(service, query, OPTIONS, gate=gate) for query in ("a", "b", "c")]

    assert service.asked == ["a", "b"]
    assert asked[2].problem == "JSON is off"


@pytest.mark.requirement("R47")
def test_a_service_that_is_down_is_given_up_after_the_tries_of_its_first_query():
    service, gate = FakeSearch(), Gate("fake")
    service.enqueue(*[ProviderUnavailable("down") for _try in range(3)])

    asked = [ask(service, query, OPTIONS, gate=gate) for query in ("a", "b")]

    assert service.asked == ["a"] * 3
    assert (asked[1].tries, asked[1].may_retry) == (0, True)


def test_a_service_that_answered_before_is_asked_again_whatever_one_query_met():
    service, gate = FakeSearch(["https://x.example"]), Gate("fake")
    ask(service, "a", OPTIONS, gate=gate)
    service.enqueue(*[ProviderUnavailable("slow") for _try in range(3)])

    asked = [ask(service, query, OPTIONS, gate=gate) for query in ("b", "c")]

    assert [each.problem for each in asked] == ["slow", ""]


def test_without_a_network_a_service_is_not_tried_thrice_where_another_was():
    network = Network()
    network.unreached("wikipedia", is_last=True)
    service = FakeSearch(service="arxiv")
    service.enqueue(ServiceUnreachable("no route"))

    asked = ask(service, "a", OPTIONS, gate=Gate("arxiv", network))

    assert (asked.tries, asked.unreachable) == (1, True)


def test_one_answer_from_outside_shows_that_there_is_a_network():
    network = Network()
    Gate("gdelt", network).answered()
    network.unreached("wikipedia", is_last=True)
    network.unreached("arxiv", is_last=True)

    assert not network.is_down


def test_one_service_that_is_not_reached_isnt_a_sign_that_there_is_no_network():
    network = Network()
    network.unreached("wikipedia", is_last=True)

    assert not network.is_down


def test_the_library_isnt_a_sign_of_a_network():
    network = Network()
    Gate("library", network).answered()
    network.unreached("wikipedia", is_last=True)
    network.unreached("arxiv", is_last=True)

    assert network.is_down


def entry(service: str, problem: str = "", **more: Any) -> dict[str, Any]:
    return {"query": "q", "service": service, "problem": problem, "unreachable": False} | more


def test_each_service_complains_once_in_one_sentence():
    entries = [entry("brave", "Brave rejected the key.")] * 6
    entries += [entry("gdelt", "too often"), entry("gdelt"), entry("wikipedia")]

    assert complaints(entries) == [
        "Brave rejected the key.",
        "GDELT: 1 of 2 searches failed: too often",
    ]


def test_a_network_that_is_down_is_reported_once():
    down = [
        entry(name, "Name or service not known", unreachable=True)
        for name in ("wikipedia", "arxiv", "hackernews", "wikipedia")
    ]

    [told] = complaints([*down, entry("library")])
    assert told.startswith("No network connection. ")
    assert told.endswith("couldn’t reach Wikipedia, arXiv and Hacker News.")


def test_one_service_that_cannot_be_reached_is_not_called_the_network():
    entries = [entry("searxng", "SearXNG could not be reached: refused.", unreachable=True)]

    assert complaints(entries) == ["SearXNG could not be reached: refused."]


@pytest.mark.parametrize("name", ["serpapi", "feeds", "sample", "library"])
def test_each_service_has_a_provider(alice: User, name: str) -> None:
    provider = searching.search_provider(name, owner=alice)

    assert provider is not None
    assert provider.service == name


def test_a_service_that_beacon_does_not_have_has_none(alice: User) -> None:
    assert searching.search_provider("altavista", owner=alice) is None
