"""Corrections by REST: a person's client marks a sentence as wrong, and undoes it."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Observation
from research.models import Correction, Run
from tests.api.cast import Program, items, problem
from tests.research.factories import make_fact, make_report, make_run, make_topic

WRONG = "Version 18.1 closes nine faults."


@pytest.fixture
def run(alice: Any) -> Run:
    run = make_run(make_topic(alice, "One"))
    make_report(run, body=f"- {WRONG} [1]")
    return run


def said(run: Run, **more: Any) -> dict[str, Any]:
    return {"run": run.pk, "sentence": f"{WRONG} [1]", "wrong": "It is two."} | more


def test_a_correction_changes_the_fact_and_is_reported_with_the_report(person: Program, run: Run):
    fact = make_fact(run.topic, WRONG, run)

    answer = person.post("/corrections", said(run, right="Version 18.1 closes two faults."))

    fact.refresh_from_db()
    assert answer.status_code == 201, answer.content
    assert answer.json()["facts"][0]["action"] == "corrected"
    assert fact.text == "Version 18.1 closes two faults."
    told = person.get(f"/runs/{run.pk}/report").json()
    assert [(one["kind"], one["sentence"]) for one in told["remarks"]] == [("corrected", WRONG)]
    assert items(person.get("/corrections?topic=one"))[0]["id"] == answer.json()["id"]
    run.topic.change(by=run.topic.owner.actor, slug="two")
    for slug in ("one", "two"):
        assert items(person.get(f"/corrections?topic={slug}"))[0]["id"] == answer.json()["id"]
    problem(person.get("/corrections?topic=three"), 422)


def test_it_is_undone_once(person: Program, run: Run):
    made = person.post("/corrections", said(run)).json()

    assert person.post(f"/corrections/{made['id']}/undo").json()["undone_at"]
    problem(person.post(f"/corrections/{made['id']}/undo"), 409)
    assert items(person.get("/corrections")) == []
    assert not Observation.objects.live().exists()


def test_a_stale_fact_and_a_second_correction_are_conflicts(person: Program, run: Run):
    fact = make_fact(run.topic, WRONG, run)
    seen = [{"id": str(fact.pk), "version": 7}]

    problem(person.post("/corrections", said(run, facts=seen)), 409)
    assert not Correction.objects.exists()
    person.post("/corrections", said(run, facts=[]))
    problem(person.post("/corrections", said(run)), 409)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"sentence": "It never said this."}, "sentence"),
        ({"wrong": "   "}, "wrong"),
        ({"wrong": "x" * 1001}, "wrong"),
        ({"facts": [{"id": "00000000-0000-4000-8000-000000000000", "version": 1}]}, "facts"),
    ],
)
def test_what_cannot_be_is_reported_by_field(
    person: Program, run: Run, more: dict[str, Any], field: str
):
    told = problem(person.post("/corrections", said(run, **more)), 422)

    assert field in str(told["errors"])


def test_agents_and_strangers_correct_nothing(
    agent: Program, stranger: Program, person: Program, bob: Any, run: Run
):
    problem(agent.post("/corrections", said(run)), 403)
    problem(Program(bob, "admin").post("/corrections", said(run)), 404)
    made = person.post("/corrections", said(run)).json()
    problem(Program(bob, "admin", name="b").post(f"/corrections/{made['id']}/undo"), 404)
