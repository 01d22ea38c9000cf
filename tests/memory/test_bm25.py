"""Exact BM25 in Postgres: equal to a plain reference, transactional, never in error."""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

import memory
from beacon_site.text.terms import LEVELS, MAX_TIMES, level_of, query_terms
from memory.models import SearchEntry, SearchSpace, SearchTerm, search_index
from memory.services.search import bm25
from memory.services.search.bm25_sql import relevance
from tests.memory.observation_stores import counts_of
from tests.site.waiting import eventually

NAUGHTY = (
    "", " ", "'", '"', "\\", "\\'", "a & b | !c", "(((", "<->", "foo:*", "%s %d", "';--", "\x00",
    "💥🔥", "!!!", "::", "a:b:c", "'' '' ''", "\ud800", "ﷺ ½ ﬁ", "\u202eabc", "AND OR NOT", "*",
    "c++ c# .net", "word " * 5000, "x" * 100_000, "人", "人工智能", "\u0301\u0301", "‍‍", "$1 $2 {}",
)  # fmt: skip


@dataclass
class Text:
    """The least that can be indexed."""

    text: str
    owner_id: Any
    kind: str = "text"
    pk: uuid.UUID = field(default_factory=uuid.uuid4)

    def search_type(self) -> str:
        return self.kind

    def search_text(self) -> str:
        return self.text


@cache
def paragraphs() -> tuple[str, ...]:
    """Return several hundred real texts: the functions of this product's own source."""
    files = sorted(Path(memory.__file__).parent.parent.glob("*/**/*.py"))
    sources = [path.read_text() for path in files if "migrations" not in path.parts]
    parts = (part for source in sources for part in source.split("\n\n\n") if len(part) > 200)
    return tuple(islice(parts, 320))


def reference(
    texts: list[Text], query: str, limit: int, counts: dict[uuid.UUID, Counter[str]] | None = None
) -> list[tuple[uuid.UUID, float]]:
    """Rank by BM25 as the books have it (Lucene's variant), in plain Python."""
    counts = counts or {text.pk: counts_of(text.text) for text in texts}
    lengths = {pk: sum(found.values()) for pk, found in counts.items()}
    average = sum(lengths.values()) / len(texts)
    found_in = Counter(term for found in counts.values() for term in found)
    scores: dict[uuid.UUID, float] = {}
    for term in query_terms(query):
        idf = math.log(1 + (len(texts) - found_in[term] + 0.5) / (found_in[term] + 0.5))
        for pk, found in counts.items():
            if tf := found[term]:
                norm = 1.2 * (1 - 0.75 + 0.75 * lengths[pk] / average)
                scores[pk] = scores.get(pk, 0) + idf * tf / (tf + norm)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


@pytest.fixture
def texts(alice: Any) -> list[Text]:
    made = [Text(text, alice.pk) for text in paragraphs()]
    search_index.index(made)
    return made


def queries(texts: list[Text]) -> Iterator[str]:
    """Yield queries of rare, middling and frequent words, by themselves and together."""
    known = Counter(term for text in texts for term in counts_of(text.text))
    ranked = [term for term, _times in known.most_common()]
    yield from (" ".join(ranked[start : start + 3]) for start in range(0, 60, 3))
    yield from (" ".join((ranked[n], ranked[n * 7], ranked[-n])) for n in range(1, 60))
    yield from (" ".join(text.text.split()[5:11]) for text in texts[::10])
    yield from ("revision revision trash", "the", "of the and", "nowhere-to-be-found")


@pytest.mark.requirement("R75", "R97")
def test_scores_and_order_equal_a_plain_reference(alice: Any, texts: list[Text]) -> None:
    asked = list(queries(texts))
    counts = {text.pk: counts_of(text.text) for text in texts}
    assert len(texts) > 300
    assert len(asked) > 100
    for query in asked:
        expected = reference(texts, query, 10, counts)
        found = bm25.search(alice, "text", query, 10)
        assert [score for _pk, score in found] == pytest.approx(
            [score for _pk, score in expected], rel=1e-9
        ), query
        assert {pk for pk, _s in found} == {pk for pk, _s in expected} or _tied(expected), query


