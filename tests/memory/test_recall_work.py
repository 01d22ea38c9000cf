"""How much work Postgres does for a search right after many records were written.

Until the next ANALYZE it expects a single row of their owner. No ANALYZE sees the rows of a test's
open transaction, as if autovacuum were off. Work is counted from the plans that were carried out,
so a busy machine does not matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.utils import timezone

from beacon_site.db.statistics import analyze_changed
from memory.models import Note, Observation, Revision, SearchTerm, as_of
from memory.services.search import vectors
from memory.services.search.bm25_sql import language_of
from memory.services.search.filters import holding, narrowed
from memory.services.search.query import parse
from memory.services.search.recall import MODES, recall_page
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


def plans_of(act: Callable[[], object], *verbs: str) -> list[Plan]:
    """Run `act`, then each of its statements again that has such a verb, and return the plans of these."""
    asked: list[tuple[str, Any]] = []

    def noted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(noted):
        act()
    plans = []
    with connection.cursor() as cursor:
        for sql, params in asked:
            if sql.lstrip("(").startswith(verbs or ("SELECT", "WITH")):
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


def test_a_search_looks_at_each_fresh_record_a_few_times(reader: Any) -> None:
    # A phrase is checked once or twice for each record.
    for more in ("", " source:x*", " -source:x*", ' -"peace treaty"', " is:unused"):
        plans = plans_of(lambda asked=QUOTED + more: recall_page(reader, asked))

        assert max(map(phrase_checks, plans)) <= 3 * FRESH, more

    # So is it by a list.
    rows = Observation.objects.for_user(reader).live()
    for query in ('"poppy war"', "poppy war book", '-"peace treaty" poppy'):
        found = holding(rows, parse(query), language_of(reader), reader)

        plans = plans_of(lambda some=found: (list(some.order_by("-created")[:50]), some.count()))

        assert found.count() == FRESH, query
        assert max(map(phrase_checks, plans)) <= 3 * FRESH, query

    # A recall by meaning looks at each a few times.
    plans = plans_of(lambda: recall_page(reader, "poppy war books"))

    assert max(sum(map(rows_looked_at, nodes_of(plan))) for plan in plans) <= 15 * FRESH

    # A quoted question still finds by words and by meaning.
    page = recall_page(reader, QUOTED, limit=5)

    assert len(page.hits) == 5
    assert {retriever for hit in page.hits for retriever in hit.explanation.retrievers} == {
        "words",
        "meaning",
    }


# --- many questions, in every mode ---

PER_RECORD = 10  # rows that one statement may look at, over all steps, per record of the owner
ASKED = (
    "word1",
    "word500 word300",
    "poppy war books",
    "word1 word2 word3 word4 word5 word6 word7 word8",
    QUOTED,
    '"word1 word2" word3',
    'poppy -word1 -"word2 word3"',
)
FILTERS = ("", " is:unused", " source:run*", " tag:a")
MORE_FILTERS = (
    *FILTERS, " kind:log", " -source:x", " is:used", " is:edited", " -is:edited", " is:superseded",
    " is:duplicate", " topic:none", " after:2020-01-01", " type:note", " category:lesson",
    " is:pinned", " is:locked", " trust:own",
)  # fmt: skip


def remember(owner: Any, number: int, *, seed: int) -> None:
    """Store so many notes and so many observations; a fifth of the notes is replaced."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(2_000)]
    shares = [1 / (number + 1) for number in range(2_000)]

    def text() -> str:
        return f"{' '.join(chance.choices(words, shares, k=40))} the poppy war is a book"

    sources = ("run:1", "x")
    notes = [
        Note(owner=owner, kind="log", content=text(), tags=["a"], source=sources[n % 2])
        for n in range(number)
    ]
    Note.objects.bulk_create(notes)
    for old, new in zip(notes[::5], notes[1::5], strict=True):
        old.superseded_by = new
    Note.objects.bulk_update(notes[::5], ["superseded_by"])
    Note.follow(notes)
    observe(owner, [text() for _ in range(number)])


