"""A hit that several services found, in any order of answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import permutations
from typing import Any

from pytest_django import DjangoAssertNumQueries

from beacon_site.providers.search.base import SearchHit
from memory.models import Topic
from research.models import Hit
from research.services.runs.search import gathering
from research.services.runs.search.searching import QueryResult
from tests.research import cast

ORDER = gathering.order_of(["wikipedia", "arxiv", "library"], ["cells", "lines"])
TOLD = ("link", "title", "snippet", "service", "published_at", "rank")
DATE = date(2026, 5, 4)


def answer(service: str, query: str = "cells", **said: Any) -> QueryResult:
    """An answer with the one page, as this service spells and tells it."""
    given = {"url": f"https://a.example/x?utm_source={service}{query}", "rank": 1} | said
    hit = SearchHit(**({"title": "", "service": service} | given))
    return QueryResult(query=query, service=service, hits=[hit], tries=1, milliseconds=1)


def kept(topic: Topic, batches: Sequence[Sequence[QueryResult]]) -> list[dict[str, Any]]:
    """Return the hits after these batches of answers arrived one after another."""
    work, count = cast.work_of(topic), 0
    for batch in batches:
        count = gathering.keep(work, batch, ORDER, count)
    told = list(work.run.hits.values(*TOLD))
    work.run.delete()
    return told


def test_in_whatever_order_the_services_answer_a_hit_is_reported_the_same(topic: Topic):
    answers = [
        answer("wikipedia", "lines", title="Lines", rank=4),
        answer("wikipedia", "cells", rank=3),
        answer("arxiv", title="Cells", snippet="of arXiv"),
        answer("library", snippet="of the library", published_at=DATE),
    ]

    told = [kept(topic, [p[:2], p[2:3], p[3:]]) for p in permutations(answers)]

    assert all(one == told[0] for one in told)
    link = "https://a.example/x?utm_source=wikipediacells"
    assert [tuple(told[0][0].values())] == [(link, "Lines", "of arXiv", "wikipedia", DATE, 1)]


def test_a_page_that_no_one_gives_a_title_is_called_by_the_address_of_the_first(topic: Topic):
    answers = [answer("arxiv"), answer("wikipedia")]

    both = [kept(topic, [answers]), kept(topic, [answers[::-1]])]

    assert both[0] == both[1]
    assert both[0][0]["title"] == "https://a.example/x?utm_source=wikipediacells"


def test_votes_count_the_same_in_whatever_order_they_came():
    votes = [{"service": "x", "query": "q", "rank": rank} for rank in (1, 2, 3, 5, 7)]

    assert len({gathering.fused(list(order), {}) for order in permutations(votes)}) == 1


def test_hits_are_stored_again_by_one_statement_however_many_they_are(
    topic: Topic, django_assert_num_queries: DjangoAssertNumQueries
):
    work = cast.work_of(topic)
    rows = [Hit(run=work.run, url=f"https://a.example/{n}", place=n) for n in range(40)]
    found = Hit.objects.bulk_create(rows)
    for hit in found:
        hit.place, hit.reason, hit.title = 100 - hit.place, f"why {hit.place}", "not stored"

    with django_assert_num_queries(1):
        gathering.store_again(found, ["place", "reason"])

    kept = list(Hit.objects.order_by("-place").values_list("place", "reason", "title"))
    assert kept == [(100 - n, f"why {n}", "") for n in range(40)]
