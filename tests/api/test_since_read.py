"""News since the owner last read, by REST, and read marks."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Topic
from research.models import Report
from tests.api.cast import Program, problem
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic

OLD = "Cells from the plant cost ninety euros per kilowatt hour."
NOW = "Cells from the plant cost eighty euros per kilowatt hour."
PATH = "/topics/postgresql-releases"


@pytest.fixture
def topic(alice: Any) -> Topic:
    """Three reports: #1 was read; #2 found a fact, #3 changed it."""
    topic = make_topic(alice)
    runs = [make_run(topic) for _number in range(3)]
    reports = [make_report(run) for run in runs]
    reports[0].mark_read()
    fact = make_fact(topic, OLD, runs[1])
    make_item(runs[1], "new", OLD, citations=[1])
    make_item(runs[2], "changed", NOW, previous_fact=fact, previous_text=OLD, citations=[2])
    return topic


def unread(topic: Topic) -> list[int]:
    rows = Report.objects.filter(run__topic=topic, read_at=None)
    return sorted(rows.values_list("run__number", flat=True))


def test_the_unread_reports_are_reported_as_one_and_marked_by_no_one(agent: Program, topic: Topic):
    told = agent.get(f"{PATH}/since-read").json()

    assert told["last_read"]["number"] == 1
    assert [run["number"] for run in told["unread"]] == [2, 3]
    assert told["counts"] == {"new": 1}
    assert told["words"] == "1 new fact since you last read"
    [item] = told["items"]
    assert (item["status"], item["sentence"], item["previous"]) == ("new", NOW, "")
    assert item["runs"] == [run["id"] for run in told["unread"]]
    assert item["source"]["domain"]
    assert unread(topic) == [2, 3]


def test_a_person_marks_some_or_all_as_read_and_back(person: Program, topic: Topic):
    assert person.post(f"{PATH}/read", {"last": 2}).json() == {"marked": 1}
    assert unread(topic) == [3]
    assert person.post(f"{PATH}/read").json() == {"marked": 1}
    assert person.post(f"{PATH}/unread").json() == {"marked": 1}
    assert unread(topic) == [3]
    assert person.post(f"{PATH}/unread", {"first": 1, "last": 2}).json() == {"marked": 2}
    assert unread(topic) == [1, 2, 3]


def test_an_agent_marks_nothing(agent: Program, topic: Topic):
    for name in ("read", "unread"):
        assert agent.post(f"{PATH}/{name}").status_code == 403
    assert unread(topic) == [2, 3]


def test_what_only_people_are_shown_is_not_told_to_an_agent(
    agent: Program, person: Program, topic: Topic
):
    Report.objects.filter(run__topic=topic, run__number=2).update(sensitivity="sensitive")

    assert agent.get(f"{PATH}/since-read").status_code == 404
    assert person.get(f"{PATH}/since-read").status_code == 200


@pytest.mark.parametrize("which", [{"first": 3, "last": 2}, {"first": 0}, {"last": 10**12}])
def test_numbers_that_fit_nothing_are_explained(
    person: Program, topic: Topic, which: dict[str, int]
):
    problem(person.post(f"{PATH}/read", which), 422)
    assert unread(topic) == [2, 3]


def test_a_topic_without_reports_has_no_news_and_a_strangers_is_not_there(
    agent: Program, stranger: Program, alice: Any, topic: Topic
):
    make_topic(alice, "Orchids")
    told = agent.get("/topics/orchids/since-read").json()
    assert (told["last_read"], told["unread"], told["items"]) == (None, [], [])
    assert stranger.get(f"{PATH}/since-read").status_code == 404
    assert Program(stranger.owner, "admin").post(f"{PATH}/read").status_code == 404
