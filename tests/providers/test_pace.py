"""Vendors' rate limits, across threads and processes."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable

import pytest
from django.core.cache import cache
from redis.exceptions import ConnectionError as RedisGone

from beacon_site.net import rate_limit as pace_module
from beacon_site.net.errors import ProviderUnavailable
from beacon_site.net.rate_limit import MaxConcurrent, MinInterval


class Clock:
    """A clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.7

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def domain() -> str:
    """A vendor only for this test: the cache outlives it."""
    return f"v{uuid.uuid4().hex}.example"


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_args: object, **_more: object) -> None:
        raise RedisGone("Connection refused")

    monkeypatch.setattr(cache, "add", gone)
    monkeypatch.setattr(cache, "get", gone)
    monkeypatch.setattr(cache, "delete", gone)


def every(domain: str, clock: Clock, seconds: float = 3, **more: float) -> MinInterval:
    return MinInterval(
        "arXiv", domain, seconds=seconds, clock=clock, sleep=clock.sleep, patience=more.get("p", 30)
    )


def moments(turns: int, *paces: MinInterval, url: str) -> list[float]:
    """Return when each of the turns began, taken from the paces by turns."""
    began = []
    for number in range(turns):
        pace = paces[number % len(paces)]
        with pace.turn(url):
            began.append(pace._clock())
    return began


def gaps(began: list[float]) -> list[float]:
    ordered = sorted(began)
    return [later - sooner for sooner, later in itertools.pairwise(ordered)]


def at_the_same_time(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_first_request_does_not_wait(domain, clock):
    began = clock.now

    assert moments(1, every(domain, clock), url=f"https://{domain}/") == [began]


def test_requests_in_a_row_keep_their_distance(domain, clock):
    began = moments(6, every(domain, clock), url=f"https://api.{domain}/q")

    assert min(gaps(began)) >= 3
    assert max(gaps(began)) < 6.3


def test_two_processes_share_one_limit(domain, clock):
    ours, theirs = every(domain, clock), every(domain, clock)

    assert min(gaps(moments(6, ours, theirs, url=f"https://{domain}/"))) >= 3


def test_a_later_request_after_a_pause_does_not_wait(domain, clock):
    pace = every(domain, clock)
    moments(3, pace, url=f"https://{domain}/")
    clock.sleep(60)
    now = clock.now

    assert moments(1, pace, url=f"https://{domain}/") == [now]
    assert len(pace._held) <= 2


def test_anyone_who_would_wait_too_long_is_told_at_once_when_to_come_back(domain, clock):
    crowd = every(domain, clock, p=1e6)
    for _number in range(12):
        crowd._reserved()  # in the queue, not yet at its turn
    began = clock.now

    with (
        pytest.raises(ProviderUnavailable, match="arXiv allows one request every 3") as told,
        every(domain, clock).turn(f"https://{domain}/"),
    ):
        pass
    assert told.value.retry_after == 30
    assert clock.now == began


def test_a_server_of_ones_own_is_not_paced(domain, clock):
    began = clock.now

    assert moments(5, every(domain, clock), url="http://127.0.0.1:8080/") == [began] * 5
    assert moments(2, every(domain, clock), url=f"https://not{domain}/") == [began] * 2


@pytest.mark.requirement("R56")
def test_without_the_cache_each_process_keeps_to_the_limit_for_itself(domain, clock, no_cache):
    assert min(gaps(moments(5, every(domain, clock), url=f"https://{domain}/"))) >= 3


def test_threads_that_ask_together_come_one_after_the_other(domain):
    pace, began = MinInterval("arXiv", domain, seconds=0.1), []

    def work() -> None:
        with pace.turn(f"https://{domain}/"):
            began.append(time.time())

    at_the_same_time(5, work)

    assert len(began) == 5
    assert min(gaps(began)) >= 0.1


@pytest.mark.parametrize("processes", [1, 2])
def test_no_more_than_so_many_are_asked_at_once(domain, processes):
    paces = [MaxConcurrent("Wikipedia", domain, count=3) for _number in range(processes)]
    busy, most, queue = [0], [0], iter(range(9))

    def work() -> None:
        with paces[next(queue) % processes].turn(f"https://de.{domain}/"):
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            time.sleep(0.05)
            busy[0] -= 1

    at_the_same_time(9, work)

    assert (busy[0], most[0]) == (0, 3)


@pytest.mark.requirement("R56")
def test_without_the_cache_threads_still_share_the_places(domain, clock, no_cache):
    pace = MaxConcurrent("Wikipedia", domain, count=1, clock=clock, sleep=clock.sleep)

    with pace.turn(f"https://{domain}/"), pytest.raises(ProviderUnavailable):
        pace._entered()
    with pace.turn(f"https://{domain}/"):
        pass


def test_a_place_that_never_comes_free_is_not_waited_for_without_end(domain, clock):
    ours = MaxConcurrent("Wikipedia", domain, count=1, clock=clock, sleep=clock.sleep)
    url, began = f"https://{domain}/", clock.now

    with (
        MaxConcurrent("Wikipedia", domain, count=1).turn(url),
        pytest.raises(ProviderUnavailable, match=r"Wiki.* allows 1 searches at once") as told,
        ours.turn(url),
    ):
        pass
    assert told.value.retry_after == 30
    assert 30 <= clock.now - began < 31


def test_a_request_that_fails_gives_its_place_back(domain):
    pace, url = MaxConcurrent("Wikipedia", domain, count=1, patience=0), f"https://{domain}/"

    with pytest.raises(ValueError, match="broke"), pace.turn(url):
        raise ValueError("broke")
    with pace.turn(url):
        pass


def test_a_place_whose_lease_ran_out_is_not_taken_from_its_new_holder(domain, monkeypatch):
    monkeypatch.setattr(pace_module, "LEASE", 1)
    url = f"https://{domain}/"
    slow, next_one = (
        MaxConcurrent("Wikipedia", domain, count=1, patience=5) for _process in range(2)
    )

    with slow.turn(url):
        monkeypatch.setattr(pace_module, "LEASE", 60)
        place = next_one._entered()
    assert cache.get(next_one._key(place)) == next_one._held[place]
    next_one._free(place)
