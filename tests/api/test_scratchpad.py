"""`/scratchpad` for clients."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from memory.models import ScratchpadEntry, Session
from memory.services import scratchpad
from tests.api.cast import Program, items, problem


def keys(answer: Any) -> list[str]:
    return [one["key"] for one in items(answer)]


@pytest.mark.requirement("R99")
def test_a_value_is_set_read_and_set_again(agent: Program) -> None:
    made = agent.put("/scratchpad/plan", {"value": "one"})
    again = agent.put("/scratchpad/plan", {"value": "one"})
    other = agent.put("/scratchpad/plan", {"value": "two"})

    assert [one.status_code for one in (made, again, other)] == [201, 200, 200]
    read = agent.get("/scratchpad/plan")
    assert (read.json()["value"], read["ETag"]) == ("two", '"2"')


@pytest.mark.requirement("R100")
def test_a_key_that_is_not_there_is_reported(agent: Program) -> None:
    assert "has no key “plan”" in problem(agent.get("/scratchpad/plan"), 404)["detail"]
    problem(agent.delete("/scratchpad/plan"), 404)


@pytest.mark.parametrize("key", ["a/b", "a b", "ключ", "?", "100%", "a//b", "x" * 200, "..x"])
def test_any_one_line_is_a_key_url_encoded(agent: Program, key: str) -> None:
    path = f"/scratchpad/{quote(key, safe='')}"

    assert agent.put(path, {"value": "v"}).json()["key"] == key
    assert agent.get(path).json()["value"] == "v"
    assert agent.delete(path).status_code == 204
    problem(agent.get(path), 404)


@pytest.mark.parametrize("key", ["x" * 201, "%20", "%E2%80%8B"])
def test_a_key_that_is_none_is_refused(agent: Program, key: str) -> None:
    assert "key" in problem(agent.put(f"/scratchpad/{key}", {"value": "v"}), 422)["errors"]
    problem(agent.get(f"/scratchpad/{key}"), 404)


@pytest.mark.parametrize("body", [{}, {"value": 5}, {"value": None}, {"value": "é" * 40_000}])
def test_a_value_that_does_not_fit_is_refused(agent: Program, body: Any) -> None:
    assert "value" in problem(agent.put("/scratchpad/k", body), 422)["errors"]
    assert not ScratchpadEntry.objects.exists()


@pytest.mark.requirement("R101", "R102")
def test_entries_are_listed_by_prefix_and_found_by_words(agent: Program) -> None:
    for key in ("b1", "a2", "a1"):
        agent.put(f"/scratchpad/{key}", {"value": f"Value {key}"})

    assert keys(agent.get("/scratchpad")) == ["a1", "a2", "b1"]
    assert keys(agent.get("/scratchpad?prefix=a")) == ["a1", "a2"]
    assert keys(agent.get("/scratchpad?q=VALUE+B")) == ["b1"]
    first = agent.get("/scratchpad?limit=2").json()
    assert keys(agent.get(f"/scratchpad?limit=2&cursor={first['next']}")) == ["b1"]
    problem(agent.get("/scratchpad?q=a&prefix=b"), 422)


@pytest.mark.requirement("R103")
def test_a_sessions_own_entries_are_kept_apart(agent: Program) -> None:
    agent.put("/scratchpad/k?session=s1", {"value": "its own"})

    problem(agent.get("/scratchpad/k"), 404)
    assert agent.get("/scratchpad/k?session=s1").json()["scope"] == "session:s1"
    assert keys(agent.get("/scratchpad")) == []
    assert keys(agent.get("/scratchpad?session=s1")) == ["k"]


def test_a_persons_session_is_none_of_an_agents(agent: Program, person: Program) -> None:
    hers = Session.objects.create(owner=agent.owner)
    path = f"/scratchpad/k?session={hers.pk}"
    person.put(path, {"value": "hers"})

    for answer in (agent.get(path), agent.put(path, {"value": "x"}), agent.delete(path)):
        problem(answer, 403)
    problem(agent.get(f"/scratchpad?session={hers.pk}"), 403)
    assert person.get(path).json()["value"] == "hers"


def test_another_owners_entries_are_not_there(agent: Program, stranger: Program) -> None:
    agent.put("/scratchpad/k", {"value": "hers"})

    problem(stranger.get("/scratchpad/k"), 404)
    problem(stranger.delete("/scratchpad/k"), 404)
    assert keys(stranger.get("/scratchpad")) == []
    stranger.put("/scratchpad/k", {"value": "his"})
    assert agent.get("/scratchpad/k").json()["value"] == "hers"


def test_what_is_locked_or_sensitive_agents_leave_alone(agent: Program, alice: Any) -> None:
    locked = scratchpad.set_value(alice, "locked", "v", by=alice.actor)
    locked.change(by=alice.actor, lock="read-only")
    secret = scratchpad.set_value(alice, "secret", "4711", by=alice.actor)
    secret.change(by=alice.actor, sensitivity="sensitive")

    problem(agent.put("/scratchpad/locked", {"value": "x"}), 403)
    problem(agent.delete("/scratchpad/locked"), 403)
    for answer in (
        agent.get("/scratchpad/secret"),
        agent.put("/scratchpad/secret", {"value": "x"}),
    ):
        assert "4711" not in str(problem(answer, 403))
    assert keys(agent.get("/scratchpad")) == ["locked"]


def test_the_number_of_queries_is_fixed(agent: Program, django_assert_num_queries: Any) -> None:
    for number in range(9):
        agent.put(f"/scratchpad/{number}", {"value": "v"})
    for limit in (1, 9):
        with django_assert_num_queries(2):  # the token, the page
            agent.get(f"/scratchpad?limit={limit}")
