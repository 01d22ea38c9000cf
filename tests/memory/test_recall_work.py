"""How much work Postgres does for a recall right after many records were written.

Until the next ANALYZE it expects a single row of their owner. Work is counted from the plans that
were carried out, so a busy machine does not matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from memory.models import Observation
from memory.search.bm25_sql import language_of
from memory.search.filters import holding
from memory.search.query import parse
from memory.search.recall import recall_page
from memory.tasks import embed_due

pytestmark = pytest.mark.usefixtures("fake", "extension")

FRESH = 60
QUOTED = 'Which books are recommended for "The Poppy War"?'
CONDITIONS = ("Filter", "Recheck Cond", "Join Filter")
REMOVED = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
Plan = dict[str, Any]


def observe(owner: Any, texts: list[str]) -> None:
    made = [
        Observation(
            owner=owner, category="finding", content=text, digest=Observation.digest_of(text)
        )
        for text in texts
    ]
    Observation.objects.bulk_create(made)
    Observation.follow(made)
    embed_due()


@pytest.fixture
def reader(alice: Any, bob: Any) -> Any:
    """Alice, whose long observations were all written after the last ANALYZE."""
    chance = random.Random(1)
    words = [f"word{number}" for number in range(3_000)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    observe(bob, [text(20) for _ in range(1_500)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    observe(alice, [f"{text(300)} the poppy war is a book {text(300)}" for _ in range(FRESH)])
    return alice


def plans_of(act: Callable[[], object]) -> list[Plan]:
    """Run `act`, then each of its queries again, and return the plans of these."""
    asked: list[tuple[str, Any]] = []

    def noted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(noted):
        act()
    plans = []
    with connection.cursor() as cursor:
        for sql, params in asked:
            if sql.lstrip("(").startswith(("SELECT", "WITH")):
                cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", params)
                plans.append(cursor.fetchone()[0][0]["Plan"])
    return plans


def nodes_of(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes_of(part)


def rows_looked_at(node: Plan) -> float:
    removed = sum(node.get(name, 0) for name in REMOVED)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


def phrase_checks(plan: Plan) -> float:
    """Return of how many rows it was checked whether they hold the phrase."""
    return sum(
        rows_looked_at(node)
        for node in nodes_of(plan)
        if any("@@" in str(node.get(condition, "")) for condition in CONDITIONS)
    )


def test_a_phrase_is_checked_once_or_twice_for_each_record(reader: Any) -> None:
    for more in ("", " source:x*", " -source:x*", ' -"peace treaty"', " is:unused"):
        plans = plans_of(lambda asked=QUOTED + more: recall_page(reader, asked))

        assert max(map(phrase_checks, plans)) <= 3 * FRESH, more


def test_a_recall_by_meaning_looks_at_each_record_a_few_times(reader: Any) -> None:
    plans = plans_of(lambda: recall_page(reader, "poppy war books"))

    assert max(sum(map(rows_looked_at, nodes_of(plan))) for plan in plans) <= 15 * FRESH


def test_a_list_checks_each_record_once_or_twice(reader: Any) -> None:
    rows = Observation.objects.of(reader).live()
    for query in ('"poppy war"', "poppy war book", '-"peace treaty" poppy'):
        found = holding(rows, parse(query), language_of(reader), reader)

        plans = plans_of(lambda some=found: (list(some.order_by("-created")[:50]), some.count()))

        assert found.count() == FRESH, query
        assert max(map(phrase_checks, plans)) <= 3 * FRESH, query


def test_a_quoted_question_still_finds_by_words_and_by_meaning(reader: Any) -> None:
    page = recall_page(reader, QUOTED, limit=5)

    assert len(page.hits) == 5
    assert {lane for hit in page.hits for lane in hit.why.lanes} == {"words", "meaning"}
