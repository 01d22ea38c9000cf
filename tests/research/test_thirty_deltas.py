"""In thirty runs, nothing known is reported as new again: no fact, and no URL."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from beacon_site.providers.search.base import SearchHit
from beacon_site.text.canonical_urls import canonical_url
from memory.models import SeenUrl, Source, Topic, TopicFact
from research.models import Run
from research.services.sources import figures as source_rules
from tests.providers.fakes import FakeFetcher, FakeSearch
from tests.research.conftest import Providers

RUNS = 30
MAKERS = [
    "Arvoltis",
    "Benkraft",
    "Celmora",
    "Dunwerk",
    "Elstrom",
    "Fennova",
    "Gralin",
    "Hexcell",
    "Iberion",
    "Jolvar",
    "Kestrin",
    "Lumeva",
    "Marnholt",
    "Nexaro",
    "Orvida",
    "Pelgrin",
    "Quanta",
    "Rovento",
    "Sulimar",
    "Tarvex",
    "Ulmera",
    "Vantric",
    "Wolmar",
    "Xandrel",
    "Yverta",
    "Zephion",
    "Alderon",
    "Brevik",
    "Corvala",
    "Dexmore",
]
PLACES = [
    "Aachen",
    "Bergen",
    "Cadiz",
    "Dresden",
    "Evora",
    "Faro",
    "Ghent",
    "Haifa",
    "Izmir",
    "Jena",
    "Krakow",
    "Lyon",
    "Malaga",
    "Nantes",
    "Oslo",
    "Porto",
    "Quimper",
    "Riga",
    "Sofia",
    "Turku",
    "Utrecht",
    "Vienna",
    "Wismar",
    "Xanten",
    "York",
    "Zadar",
    "Arles",
    "Brno",
    "Como",
    "Delft",
]


def value(n: int) -> str:
    return f"{n * 137 + 1412:,}"


def fact(n: int) -> str:
    return (
        f"{MAKERS[n]} makes {value(n)} solid-state battery cells a day at its plant in {PLACES[n]}."
    )


# What is known of a maker, as other pages say it again.
AGAIN: tuple[Callable[[int], str], ...] = (
    fact,
    lambda n: (
        f"At its plant in {PLACES[n]}, {MAKERS[n]} makes {value(n)} solid-state battery cells a day."
    ),
    lambda n: (
        f"{MAKERS[n]} makes {value(n).replace(',', '')} solid-state battery cells per day "
        f"at its {PLACES[n]} plant, the company says."
    ),
    lambda n: (
        f"{value(n)} solid-state battery cells a day are made by {MAKERS[n]} at its plant in {PLACES[n]}."
    ),
)


class Web:
    """What a run can find: a page with a new fact, pages that say known ones again, known pages."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.found: list[str] = []

    def move(self, run: int) -> None:
        known = list(self.pages)
        self.found = [self._put(f"https://news{run}.example/{MAKERS[run]}", fact(run))]
        for place, form in enumerate(AGAIN):
            n = run - 1 - place * 5  # of the last run, and of ones before it
            if n >= 0:
                self.found.append(self._put(f"https://copy{run}-{place}.example/a", form(n)))
        # Known addresses, as another search writes them.
        self.found += [f"{url}?utm_source=feed{run}#top" for url in (*known[-2:], *known[:1])]
        self.found.append(self._put(f"https://blocked.example/{run}", fact(run)))
        self.found.append(self._put(f"https://refused.example/{run}", fact(run)))

    def _put(self, url: str, sentence: str) -> str:
        self.pages[url] = f"Battery news\n\n{sentence}"
        return url


def makers_in(texts: list[str]) -> list[str]:
    return [name for text in texts for name in re.findall("|".join(MAKERS), text)]


def check_addresses(run: Run, topic: Topic, known: set[str]) -> None:
    states = dict(run.hits.values_list("url", "state"))
    fresh = {url for url, state in states.items() if state == "new"}
    assert not fresh & known
    assert not [url for url in fresh if "blocked." in url or "refused." in url]
    cited = {canonical_url(source["link"]) for source in run.report.sources}
    assert not [url for url in cited if "blocked." in url or "refused." in url]


@pytest.mark.slow
@pytest.mark.requirement("R15", "R41")
def test_in_thirty_runs_no_known_fact_and_no_known_address_comes_as_new(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]
):
    by, web, told = topic.owner.actor, Web(), list[str]()
    source_rules.set_rule(topic, "blocked.example", "block", scope="topic", by=by)
    source_rules.set_rule(topic, "refused.example", "block", scope="all", by=by)

    for number in range(RUNS):
        web.move(number)
        providers.search = FakeSearch(
            [SearchHit(url=url, title="Battery news") for url in web.found]
        )
        providers.pages = FakeFetcher(web.pages)
        known = {
            *SeenUrl.objects.filter(topic=topic).values_list("url", flat=True),
            *Source.objects.filter(topic=topic).values_list("url", flat=True),
        }
        run = run_of(topic)

        assert run.status == "succeeded"
        check_addresses(run, topic, known)
        news = run.delta_items.filter(status="new", hidden_reason="").values_list(
            "sentence", flat=True
        )
        named = makers_in(list(news) if number else [fact(0)])
        assert named == [MAKERS[number]]
        told += named

    assert told == MAKERS
    assert TopicFact.objects.filter(topic=topic).retired().count() >= RUNS - 10
