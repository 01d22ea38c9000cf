"""`exact` is BM25 to the last digits, whatever was written, and by how many at once (R75, R86)."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from beacon_site.text.terms import query_terms
from memory.models import Note, Observation, SearchSpace, SearchTerm
from memory.services.search import bm25_sql
from memory.services.search.bm25 import rebuild_owner
from memory.services.search.recall import recall
from tests.memory.observation_stores import counts_of
from tests.pages import record_cast

VOWELS, CONSONANTS = "aeiou", "bdfgklmnprstvz"
KIND = {"types": ["observation"]}


def vocabulary(size: int) -> list[str]:
    chance = random.Random(3)
    words = [
        "".join(chance.choice(CONSONANTS) + chance.choice(VOWELS) for _ in range(4))
        for _ in range(size)
    ]
    return list(dict.fromkeys(words))


WORDS = vocabulary(900)
WEIGHTS = [1 / (rank + 2) for rank in range(len(WORDS))]  # as Zipf has it


def texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, WEIGHTS, k=chance.randint(3, 60))) for _ in range(count)]


def queries(count: int) -> list[str]:
    chance = random.Random(5)
    return [" ".join(chance.choices(WORDS, WEIGHTS, k=chance.randint(1, 8))) for _ in range(count)]


def store(owner: Any, contents: list[str]) -> list[Observation]:
    source = f"s{uuid4().hex}"  # no text twice from one source
    made = [
        Observation(
            owner=owner,
            content=text,
            category="finding",
            digest=str(number),
            source=source,
        )
        for number, text in enumerate(contents)
    ]
    with transaction.atomic():
        Observation.objects.bulk_create(made)
        Observation.follow(made)
    return made


def reference(counts: dict[UUID, Counter[str]], query: str) -> list[tuple[UUID, float]]:
    """Rank by BM25 as the books have it: k1 1.2, b .75, all in plain Python."""
    lengths = {pk: sum(found.values()) for pk, found in counts.items()}
    average = sum(lengths.values()) / len(counts)
    scores: Counter[UUID] = Counter()
    for term in query_terms(query):
        held = {pk: found[term] for pk, found in counts.items() if found[term]}
        idf = math.log(1 + (len(counts) - len(held) + 0.5) / (len(held) + 0.5))
        for pk, tf in held.items():
            scores[pk] += idf * tf / (tf + 1.2 * (0.25 + 0.75 * lengths[pk] / average))  # type: ignore[assignment]
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:10]


def references(owner: Any, asked: list[str]) -> dict[str, list[tuple[UUID, float]]]:
    """Return the ranking of the current rows for each query."""
    rows = Observation.objects.for_user(owner).live().values_list("pk", "content")
    counts = {pk: counts_of(content) for pk, content in rows}
    return {query: reference(counts, query) for query in asked}


def assert_is_exact(owner: Any, references: dict[str, list[tuple[UUID, float]]]) -> None:
    for query, wanted in references.items():
        hits = recall(owner, query, "exact", **KIND)
        raw = [hit.retrievers["words"].raw for hit in hits]
        assert raw == pytest.approx([score for _pk, score in wanted], rel=1e-9), query
        known = dict(wanted)
        for hit in hits:
            tied = hit.id not in known and raw.count(hit.retrievers["words"].raw)
            assert tied or hit.retrievers["words"].raw == pytest.approx(known[hit.id], rel=1e-9), (
                query
            )


@pytest.mark.requirement("R75")
def test_a_hand_worked_example(alice: Any) -> None:
    store(alice, ["solid cells", "solid solid cells ship", "liquid cells"])
    # N = 3, lengths 2, 4, 2, average 8/3; "solid" is in 2 of 3: idf = ln(1 + 1.5 / 2.5).
    idf = 0.4700036292457356
    once = idf * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 * 3 / 8))  # 0.23797
    twice = idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 4 * 3 / 8))  # 0.25754
    hits = recall(alice, "solid", "exact", **KIND)
    raw = {hit.content.count("solid"): hit.retrievers["words"].raw for hit in hits}
    assert raw[1] == pytest.approx(once, rel=1e-12)
    assert raw[2] == pytest.approx(twice, rel=1e-12)
    assert [hit.score for hit in hits] == [
        hit.retrievers["words"].raw / (1 + hit.retrievers["words"].raw) for hit in hits
    ]


@pytest.mark.requirement("R75", "R239")
def test_exact_equals_a_reference_on_hundreds_of_records_through_all_changes(alice: Any) -> None:
    made, asked = store(alice, texts(400, seed=1)), queries(40)
    assert_is_exact(alice, references(alice, asked))
    for one, text in zip(made[:60], texts(60, seed=2), strict=True):
        one.change(by=alice.actor, content=text)
    for one in made[60:120]:
        one.trash(by=alice.actor)
    for one in made[60:90]:
        one.restore(by=alice.actor)
    made[120].purge(by=alice.actor)
    store(alice, texts(100, seed=3))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        store(alice, texts(50, seed=4))
        made[200].change(by=alice.actor, content="rolled back")
        raise ZeroDivisionError
    assert_is_exact(alice, references(alice, asked))
    some = asked[:10]
    before = [[(h.id, h.score) for h in recall(alice, query, "exact")] for query in some]
    rebuild_owner(alice)
    assert [[(h.id, h.score) for h in recall(alice, query, "exact")] for query in some] == before


@pytest.mark.requirement("R86")
@pytest.mark.django_db(transaction=True)
def test_four_writers_and_a_reader_at_once_leave_exact_figures(alice: Any) -> None:
    def at_work(act: Any, *args: Any) -> None:
        try:
            act(*args)
        finally:
            connection.close()

    def write(seed: int) -> None:
        chance = random.Random(seed)
        for turn in range(6):
            made = store(alice, texts(8, seed=seed * 100 + turn))
            chance.choice(made).change(by=alice.actor, content=f"{WORDS[seed]} changed")
            chance.choice(made).trash(by=alice.actor)

    def read() -> None:
        for query in queries(20):
            recall(alice, query, "exact")

    acts = [(write, 1), (write, 2), (write, 3), (write, 4), (read,)]
    with ThreadPoolExecutor(len(acts)) as pool:
        for act in [pool.submit(at_work, *act) for act in acts]:
            act.result()
    assert Observation.objects.live().count() == 4 * 6 * 7
    assert_is_exact(alice, references(alice, queries(40)))
    assert _figures() == _figures_after_rebuild(alice)


def _figures() -> tuple[int, int, dict[str, int]]:
    space = SearchSpace.objects.get(record_type="observation")
    terms = SearchTerm.objects.filter(space=space).exclude(documents=0)
    return space.documents, space.length, dict(terms.values_list("lexeme", "documents"))


def _figures_after_rebuild(owner: Any) -> tuple[int, int, dict[str, int]]:
    rebuild_owner(owner)
    return _figures()


@pytest.mark.requirement("R77", "R78")
def test_a_better_raw_score_is_never_a_worse_one_in_the_list(alice: Any) -> None:
    # A normalization by the best hit, or one that is capped, gives equal or falling scores here.
    store(alice, [f"{'zulu ' * times}{'filler ' * (40 - times)}" for times in range(1, 20)])
    hits = recall(alice, "zulu", "exact", limit=19)
    raw = [hit.retrievers["words"].raw for hit in hits]
    assert len(hits) == 19
    assert all(a > b for a, b in pairwise(raw))
    assert all(a.score > b.score for a, b in pairwise(hits))
    assert all(0 < hit.score < 1 for hit in hits)


@pytest.mark.requirement("R78")
def test_scores_of_one_record_do_not_hang_on_what_else_is_found(alice: Any) -> None:
    store(alice, ["zulu alpha", "zulu beta", "gamma delta"])
    alone = recall(alice, "alpha", "exact")[0].score
    assert recall(alice, "alpha zulu", "exact")[0].score > alone


@pytest.mark.requirement("R239")
def test_the_command_rebuilds_an_index_that_was_damaged(alice: Any, capsys: Any) -> None:
    store(alice, ["zulu alpha"])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM memory_searchentry")
        cursor.execute("UPDATE memory_searchspace SET documents = 99, length = 990")
        cursor.execute("UPDATE memory_searchterm SET documents = 99, max_count = 9")
    assert recall(alice, "zulu", "exact") == []
    call_command("rebuild_recall", "alice")
    assert "observation 1" in capsys.readouterr().out
    assert len(recall(alice, "zulu", "exact")) == 1
    assert _figures() == (1, 2, {"zulu": 1, "alpha": 1})


FREQUENT = [" ".join(WORDS[n : n + size]) for n in range(8) for size in (1, 2, 4, 8)]


def test_what_is_found_often_is_ranked_as_exactly_as_what_is_found_seldom(
    alice: Any, monkeypatch: Any
) -> None:
    """Frequent words make the ranking leave documents out early; that must never show."""
    made = store(alice, texts(600, seed=9))
    for one, text in zip(made[::7], texts(100, seed=12), strict=False):
        one.change(by=alice.actor, content=text)
    for one in made[3::7]:
        one.trash(by=alice.actor)
    exact = references(alice, FREQUENT)
    monkeypatch.setattr(bm25_sql, "FEW", 0)
    for many, long, worth in product([0, bm25_sql.MANY], [0, bm25_sql.LONG], [1, 10**9]):
        monkeypatch.setattr(bm25_sql, "MANY", many)
        monkeypatch.setattr(bm25_sql, "LONG", long)
        monkeypatch.setattr(bm25_sql, "WORTH", worth)
        assert_is_exact(alice, exact)


def test_leaving_documents_out_early_changes_no_order_whatever_narrows(
    alice: Any, monkeypatch: Any
) -> None:
    made = store(alice, texts(600, seed=10))
    for number, one in enumerate(made):
        one.tags = ["x", WORDS[number % 9]] if number % 3 else []
    Observation.objects.bulk_update(made, ["tags"])
    Observation.follow(made)

    def found(few: int, more: str) -> list[list[tuple[UUID, float]]]:
        monkeypatch.setattr(bm25_sql, "FEW", few)
        return [
            [(hit.id, hit.score) for hit in recall(alice, query + more, "lexical", **KIND)]
            for query in FREQUENT[::3]  # of each length
        ]

    for more in ("", " tag:x", " category:finding after:2d", " -bababa", f' "{WORDS[1]}"'):
        early, all_looked_at = found(0, more), found(10**9, more)
        assert early == all_looked_at, more
        assert any(early), more


def test_leaving_superseded_notes_out_early_changes_nothing_either(
    alice: Any, monkeypatch: Any
) -> None:
    notes = [Note(owner=alice, content=text) for text in texts(600, seed=11)]
    for number, note in enumerate(notes):
        note.tags = ["x"] if number % 3 else []
        note.superseded_by = notes[number - 1] if number % 4 else None
    Note.objects.bulk_create(notes)
    Note.follow(notes)

    def found(few: int, more: str) -> list[list[Any]]:
        monkeypatch.setattr(bm25_sql, "FEW", few)
        monkeypatch.setattr(bm25_sql, "MANY", few)
        asked = (recall(alice, query + more, "lexical", types=("note",)) for query in FREQUENT[::3])
        return [[(hit.id, hit.score, hit.replaces) for hit in hits] for hits in asked]

    for more in ("", " tag:x"):
        early, all_looked_at = found(0, more), found(10**9, more)
        assert early == all_looked_at, more
        assert any(replaces for hits in early for _id, _score, replaces in hits), more


def test_words_are_stemmed_as_the_owners_language_does(alice: Any) -> None:
    note = Note(owner=alice, content="Die Häuser wurden verkauft")
    note.save(force_insert=True)
    Note.follow([note])
    assert recall(alice, "Hauses", "exact") == []
    alice.language = "de"
    alice.save()
    rebuild_owner(alice)
    assert [hit.record for hit in recall(alice, "Hauses verkaufen", "exact")] == [note]
    assert [hit.record for hit in recall(alice, '"häuser wurden"', "exact")] == [note]


@pytest.mark.django_db(transaction=True)
def test_writers_who_take_the_types_in_another_order_wait_and_do_not_end_each_other(alice: Any):
    write = {"note": record_cast.note, "finding": record_cast.observation}
    ended: list[str] = []

    def work(*kinds: str) -> None:
        try:
            with transaction.atomic():
                for kind in kinds:
                    write[kind](alice, f"A {kind} by {threading.current_thread().name}.")
                    time.sleep(0.3)  # until the other has written its first
            ended.append("well")
        except OperationalError as exc:
            ended.append(str(exc))
        finally:
            connection.close()

    work("note", "finding")  # both spaces are there
    orders = [("note", "finding"), ("finding", "note")]
    writers = [threading.Thread(target=work, args=order) for order in orders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert ended == ["well"] * 3
