"""No neighboring machine can be reached, however its address is written, no matter who enters it.

A real server on loopback counts what reaches it.  So that the port doesn't protect it, its port is let
through as if it were 80; names are looked up in a table of ours, in which a stranger's lead here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from django.test import Client
from pytest_socket import SocketConnectBlockedError

from beacon_site.net import address_guard, webhooks
from beacon_site.net.errors import ProviderError, ProviderRejected
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.net.http import ServiceHttp
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProfile
from beacon_site.providers.search.feeds import feed_search
from memory.models import ContentItem, User
from memory.pages.connections import views as connections_views
from research.models import Channel
from research.services.runs.search import reading
from tests.api.cast import Program
from tests.attacks.address_forms import (
    LEADING_HERE,
    REDIRECTS,
    SPECIAL_SIX,
    TARGETS,
    hosts,
    inside_six,
    odd_urls,
    urls,
)  # fmt: skip
from tests.attacks.figures import Count
from tests.providers.fakes import FakeSearch
from tests.providers.raw_server import RawServer, http
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.conftest import providers as providers  # the fixture
from tests.research.factories import make_topic

PUBLIC = "93.184.216.34"
GONE = "2606:4700::1111"
Names = dict[str, list[str]]
_real = socket.getaddrinfo


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    """A neighboring server, at an allowed port."""
    with RawServer(http(b"<p>secret</p>")) as server:
        monkeypatch.setitem(address_guard.PORTS, "http", server.port)
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The resolution of names; no other name is looked up, and the system reads numbers."""
    table: Names = {}

    def look_up(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in table:
            answers = [_real(found, port, *rest, **more) for found in table[name]]
            return [one for answer in answers for one in answer]
        more["flags"] = socket.AI_NUMERICHOST
        return _real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table


def shots(port: int, names: Names) -> list[str]:
    """Return all addresses to try; `names` has the resolution of a stranger's names."""
    names |= {name: ["127.0.0.1"] for name in LEADING_HERE}
    names |= {
        name.encode("idna").decode(): ["127.0.0.1"] for name in LEADING_HERE if name[0] != "-"
    }
    bad = [*TARGETS, *SPECIAL_SIX, *(six for one in TARGETS for _c, six in inside_six(one))]
    for place, address in enumerate(bad):
        names[f"n{place}.evil.example"] = [address]
        names[f"first{place}.evil.example"] = [PUBLIC, address]
        names[f"last{place}.evil.example"] = [address, PUBLIC]
    named = [f"http://{name}:{port}/x" for name in (*LEADING_HERE, *names)]
    return list(dict.fromkeys([*urls(port), *named]))


def httpx_host(url: str) -> str:
    """Return the host as Beacon's client reads it."""
    with suppress(httpx.InvalidURL, ValueError):
        return httpx.URL(url.strip(" ")).host
    return ""


def refusals(act: Callable[[str], Any], tried: list[str]) -> list[str]:
    """Return why each address was rejected; addresses that answered have no reason."""
    said = []
    for url in tried:
        try:
            act(url)
        except ProviderError as exc:
            said.append(str(exc))
    return said


def test_there_are_two_hundred_forms_of_an_address() -> None:
    assert len({*hosts(), *LEADING_HERE, *odd_urls(80)}) >= 200


@pytest.mark.parametrize(
    ("sink", "act"),
    [
        ("address: a page of research", lambda url: GuardedFetcher().fetch(url)),
        ("address: a feed", lambda url: GuardedFetcher().get_bytes(url)),
        (
            "address: a webhook when it is sent",
            lambda url: webhooks.post(url, b"{}", message_id="m", key=webhooks.new_key()),
        ),
    ],
)
def test_none_is_fetched_or_posted_to(
    private: RawServer, names: Names, count: Count, sink: str, act: Callable[[str], Any]
) -> None:
    tried = shots(private.port, names)

    said = refusals(act, tried)

    count(sink, len(tried), refused=len(said), run=len(private.requests))
    assert private.received == 0
    assert len(said) == len(tried)
    assert all(why.endswith(".") for why in said)


def test_none_is_taken_as_a_webhook_and_none_is_read_as_a_feed(
    private: RawServer, names: Names, count: Count
) -> None:
    tried = shots(private.port, names)
    feeds = feed_search(SearchProfile(service="feeds"))
    with pytest.raises(ProviderRejected, match="was skipped"):
        feeds.search("", SearchOptions(feeds=tuple(tried)))

    # What a name leads to is judged when it is posted to: above.
    judged = [url for url in tried if not any(name in url for name in names)]
    judged = [url for url in judged if httpx_host(url) != "example.org"]
    said = refusals(webhooks.check_address, judged)

    count("address: feeds of a topic", len(tried), refused=len(tried), run=len(private.requests))
    count("address: a webhook that is entered", len(judged), refused=len(said))
    assert len(said) == len(judged)
    assert private.received == 0


@pytest.mark.long
def test_neither_the_form_nor_a_program_enters_one(
    private: RawServer, names: Names, alice: User, client_of: Callable[[Any], Client], count: Count
) -> None:
    browser, program = client_of(alice), Program(alice, "read", "write")
    tried = urls(private.port)[::60]
    make_topic(alice, "Cells")
    for url in tried:
        browser.post("/settings/channels/new/webhook/", {"address": url, "reports": "each"})
        desk = browser.post("/topics/cells/sources/next/", {"address": url})
        assert desk.status_code < 500
        assert connections_views.try_feed(url).ok is False
    answer = program.post("/topics", {"title": "T", "feeds": tried, "services": ["feeds"]})

    assert answer.status_code in (201, 422)
    count(
        "address: forms and programs",
        3 * len(tried) + 1,
        refused=3 * len(tried),
        run=len(private.requests),
    )
    assert not Channel.objects.exists()
    assert private.received == 0


@pytest.mark.parametrize("status", REDIRECTS)
def test_no_redirect_leads_to_one(
    private: RawServer, names: Names, count: Count, status: int
) -> None:
    tried = shots(private.port, names)[:: 12 - REDIRECTS.index(status)]
    places = iter(tried)

    def answer(connection: Any) -> None:
        place = next(places, "/").encode("utf-8", "replace").replace(b"\r\n", b"")
        connection.sendall(b"HTTP/1.1 %d x\r\nLocation: %s\r\n\r\n" % (status, place))

    with RawServer(answer) as public:
        names["news.example.org"] = ["127.0.0.1"]
        place = f"news.example.org:{public.port}"
        fetcher = GuardedFetcher(allow_hosts=frozenset({place}))
        # A place that is a path leads back to the same site, which was allowed.
        said = refusals(lambda _url: fetcher.fetch(f"http://{place}/"), tried)

    count("address: redirects", len(tried), refused=len(said), run=len(private.requests))
    assert private.received == 0
    assert len(said) == len(tried)


def test_what_a_name_leads_to_can_change_between_any_two_look_ups(
    private: RawServer, count: Count
) -> None:
    turns = [["127.0.0.1"], [GONE, "127.0.0.1"], ["::1"], ["127.0.0.1", GONE], ["::ffff:7f00:1"]]
    waiting = iter([*turns, *turns[::-1]])
    fetcher = GuardedFetcher(allow_hosts=frozenset(), resolver=lambda _host, _port: next(waiting))
    tried = [f"http://rebind.evil.example:{private.port}/"] * 2 * len(turns)

    said = refusals(fetcher.fetch, tried)

    count("address: names that change", len(tried), refused=len(said), run=len(private.requests))
    assert private.received == 0
    assert len(said) == len(tried)


def test_no_variable_of_the_environment_leads_a_request_elsewhere(
    private: RawServer, names: Names, monkeypatch: pytest.MonkeyPatch, count: Count
) -> None:
    """A proxy that the environment names would be asked for every page, whatever the guard says."""
    variables = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in variables:
        monkeypatch.setenv(name, f"http://127.0.0.1:{private.port}")
    names["news.example.org"] = ["127.0.0.1"]
    with RawServer(http(b"<p>Fine.</p>")) as public:
        place = f"news.example.org:{public.port}"
        GuardedFetcher(allow_hosts=frozenset({place})).get_bytes(f"http://{place}/")
        ServiceHttp("A service").get(f"http://{place}/", {})
        reached = len(public.requests)

    count("address: proxies of the environment", 2 * len(variables), run=len(private.requests))
    assert reached == 2
    assert private.received == 0


def test_a_service_that_was_entered_can_be_here_but_leads_nowhere_else(
    private: RawServer, count: Count
) -> None:
    """On purpose: the admin of Beacon names the model and the search, mostly on this machine."""
    to = f"http://127.0.0.1:{private.port}/"
    with RawServer(http(b"{}", status="302 Found", location=to)) as service:
        for _status in REDIRECTS:
            reply = ServiceHttp("A service").get(service.url, {})
            assert reply.status == 302

    count(
        "address: a service on this machine (allowed) that redirects", 5, run=len(private.requests)
    )
    assert private.received == 0


def test_a_run_whose_search_finds_nothing_else_opens_none(
    private: RawServer, names: Names, alice: User, providers: Providers,
    monkeypatch: pytest.MonkeyPatch, count: Count,
) -> None:  # fmt: skip
    tried = shots(private.port, names)[::7]
    monkeypatch.setattr(reading, "get_fetcher", GuardedFetcher)
    cast.set_up(providers, 1)
    hits = [SearchHit(url=url, title=f"T{n}", snippet="s") for n, url in enumerate(tried)]
    providers.search = FakeSearch(hits)
    run = cast.carried_out(cast.started(make_topic(alice, "Cells")))

    refused = run.hits.exclude(reason="").count()
    count("address: hits of a run", len(tried), refused=refused, run=len(private.requests))
    assert run.hits.filter(reading="read").count() == 0
    assert run.status in ("succeeded", "partial", "failed")
    assert private.received == 0
    assert not ContentItem.objects.filter(content__contains="secret").exists()


@pytest.mark.filterwarnings("ignore:A test tried")
def test_with_the_guard_off_the_same_addresses_reach_the_server(
    private: RawServer, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: these are addresses that lead here, and it is the guard that keeps them out."""
    monkeypatch.setattr(address_guard, "_check_host", lambda host: None)
    monkeypatch.setattr(address_guard, "is_forbidden", lambda address: False)
    for url in shots(private.port, names):
        with suppress(ProviderError, SocketConnectBlockedError):  # the tests only reach loopback
            GuardedFetcher().get_bytes(url)

    assert len(private.requests) > 20
