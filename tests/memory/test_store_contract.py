"""One interface, two stores: what every observation store does, asked of each (R84, R85)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from memory.models.actors import Actor
from memory.models.errors import InvalidValue, NoSuchKey
from tests.memory.observation_stores import (
    InMemoryStore,
    ObservationStore,
    PostgresStore,
    StoreClosed,
)

AGENT = Actor("agent", "claude")
FINDINGS = ["The API uses OAuth2.", "The rate limit of the API is 100 a minute."]
INSIGHTS = ["REST is better than GraphQL for this API."]
LESSONS = ["Always check rate limits first."]

pytestmark = pytest.mark.requirement("R84")


@pytest.fixture(params=["in memory", "postgres"])
def store(request: pytest.FixtureRequest, alice: Any) -> Iterator[ObservationStore]:
    made: ObservationStore = (
        InMemoryStore() if request.param == "in memory" else PostgresStore(alice, AGENT)
    )
    yield made


def fill(store: ObservationStore) -> list[str]:
    return store.remember_batch(FINDINGS, INSIGHTS, LESSONS, "GOAL:api-analysis")


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


@pytest.mark.requirement("R67")
def test_a_batch_gives_ids_in_the_order_findings_insights_lessons(store: ObservationStore):
    ids = store.remember_batch(FINDINGS, [*INSIGHTS, " "], LESSONS, "GOAL:api-analysis")

    stored = [store.retrieve(key) for key in ids]
    assert [one and one.content for one in stored] == [*FINDINGS, *INSIGHTS, *LESSONS]
    assert [one and one.category for one in stored] == ["finding", "finding", "insight", "lesson"]


@pytest.mark.requirement("R70", "R85")
@pytest.mark.parametrize("key", ["", "no id", "00000000-0000-4000-8000-000000000000", "\x00"])
def test_an_id_that_is_not_there_gives_nothing(store: ObservationStore, key: str):
    fill(store)

    assert store.retrieve(key) is None


@pytest.mark.requirement("R71")
def test_recall_by_category_gives_only_that_category(store: ObservationStore):
    fill(store)

    assert contents(store.recall_by_category("rate limits of the API", "lesson")) == LESSONS
    with pytest.raises(InvalidValue, match="finding, insight, lesson"):
        store.recall_by_category("rate limits", "rumour")


@pytest.mark.requirement("R72", "R81")
def test_three_categories_in_one_call_are_as_three_calls(store: ObservationStore):
    fill(store)
    store.remember_batch([f"The API answers in {n} milliseconds." for n in range(7)])

    found = store.recall_fil("rate limits of the API")
    assert found.findings == store.recall_by_category("rate limits of the API", "finding", 5)
    assert found.insights == store.recall_by_category("rate limits of the API", "insight", 5)
    assert found.lessons == store.recall_by_category("rate limits of the API", "lesson", 5)
    assert len(found.findings) == 5
    assert contents(store.recall_fil("API", 1).insights) == INSIGHTS


@pytest.mark.requirement("R73", "R80")
def test_recall_mixes_categories_best_first_with_id_and_score(store: ObservationStore):
    fill(store)
    store.remember_batch([f"Something about limits, number {n}." for n in range(12)])

    hits = store.recall("rate limits")
    assert len(hits) == 10
    assert {hits[0].content, hits[1].content} == {FINDINGS[1], LESSONS[0]}
    assert hits[0].category != hits[1].category
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score < 1 and store.retrieve(hit.id) for hit in hits)
    least = hits[1].score
    assert store.recall("rate limits", min_score=least) == hits[:2]
    assert store.recall("rate limits", 0) == []


@pytest.mark.requirement("R84")
def test_both_stores_rank_and_rate_alike(alice: Any):
    stores = [InMemoryStore(), PostgresStore(alice, AGENT)]
    for one in stores:
        fill(one)
        one.remember_batch(
            [f"Cell {n} holds {n * 7} hours" + " and rests" * (n % 5) for n in range(40)],
            ["東京の電池は安い", "rests rests rests"],
        )
    for query in ("rests", "cell hours rests rests", "電池", "rate limits API", "the", "nothing!"):
        ours, theirs = ([*one.recall(query, 50)] for one in stores)
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-9)
        assert sorted(contents(ours)) == sorted(contents(theirs))


@pytest.mark.requirement("R74", "R85")
def test_recall_can_be_limited_to_a_time(store: ObservationStore):
    now = timezone.now()
    for days in (3, 2, 1):
        with time_machine.travel(now - timedelta(days=days), tick=False):
            store.remember(f"A limit of {days} days.", "finding")

    def found(**limits: int) -> list[str]:
        times = {name: now - timedelta(days=days) for name, days in limits.items()}
        return sorted(contents(store.recall("limit", **times)))

    assert found(after=2) == ["A limit of 1 days.", "A limit of 2 days."]
    assert found(before=2) == ["A limit of 3 days."]
    assert found(after=2, before=1) == ["A limit of 2 days."]


@pytest.mark.requirement("R97")
@pytest.mark.parametrize("query", ["", "!!!", '"', "\x00", "a" * 5000, "the of and", "-:*&|"])
def test_any_text_is_a_question(store: ObservationStore, query: str):
    fill(store)

    assert isinstance(store.recall(query), list)


@pytest.mark.requirement("R68")
def test_a_batch_with_one_bad_text_stores_nothing(store: ObservationStore):
    with pytest.raises(InvalidValue, match="Text 3 in the batch"):
        store.remember_batch(["a limit"], ["another limit"], ["limit " * 20_000])

    assert store.recall("limit") == []


@pytest.mark.requirement("R69")
def test_a_batch_of_nothing_and_an_empty_observation_are_refused(store: ObservationStore):
    with pytest.raises(InvalidValue, match="nothing to remember"):
        store.remember_batch(["", " "], [], ["\x00"])
    with pytest.raises(InvalidValue, match="Enter the text"):
        store.remember("  ", "finding")
    with pytest.raises(InvalidValue, match="finding, insight, lesson"):
        store.remember("a fact", "rumour")


@pytest.mark.requirement("R98")
def test_the_same_again_from_the_same_source_gives_the_first(store: ObservationStore):
    assert fill(store) == fill(store)
    assert len(store.recall("API", 50)) == 3
    first = store.remember("a fact", "finding", "run:1")
    assert store.remember("A  fact", "finding", "run:1") == first
    assert store.remember("a fact", "finding", "run:2") != first
    assert store.remember("a fact", "finding") == store.remember("a fact", "finding", "explicit")


@pytest.mark.requirement("R85", "R100")
def test_a_missing_key_is_not_there(store: ObservationStore):
    for key in ("task", "", "x" * 1000):
        with pytest.raises(NoSuchKey, match="has no key"):
            store.scratchpad_get(key)


@pytest.mark.requirement("R99", "R101", "R102")
def test_the_scratchpad_sets_gets_lists_and_searches(store: ObservationStore):
    for key, value in [("api.b", "100%"), ("api.a", "old"), ("Zebra", "ÜBER"), (" api.a ", "new")]:
        store.scratchpad_set(key, value)

    assert store.scratchpad_get("api.a") == "new"
    assert store.scratchpad_list("api.") == ["api.a", "api.b"]
    assert store.scratchpad_list() == ["Zebra", "api.a", "api.b"]
    assert [hit.key for hit in store.scratchpad_search("über")] == ["Zebra"]
    assert [hit.key for hit in store.scratchpad_search("API.")] == ["api.a", "api.b"]
    assert [hit.value for hit in store.scratchpad_search("0%")] == ["100%"]
    with pytest.raises(InvalidValue, match="200 characters"):
        store.scratchpad_set("x" * 1000, "value")


@pytest.mark.requirement("R85", "R104", "R108")
def test_a_transcript_is_consolidated_once(store: ObservationStore):
    turns = [
        ("user", "How should we handle signing in, and what of the old tokens that are there?"),
        ("assistant", "We decided to use OAuth2, because all of the clients know it already."),
    ]

    ids = store.consolidate_session("123", turns)
    assert store.consolidate_session("123", turns) == ids
    assert store.consolidate_session("124", []) == []
    [one] = [store.retrieve(key) for key in ids]
    assert one is not None
    assert (one.category, one.source, one.content) == ("insight", "session:123", turns[1][1])
    assert len(store.recall("OAuth2", 50)) == 1


def test_a_closed_store_says_so(store: ObservationStore):
    store.close()

    with pytest.raises(StoreClosed):
        store.recall("anything")
    with pytest.raises(StoreClosed):
        store.scratchpad_set("key", "value")


@pytest.mark.requirement("R86")
@pytest.mark.django_db(transaction=True)
def test_writers_and_readers_at_once_lose_nothing(store: ObservationStore):
    def work(n: int) -> int:
        try:
            store.remember_batch([f"Limit {n}.{k} of the API" for k in range(4)], source=f"run:{n}")
            store.scratchpad_set(f"key {n % 3}", str(n))
            store.remember("The same limit for all.", "lesson", "run:0")
            return len(store.recall("limit", 100))
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert all(seen >= 5 for seen in pool.map(work, range(8)))

    assert len(store.recall("limit", 100)) == 8 * 4 + 1
    assert len(store.scratchpad_list()) == 3


@pytest.mark.requirement("R82")
def test_what_is_observed_outlives_the_store_object(alice: Any, bob: Any):
    store = PostgresStore(alice, AGENT)
    [key, *_rest] = fill(store)
    store.scratchpad_set("task", "value")
    store.close()

    another = PostgresStore(alice, AGENT)
    assert another.retrieve(key) is not None
    assert another.scratchpad_get("task") == "value"
    theirs = PostgresStore(bob, AGENT)
    assert theirs.retrieve(key) is None
    assert theirs.recall("API") == []