def _tied(expected: list[tuple[uuid.UUID, float]]) -> bool:
    """Return whether scores lie so near each other that rounding decides the order."""
    scores = [score for _pk, score in expected]
    return any(math.isclose(a, b, rel_tol=1e-9) for a, b in pairwise(scores))


def test_every_count_of_a_word_is_read_back_exactly(alice: Any) -> None:
    texts = [Text("word " * tf + "filler " * (300 - tf), alice.pk) for tf in range(1, 261)]
    search_index.index(texts)
    assert dict(bm25.search(alice, "text", "word", 300)) == pytest.approx(
        dict(reference(texts, "word", 300)), rel=1e-9
    )


def test_a_text_longer_than_a_vector_has_positions_keeps_its_counts(alice: Any) -> None:
    texts = [Text("filler word " * 9000 + "needle " * 40, alice.pk), Text("needle", alice.pk)]
    search_index.index(texts)
    assert SearchEntry.objects.get(record_id=texts[0].pk).length == 2 * MAX_TIMES + 40
    assert dict(bm25.search(alice, "text", "needle")) == pytest.approx(
        dict(reference(texts, "needle", 2)), rel=1e-9
    )


def test_a_text_of_more_words_than_a_vector_holds_is_indexed_by_its_first(alice: Any) -> None:
    huge = Text(" ".join(f"word{n}" for n in range(300_000)), alice.pk)
    search_index.index([huge])
    assert bm25.search(alice, "text", "word17")[0][0] == huge.pk


def test_many_queries_at_once_find_what_each_finds_alone(alice: Any, texts: list[Text]) -> None:
    asked = ["", "no-such-word", *(text.text[:300] for text in texts[: bm25.AT_ONCE + 3])]

    found = bm25.search_each(alice, "text", asked, 5, most_terms=8)

    assert found == [bm25.search(alice, "text", query, 5, most_terms=8) for query in asked]


@pytest.mark.requirement("R239")
def test_no_query_is_an_error(alice: Any) -> None:
    search_index.index([Text("plain text", alice.pk)])
    for query in NAUGHTY:
        assert bm25.search(alice, "text", query) == [], query


def test_any_text_can_be_indexed(alice: Any) -> None:
    search_index.index([Text(text, alice.pk) for text in NAUGHTY])
    assert SearchEntry.objects.filter(space__record_type="text").count() == len(NAUGHTY)
    assert len(bm25.search(alice, "text", "人工智能")) == 1


@pytest.mark.requirement("R79")
def test_words_are_found_by_their_stem_without_case_and_accents(alice: Any) -> None:
    text = Text("Cafés were RUNNING tests", alice.pk)
    search_index.index([text])
    for query in ("cafe", "run", "tested", "CAFÉ"):
        assert [pk for pk, _s in bm25.search(alice, "text", query)] == [text.pk], query


@pytest.mark.parametrize(
    ("query", "wanted"),
    [("C", "plain C"), ("C++", "templates in C++"), ("C#", "records in C#")],
)
def test_c_is_not_c_plus_plus_nor_c_sharp(alice: Any, query: str, wanted: str) -> None:
    texts = [Text(t, alice.pk) for t in ("plain C", "templates in C++", "records in C#")]
    search_index.index(texts)
    found = bm25.search(alice, "text", query)
    assert [pk for pk, _s in found] == [text.pk for text in texts if text.text == wanted]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("固态电池", "晨星公司宣布固态电池试产线投产。"),
        ("锂", "使用锂金属负极。"),
        ("電池", "新しい電池の発表"),
        ("배터리", "전고체배터리 양산"),
        ("แบตเตอรี่", "ราคาแบตเตอรี่ลดลง"),
        ("बैटरी", "ठोस बैटरी का उत्पादन"),
        ("бата", "бата бата"),
        ("بطارية", "أول بطارية صلبة"),
    ],
)
def test_languages_without_spaces_and_other_scripts_are_found(
    alice: Any, query: str, text: str
) -> None:
    wanted = Text(text, alice.pk)
    search_index.index([wanted, Text("something else 其他内容", alice.pk)])
    assert [pk for pk, _s in bm25.search(alice, "text", query)] == [wanted.pk]


