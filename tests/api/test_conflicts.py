"""Conflicts by REST: a person's client can resolve them, and agents can't see them."""

from __future__ import annotations

from typing import Any

from memory.models import Conflict
from tests.api.cast import Program, items, problem
from tests.memory.conflict_cast import NEW, OLD, texts, two_notes


def test_it_is_listed_resolved_and_opened_again(person: Program, alice: Any) -> None:
    one = two_notes(alice)
    [told] = items(person.get("/conflicts?kind=contradiction"))
    assert (told["id"], told["left"]["type"]) == (str(one.pk), "note")

    done = person.post(f"/conflicts/{one.pk}/resolve", {"resolution": "left"}).json()
    assert (done["state"], done["resolution"]) == ("resolved", "left")
    assert texts(alice)["notes"] == [OLD]
    problem(person.post(f"/conflicts/{one.pk}/resolve", {"resolution": "left"}), 409)
    assert items(person.get("/conflicts?state=resolved"))[0]["id"] == str(one.pk)
    person.send("POST", f"/conflicts/{one.pk}/reopen")
    assert texts(alice)["notes"] == [NEW, OLD]
    problem(person.send("POST", f"/conflicts/{one.pk}/reopen"), 409)


def test_a_version_that_is_not_the_one_is_a_conflict(person: Program, alice: Any) -> None:
    one = two_notes(alice)
    told = {"resolution": "left", "left_version": 7}
    refused = problem(person.post(f"/conflicts/{one.pk}/resolve", told), 409)
    assert "was changed after you opened" in refused["detail"]
    problem(person.post(f"/conflicts/{one.pk}/resolve", {"resolution": "merged", "text": ""}), 422)
    problem(person.post(f"/conflicts/{one.pk}/resolve", {"resolution": "away"}), 422)


def test_no_agent_and_no_stranger_sees_it(agent: Program, person: Program, bob: Any) -> None:
    one = two_notes(bob)
    problem(agent.get("/conflicts"), 403)
    problem(agent.post(f"/conflicts/{one.pk}/resolve", {"resolution": "left"}), 403)
    problem(person.post(f"/conflicts/{one.pk}/resolve", {"resolution": "left"}), 404)
    assert Conflict.objects.open().count() == 1