@pytest.fixture(params=[200, pytest.param(4_000, marks=[pytest.mark.slow, pytest.mark.long])])
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def newcomer(alice: Any, size: int) -> Any:
    """Alice, whose records were all written after an ANALYZE that knew other owners with a few."""
    for number in range(40):
        remember(get_user_model().objects.create(username=f"owner{number}"), 5, seed=number)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    remember(alice, size, seed=1)
    return alice


def worst_of(act: Callable[[], object]) -> float:
    """Return the most rows that one statement of `act` looked at."""
    return max(sum(map(rows_looked_at, nodes_of(plan))) for plan in plans_of(act))


@pytest.mark.timeout(1_800)
def test_no_search_looks_at_more_than_a_few_rows_per_record(
    newcomer: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = FILTERS if size == 200 else MORE_FILTERS

    def recalled(*modes: str, how: str = "") -> None:
        for words, more, mode in product(ASKED, filters, modes):
            looked_at = worst_of(
                lambda asked=words + more, by=mode: recall_page(newcomer, asked, by)
            )
            assert looked_at <= 2.2 * PER_RECORD * size, (words, more, mode, how)

    recalled(*MODES)
    for words, more, model in product(ASKED, filters, (Note, Observation)):
        asked = parse(words + more)
        rows = narrowed(model.objects.for_user(newcomer).live(), asked, zone=ZoneInfo("UTC"))
        looked_at = worst_of(lambda q=asked, some=rows: list_page(newcomer, some, q))
        assert looked_at <= PER_RECORD * size, (words, more, model)
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 50)
    vectors.index_if_large(24)
    recalled("auto", how="by the index of vectors")


def list_page(owner: Any, rows: Any, asked: Any) -> None:
    found = holding(rows, asked, language_of(owner), owner)
    list(found.order_by("-created", "-pk")[:50])
    found.order_by()[:1001].count()


# --- as of a date ---


def test_a_search_as_of_a_date_does_not_read_all_records(alice: Any) -> None:
    texts = [f"note {number} about the harbour" for number in range(1_500)]
    texts[::300] = ["the lantern of the lighthouse"] * 5
    notes = [Note(owner=alice, kind="log", content=text) for text in texts]
    Note.objects.bulk_create(notes)
    Revision.record_first(notes, by=alice.actor)
    Note.follow(notes)
    then = timezone.now()
    for note in notes[:50]:
        note.change(by=alice.actor, content="changed since")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")

    with as_of.at(alice, then):
        assert len(recall_page(alice, "lantern", "lexical").hits) == 5
        looked_at = worst_of(lambda: recall_page(alice, "lantern", "lexical"))

    assert looked_at <= len(notes)


# --- deleting ---


def test_a_purge_looks_at_each_word_once(alice: Any) -> None:
    observe(alice, [f"finding{number} of word{number % 7}" for number in range(300)])

    plans = plans_of(
        lambda: Observation.objects.earliest("created").purge(by=alice.actor), "DELETE"
    )

    scans = [
        node
        for plan in plans
        for node in nodes_of(plan)
        if node.get("Relation Name") == "memory_searchterm" and "Scan" in node["Node Type"]
    ]
    assert len(scans) == 1  # a table joined with itself can take a look at each word for each word
    assert 300 < rows_looked_at(scans[0]) <= SearchTerm.objects.count()


# --- ANALYZE ---


def analyses() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, analyze_count FROM pg_stat_user_tables")
        return dict(cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_tables_with_many_new_rows_are_analyzed_once_and_others_are_not(alice: Any) -> None:
    analyze_changed()  # what earlier tests left
    before = analyses()
    observe(alice, [f"finding {number}" for number in range(300)])  # embedded by the task

    after = analyses()
    for name in ("memory_observation", "memory_searchentry", "memory_embedding"):
        assert after[name] == before[name] + 1, name
    assert after["memory_note"] == before["memory_note"]
    assert analyze_changed() == []