def test_what_was_just_written_is_found_and_a_rollback_leaves_nothing(alice: Any) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        search_index.index([Text("unicorn", alice.pk)])
        assert len(bm25.search(alice, "text", "unicorn")) == 1
        raise ZeroDivisionError
    assert bm25.search(alice, "text", "unicorn") == []
    assert not SearchTerm.objects.filter(lexeme="unicorn").exists()


def test_the_figures_do_not_drift_over_changes_and_removals(alice: Any, texts: list[Text]) -> None:
    for number, text in enumerate(texts[:120]):  # some a line, some seven
        text.text = f"rewritten {number} " * (number % 7 + 1)
    search_index.index(texts[:120])
    search_index.unindex(texts[120:240])
    search_index.unindex(texts[120:150])
    kept = [*texts[:120], *texts[240:]]
    assert _figures() == _figures_of(kept)
    assert dict(bm25.search(alice, "text", "rewritten 7", 5)) == pytest.approx(
        dict(reference(kept, "rewritten 7", 5)), rel=1e-9
    )


def _figures() -> tuple[int, int, dict[str, int]]:
    space = SearchSpace.objects.get(record_type="text")
    terms = SearchTerm.objects.filter(space=space).exclude(documents=0)
    terms = terms.values_list("lexeme", "documents")
    return space.documents, space.length, dict(terms)


def _figures_of(texts: list[Text]) -> tuple[int, int, dict[str, int]]:
    counts = [counts_of(text.text) for text in texts]
    found_in = Counter(term for found in counts for term in found)
    found_in += Counter(
        level_of(term, least)
        for found in counts
        for term, times in found.items()
        for least in LEVELS
        if times >= least
    )
    return len(texts), sum(sum(found.values()) for found in counts), dict(found_in)


@pytest.mark.requirement("R239")
def test_the_index_can_be_rebuilt_from_the_rows(alice: Any, texts: list[Text]) -> None:
    before = bm25.search(alice, "text", "revision of a record")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE memory_searchterm SET documents = 1")
    bm25.rebuild(alice, "text", texts)
    assert bm25.search(alice, "text", "revision of a record") == before
    assert _figures() == _figures_of(texts)


def test_owners_and_types_are_ranked_apart(alice: Any, bob: Any) -> None:
    search_index.index([Text("shared word", alice.pk), Text("shared word", bob.pk, kind="other")])
    assert len(bm25.search(alice, "text", "shared")) == 1
    assert bm25.search(alice, "other", "shared") == []
    assert bm25.search(bob, "text", "shared") == []


@pytest.mark.requirement("R77", "R78")
def test_relevance_is_between_nothing_and_one_and_keeps_the_order() -> None:
    raw = [0, 0.001, 0.5, 1, 7, 300]
    brought: list[float] = [relevance(score) for score in raw]
    assert brought == sorted(brought)
    assert all(0 <= score < 1 for score in brought)


def test_an_account_is_deleted_with_its_index(alice: Any) -> None:
    search_index.index([Text("words of alice", alice.pk)])
    alice.delete()
    assert not SearchSpace.objects.exists()
    assert not SearchTerm.objects.exists()


def _other_writer_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # the transaction keeps the first one
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("known", ([], ["note"]), ids=["the owner's first records", "a new type"])
def test_writers_of_new_types_do_not_deadlock(alice: Any, known: list[str]):
    SearchSpace.objects.filter(owner=alice).delete()
    search_index.index([Text("known", alice.pk, kind) for kind in known])
    failed: list[Exception] = []

    def write_finding_and_note() -> None:
        try:
            with transaction.atomic():
                search_index.index([Text("second", alice.pk, "finding")])
                search_index.index([Text("second", alice.pk, "note")])
        except OperationalError as exc:
            failed.append(exc)
        finally:
            connection.close()

    other = threading.Thread(target=write_finding_and_note)
    with transaction.atomic():
        search_index.index([Text("first", alice.pk, "note")])
        other.start()
        assert eventually(_other_writer_waits)
        search_index.index([Text("first", alice.pk, "finding")])
    other.join(30)

    assert not failed
    assert SearchEntry.objects.filter(space__owner=alice).count() == len(known) + 4
