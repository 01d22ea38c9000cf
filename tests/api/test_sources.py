"""A topic's sources by REST: list, sort, set rules; notification settings, which only people change."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Topic
from research.models import TopicSettings
from tests.api.cast import Program, problem
from tests.research.factories import make_hit, make_run, make_topic

PATH = "/topics/postgresql-releases"


@pytest.fixture
def topic(alice: Any) -> Topic:
    topic = make_topic(alice)
    run = make_run(topic)
    for n in (1, 2, 3):
        make_hit(run, n, url=f"https://s{n}.example/", link=f"https://s{n}.example/",
                 domain=f"s{n}.example", cited_as=n if n < 3 else None)  # fmt: skip
    return topic


def places(answer: Any) -> list[str]:
    return [item["source"] for item in answer.json()["items"]]


def test_sources_are_listed_in_pages(agent: Program, topic: Topic) -> None:
    first = agent.get(f"{PATH}/sources?limit=2&sort=^name")
    second = agent.get(f"{PATH}/sources?limit=2&sort=^name&cursor={first.json()['next']}")

    assert places(first) == ["s1.example", "s2.example"]
    assert places(second) == ["s3.example"]
    assert second.json()["next"] is None
    assert first.json()["items"][0]["cited"] == 1


def test_a_source_is_blocked_in_one_topic(agent: Program, person: Program, topic: Topic) -> None:
    asked = {"source": "S1.example", "rule": "block"}
    problem(agent.patch(f"{PATH}/sources", asked), 403)
    answer = person.patch(f"{PATH}/sources", asked)

    assert answer.json() == {"source": "s1.example", "rule": "block", "before": "none"}
    blocked = agent.get(f"{PATH}/sources?state=block").json()["items"]
    assert [(one["source"], one["effective_rule"]) for one in blocked] == [("s1.example", "block")]


@pytest.mark.parametrize("more", [{"rule": "mute"}, {"rule": "block", "all_topics": True}])
def test_an_agent_neither_mutes_nor_rules_all_topics(
    agent: Program, person: Program, topic: Topic, more: dict[str, Any]
) -> None:
    asked = {"source": "s1.example", **more}

    assert agent.patch(f"{PATH}/sources", asked).status_code == 403
    assert person.patch(f"{PATH}/sources", asked).status_code == 200


def test_what_isnt_a_place_is_explained(person: Program, topic: Topic) -> None:
    answer = person.patch(f"{PATH}/sources", {"source": "no place", "rule": "block"})

    assert "isn’t a domain or a URL" in problem(answer, 422)["detail"]


def test_another_owners_sources_are_not_there(stranger: Program, topic: Topic) -> None:
    assert stranger.get(f"{PATH}/sources").status_code == 404


def test_only_a_person_sets_an_intent(agent: Program, person: Program, topic: Topic) -> None:
    tag = agent.get(PATH)["ETag"]

    assert agent.patch(PATH, {"intent": "nothing"}, If_Match=tag).status_code == 403
    made = agent.post("/topics", {"title": "Cells", "intent": "nothing"})
    assert made.status_code == 403
    changed = person.patch(PATH, {"intent": "prices"}, If_Match=tag)
    assert changed.json()["intent"] == "prices"
    assert TopicSettings.objects.get(topic=topic).intent == "prices"
