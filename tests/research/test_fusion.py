"""The order of hits that several queries of several services returned."""

from __future__ import annotations

from research.services.runs.search.gathering import first_vote, fused

PLACES = {"wikipedia": 0, "arxiv": 1, "library": 2}


def vote(service: str, rank: int, query: str = "a") -> dict[str, object]:
    return {"service": service, "rank": rank, "query": query}


def test_of_equal_ranks_the_service_that_the_topic_names_first_decides():
    assert fused([vote("wikipedia", 1)], PLACES) > fused([vote("arxiv", 1)], PLACES)


def test_a_clearly_better_rank_passes_the_order():
    assert fused([vote("library", 1)], PLACES) > fused([vote("wikipedia", 7)], PLACES)


def test_what_two_services_found_stands_before_what_one_found_first():
    both = [vote("arxiv", 10), vote("library", 10)]

    assert fused(both, PLACES) > fused([vote("wikipedia", 1)], PLACES)


def test_a_service_that_the_order_does_not_name_comes_last():
    assert fused([vote("library", 1)], PLACES) > fused([vote("gdelt", 1)], PLACES)


def test_hits_of_equal_score_are_by_service_then_query_then_rank():
    queries = {"a": 0, "b": 1}
    votes = [vote("arxiv", 1), vote("wikipedia", 3, "b"), vote("wikipedia", 2, "b")]

    assert first_vote(votes, PLACES, queries) == (0, 1, 2)
