"""Thirty runs of one topic over 1,500 URLs: seen, returning, known and cited ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.net.fetch import WebPage
from beacon_site.providers.search.base import SearchHit
from memory.models import SeenUrl, Source, Topic, TopicFact
from research.models import DeltaItem, Run
from research.services.runs.search import known_pages
from research.services.runs.steps import planning
from tests.research.conftest import Providers

RUNS, FRESH, QUERIES = 30, 50, [f"query {n}" for n in range(6)]
# An address stays among the 500 last returned for at least this many runs of 60 hits.
REMEMBERED = 8


class Window:
    """A search over 1,500 pages: 50 that were never returned, five of late, five of long ago."""

    service = "fake"

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._lock = threading.Lock()
        self._left: list[int] = []

    def move(self, run: int) -> None:
        first = run * FRESH
        late = [first - FRESH + n for n in range(5)] if run else []
        old = [(run - 12) * FRESH + n for n in range(5)] if run >= 12 else []
        self.numbers = [*range(first, first + FRESH), *late, *old]
        self._left = list(self.numbers)

    def search(self, query: str, options: Any) -> list[SearchHit]:
        with self._lock:
            taken, self._left = self._left[:10], self._left[10:]
        return [
            SearchHit(url=address(n), title=f"Plant {n}", service="fake", rank=rank)
            for rank, n in enumerate(taken, start=1)
        ]


def address(n: int) -> str:
    return f"https://plant{n}.example/news?utm_source=feed{n % 7}"


def canonical(n: int) -> str:
    return f"https://plant{n}.example/news"


def page(url: str) -> WebPage:
    n = int(re.findall(r"plant(\d+)", url)[0])
    text = (
        f"Solid-state batteries from plant {n} in Town-{n:04} reached {n + 200} Wh per kilogram. "
        f"The plant employs {n + 11} people and belongs to Maker-{n:04}."
    )
    return WebPage(url=url, final_url=url, title=f"Plant {n}", text=text)


class Seen:
    """What the test itself remembers of the runs before."""

    def __init__(self) -> None:
        self.returned_in: dict[str, int] = {}
        self.read: set[str] = set()
        self.facts: set[str] = set()


def check_states(run: Run, number: int, seen: Seen, kept: set[str]) -> None:
    returned = run.hits.exclude(service=known_pages.SERVICE)
    states = dict(returned.values_list("url", "state"))
    for url, state in states.items():
        last = seen.returned_in.get(url, -99)
        if number - last <= REMEMBERED:
            assert state == "known", (number, url)
        elif url not in kept and url in seen.read:
            assert state == "returning", (number, url)
        elif url not in kept:
            assert state == "new", (number, url)
    counted = [list(states.values()).count(s) for s in ("new", "known", "returning")]
    assert counted == [run.new_count, run.known_count, run.returning_count]


def check_citations(run: Run) -> None:
    report = run.report
    numbers = [source["n"] for source in report.sources]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({source["link"] for source in report.sources}) == len(numbers)
    for text in (report.body, report.delta):
        assert {int(n) for n in re.findall(r"\[(\d+)\](?!\()", text)} <= set(numbers)
    by_number = {source["n"]: source for source in report.sources}
    for item in DeltaItem.objects.filter(run=run, status="new"):
        plant = re.findall(r"(?:plant |Maker-|Town-)0*(\d+)", item.sentence)
        links = [by_number[n]["link"] for n in item.citations]
        assert not plant or any(f"plant{plant[0]}." in link for link in links), item.sentence
    cited = dict(run.hits.exclude(cited_as=None).values_list("cited_as", "link"))
    # Known facts cite pages that earlier runs read.
    read = {n: source["link"] for n, source in by_number.items() if not source.get("is_earlier")}
    assert cited == read


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("R13", "R15", "R16", "R20", "R26", "R28", "R48", "R49")
def test_thirty_runs_over_1500_addresses_keep_their_books(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run], monkeypatch: Any
):
    window, seen = Window(), Seen()
    providers.search = window  # type: ignore[assignment]
    providers.pages.fetch = page  # type: ignore[method-assign]
    monkeypatch.setattr(planning, "_by_facets", lambda work, memory: list(QUERIES))

    for number in range(RUNS):
        window.move(number)
        kept = set(SeenUrl.objects.filter(topic=topic).values_list("url", flat=True))
        run = run_of(topic)

        assert (run.status, run.number) == ("succeeded", number + 1)
        returned = run.hits.exclude(service=known_pages.SERVICE)
        assert set(returned.values_list("url", flat=True)) == set(map(canonical, window.numbers))
        check_states(run, number, seen, kept)
        check_citations(run)
        current = set(
            TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True)
        )
        every = set(TopicFact.objects.filter(topic=topic).values_list("text", flat=True))
        assert 1 <= len(current) <= 10
        assert seen.facts <= every
        seen.facts |= current
        seen.returned_in |= dict.fromkeys(map(canonical, window.numbers), number)
        seen.read |= set(run.hits.filter(reading="read").values_list("url", flat=True))

    assert len(seen.returned_in) == RUNS * FRESH == 1500
    assert SeenUrl.objects.filter(topic=topic).count() == 500
    newest = {canonical(n) for n in range(22 * FRESH, 1500)}
    assert newest <= set(SeenUrl.objects.filter(topic=topic).values_list("url", flat=True))
    assert Source.objects.filter(topic=topic).count() == len(seen.read)
    assert Run.objects.filter(topic=topic, returning_count__gt=0).exists()
    assert Run.objects.filter(topic=topic).count() == RUNS
