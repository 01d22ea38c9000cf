"""`/related` and the argument `related` of the tool retrieve."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Activity, Note, Use
from tests.api.cast import Program, items, problem

TEXT = "Hetzner runs our Prometheus."


@pytest.mark.requirement("R367")
def test_a_client_gets_related_records_with_reasons(agent: Program) -> None:
    one = agent.post("/notes", {"content": TEXT}).json()["id"]
    agent.post("/observations", {"findings": ["Prometheus at Hetzner was down."], "source": "x"})

    [found] = items(agent.get(f"/related/{one}"))

    assert (found["type"], found["reasons"]) == ("observation", ["words"])
    assert sorted(found["words"]) == ["Hetzner", "Prometheus"]
    assert found["content"] == "Prometheus at Hetzner was down."
    assert Use.objects.filter(record_id=found["id"]).exists()
    assert items(agent.get(f"/related/{one}?type=note")) == []


@pytest.mark.requirement("R367")
def test_an_agent_gets_nothing_hidden_from_it(agent: Program, alice: Any) -> None:
    one = agent.post("/notes", {"content": TEXT}).json()["id"]
    hidden = [
        Note.objects.create(owner=alice, content=TEXT, **more)
        for more in (
            {"sensitivity": "sensitive"},
            {"trust": "quarantined"},
            {"scope": "agent:x"},
            {"paused": True},
        )
    ]
    Note.follow(hidden)

    assert items(agent.get(f"/related/{one}")) == []
    for record in hidden:
        assert agent.get(f"/related/{record.pk}").status_code in (403, 404)
    problem(agent.get("/related/00000000-0000-4000-8000-000000000000"), 404)


@pytest.mark.requirement("R368")
def test_a_client_gets_everything_about_a_name(agent: Program, alice: Any) -> None:
    agent.post("/notes", {"content": "We run Grafana at Hetzner."})
    agent.post("/observations", {"findings": ["Hetzner has Grafana."], "source": "x"})
    for more in ({"sensitivity": "sensitive"}, {"paused": True}):
        hidden = Note.objects.create(owner=alice, content="Hetzner, Acme.", **more)
        Note.follow([hidden])

    told = agent.get("/about?name=hetzner&limit=1").json()

    assert (told["name"], told["total"]) == ("hetzner", 2)
    assert told["counts"] == {"note": 1, "observation": 1}
    assert [one["name"] for one in told["related_names"]] == ["Grafana"]
    more = agent.get(f"/about?name=hetzner&limit=1&cursor={told['next']}").json()
    assert {told["items"][0]["type"], more["items"][0]["type"]} == {"note", "observation"}
    assert more["next"] is None
    problem(agent.get("/about?name=%3F"), 422)


@pytest.mark.requirement("R369")
def test_a_person_merges_names_and_separates_them(agent: Program, person: Program) -> None:
    agent.post("/notes", {"content": "We run Grafana at Hetzner."})
    agent.post("/notes", {"content": "We pay Hetzner Online each month."})
    pair = {"name": "Hetzner Online", "into": "Hetzner"}

    assert agent.post("/about/aliases", pair).status_code == 403
    made = person.post("/about/aliases", pair)

    assert (made.status_code, made.json()) == (201, pair)
    assert agent.get("/about?name=Hetzner").json()["aliases"] == ["Hetzner Online"]
    assert "already merged" in problem(person.post("/about/aliases", pair), 422)["detail"]
    assert person.delete("/about/aliases?name=hetzner%20online").status_code == 204
    assert agent.get("/about?name=Hetzner").json()["aliases"] == []
    problem(person.delete("/about/aliases?name=hetzner%20online"), 422)
    lines = Activity.objects.filter(kind__in=("names-merged", "name-separated")).order_by("pk")
    assert [line.label for line in lines] == ["Hetzner Online"] * 2
