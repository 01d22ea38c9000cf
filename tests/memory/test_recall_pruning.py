"""Levels of a term let the ranking leave records out; no record that may be among the best goes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.text.terms import LEVELS, level_of
from memory.models import SearchTerm
from memory.services.search import bm25_sql
from memory.services.search.bm25_sql import Level, Term, TermFigures
from tests.memory.test_recall_exact import store

NAMES = ("a", "b", "@a", "c")  # a label and its word
BOUNDS = st.lists(st.floats(0.01, 5), min_size=1, max_size=4).map(sorted)


def term(name: str, bounds: list[float], documents: int = 500) -> Term:
    levels = [
        Level(f"'{name}{n}'", documents // (n + 1) ** 2, bound) for n, bound in enumerate(bounds)
    ]
    return Term(name, bounds[-1], TermFigures(documents, 9, 3), tuple(levels))


def lets_through(condition: str, held: set[str]) -> bool:
    """Evaluate a tsquery as Postgres would: a document holds these lexemes."""
    names = {f"'{name}{n}'" for name in NAMES for n in range(4)}
    for name in names:
        condition = condition.replace(name, str(name.strip("'") in held))
    return bool(eval(condition.replace("&", "and").replace("|", "or")))  # noqa: S307  True, False


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(BOUNDS, st.integers(1, 900)), min_size=1, max_size=4),
    st.floats(0.05, 1),
    st.sampled_from([0, 40, 1_500]),
    st.sampled_from([1, 10**9]),
)
def test_whatever_may_score_enough_is_let_through(
    known: list[tuple[list[float], int]], share: float, longest: int, worth: int
) -> None:
    terms = [term(name, *one) for name, one in zip(NAMES, known, strict=False)]
    need = share * sum(one.bound for one in terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_sql, "LONG", longest)
        patch.setattr(bm25_sql, "WORTH", worth)
        conditions = bm25_sql.holding(terms, 1_000, need)
    for reached in product(*(range(len(one.levels) + 1) for one in terms)):
        score = sum(one.levels[n - 1].bound for one, n in zip(terms, reached, strict=True) if n)
        held = {
            f"{one.lexeme}{level}"
            for one, n in zip(terms, reached, strict=True)
            for level in range(n)
        }
        if score >= need:
            assert any(lets_through(one, held) for one in conditions), (conditions, held)


def test_a_frequent_word_alone_is_looked_for_where_it_stands_often() -> None:
    one = term("a", [1.0, 1.4, 1.6], documents=900_000)
    assert bm25_sql.likely([one], 1_000_000, wanted=400, room=300_000) == "'a1'"
    assert bm25_sql.holding([one], 1_000_000, need=1.5) == ["'a2'"]
    assert bm25_sql.likely([term("b", [1.0])], 1_000, wanted=40, room=100) == ""


def test_the_words_that_a_document_needs_are_required_together() -> None:
    terms = [term("a", [2.0], 50), term("b", [2.0], 400), term("c", [1.0, 1.5], 900)]
    assert bm25_sql.holding(terms, 1_000, need=4.5) == ["'a0' & ('b0' & ('c0'))"]
    assert bm25_sql.holding(terms, 1_000, need=3.2) == ["'a0' & ('b0' | 'c1')", "'b0' & ('c1')"]


def test_a_word_is_expected_in_the_text_of_a_document_with_this_tag() -> None:
    terms = [term("@a", [2.0], 5_000), term("a", [1.0, 1.2], 20_000)]
    assert bm25_sql.likely(terms, 1_000_000, wanted=200, room=1_600) == "'@a0' & 'a1'"


def test_a_text_is_found_by_how_often_it_says_a_word(alice: Any) -> None:
    store(alice, [f"{'zulu ' * times}end" for times in (1, 2, 4, 9)])
    told = {
        times: SearchTerm.objects.filter(lexeme=level_of("zulu", times)).values_list(
            "documents", "min_length"
        )[0]
        for times in LEVELS
    }
    assert told == {2: (3, 3), 3: (2, 5), 5: (1, 10), 8: (1, 10)}
