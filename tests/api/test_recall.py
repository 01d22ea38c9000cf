"""`/recall` for clients."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Use
from tests.api.cast import Program, items, problem


@pytest.fixture
def stored(agent: Program) -> Program:
    """A few memories about trains."""
    agent.post("/notes", {"content": "The night train to Ulm is cheap.", "kind": "log"})
    for name in ("findings", "insights", "lessons"):
        agent.post("/observations", {name: [f"A train taught me {name}."], "source": "GOAL:trip"})
    return agent


@pytest.mark.requirement("R73", "R77", "R80")
def test_hits_say_what_they_are_and_why(stored: Program) -> None:
    hit = items(stored.get("/recall?q=night+train&mode=exact"))[0]

    assert (hit["type"], hit["category"], hit["source"]) == ("note", "log", "agent:desk")
    assert hit["content"] == "The night train to Ulm is cheap."
    assert 0 < hit["score"] < 1
    retriever = hit["retrievers"]["words"]
    assert hit["score"] == pytest.approx(retriever["raw"] / (1 + retriever["raw"]))
    assert set(hit["explanation"]["matched_terms"]) == {"night", "train"}


@pytest.mark.requirement("R71", "R72", "R81")
def test_one_call_by_category_gives_what_three_single_ones_give(stored: Program) -> None:
    grouped = stored.get("/recall?q=train&by_category=5").json()

    assert list(grouped) == ["findings", "insights", "lessons"]
    for plural, category in (("findings", "finding"), ("lessons", "lesson")):
        single = items(stored.get(f"/recall?q=train&category={category}&limit=5"))
        assert grouped[plural] == single
        assert [one["category"] for one in single] == [category]


def test_it_is_narrowed_by_type_kind_time_score_and_number(stored: Program) -> None:
    assert len(items(stored.get("/recall?q=train"))) == 4
    assert len(items(stored.get("/recall?q=train&type=observation&limit=2"))) == 2
    assert [one["type"] for one in items(stored.get("/recall?q=train&kind=log"))] == ["note"]
    assert items(stored.get("/recall?q=train&min_score=0.99")) == []
    assert items(stored.get("/recall?q=train&before=2020-01-01T00:00:00Z")) == []
    assert len(items(stored.get("/recall?category=lesson"))) == 1


@pytest.mark.parametrize(
    "query",
    ["", "q=", "q=x&mode=fuzzy", "q=x&limit=0", "q=x&limit=201", "q=x&min_score=2", "q=x&type=memo",
     "q=x&after=soon", "q=x&by_category=0", "q=x&min_score=nan"],
)  # fmt: skip
def test_a_question_that_does_not_fit_is_refused(agent: Program, query: str) -> None:
    assert problem(agent.get(f"/recall?{query}"), 422)["errors"]


@pytest.mark.parametrize(
    "words", ['"', "kind:", "a AND (", "%00", "\\", "-", "🦉", "tag:%22", "after:x", "x" * 9_000]
)
@pytest.mark.requirement("R239")
def test_a_malformed_question_isnt_an_error(agent: Program, words: str) -> None:
    assert agent.get(f"/recall?q={words}").status_code in (200, 422)


@pytest.mark.parametrize("query", ["kind:banana", "type:banana", "is:banana", "after:banana"])
def test_a_query_of_only_an_invalid_value_finds_nothing_and_says_so(
    stored: Program, person: Program, query: str
) -> None:
    for client in (stored, person):
        answer = client.get(f"/recall?q={query}").json()
        assert answer["items"] == []
        assert "was ignored" in " ".join(answer["notices"])
    ignored = stored.get(f"/recall?q=night+{query}").json()
    assert ignored["items"] == items(stored.get("/recall?q=night"))
    assert len(ignored["notices"]) == 1 + len(stored.get("/recall?q=night").json()["notices"])
    # An operator, though agents have the same rule.
    assert len(items(stored.get("/recall?q=-is:paused"))) > 4


def test_another_owner_finds_nothing(stored: Program, stranger: Program) -> None:
    assert items(stranger.get("/recall?q=train")) == []


@pytest.mark.requirement("R222")
def test_what_is_sensitive_is_found_by_the_person_alone(agent: Program, person: Program) -> None:
    person.post("/notes", {"content": "The train code is 4711.", "sensitivity": "sensitive"})

    assert items(agent.get("/recall?q=train+code")) == []
    assert items(agent.get("/recall?q=train+sensitivity:sensitive")) == []
    assert len(items(person.get("/recall?q=train+code"))) == 1


def test_an_agent_finds_nothing_of_another_agents_scope(agent: Program, alice: Any) -> None:
    other = Program(alice, "read", "write", name="other")
    other.post("/notes", {"content": "A private train.", "scope": "agent:other"})

    assert items(agent.get("/recall?q=train")) == []
    assert len(items(other.get("/recall?q=train"))) == 1


def test_what_an_agent_recalls_is_noted_as_used_by_it(stored: Program) -> None:
    stored.get("/recall?q=night")

    assert [one.place for one in Use.objects.all()] == ["agent:desk"]


def test_the_number_of_queries_is_fixed(
    stored: Program, django_assert_max_num_queries: Any
) -> None:
    for number in range(10):
        stored.post("/notes", {"content": f"Train {number}"})
    with django_assert_max_num_queries(16) as few:
        stored.get("/recall?q=train&limit=1")
    with django_assert_max_num_queries(16) as many:
        stored.get("/recall?q=train&limit=50")
    assert abs(len(many) - len(few)) <= 1
