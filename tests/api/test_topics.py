"""Topics by REST: created once per title, changed with If-Match, read as seed 000's memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pgtrigger
import pytest
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import Note, Revision, Topic
from memory.models.actors import Actor
from research.models import Run, Schedule, TopicSettings
from tests.api.cast import Program, items, problem
from tests.research import factories

WEEKLY = {"preset": "weekly", "weekday": 1, "hour": 9, "time_zone": "Europe/Berlin"}
WHOLE = {
    "title": "Solid-state  batteries",
    "objective": "Who builds them, and when?",
    "focus": "sulphide",
    "depth": "quick",
    "time_frame": "week",
    "languages": ["English", "de"],
    "allow_domains": ["example.org"],
    "block_domains": ["spam.example"],
    "labels": ["energy", "cars"],
    "max_pages": 12,
    "max_money": 0.5,
    "schedule": WEEKLY,
}


def test_a_topic_is_created_with_its_settings_and_schedule(person: Program) -> None:
    answer = person.post("/topics", WHOLE)

    made = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/topics/{made['slug']}"
    assert answer["ETag"] == f'"{made["version"]}"'
    assert made["languages"] == ["en", "de"]
    assert made["labels"] == ["energy", "cars"]
    assert (made["max_pages"], made["max_money"]) == (12, "0.50")
    assert (made["schedule"]["preset"], made["schedule"]["cron"]) == ("weekly", "0 9 * * 1")
    topic = Topic.objects.for_user(person.owner).get()
    assert (topic.source, topic.trust) == ("human:alice", "owner")


def test_a_title_alone_makes_one_that_is_run_by_hand(agent: Program) -> None:
    made = agent.post("/topics", {"title": "AI agents"}).json()

    assert made["slug"] == "ai-agents"
    assert made["schedule"]["preset"] == "none"
    assert made["schedule"]["next_run_at"] is None


def test_a_cron_line_alone_is_a_schedule(person: Program) -> None:
    made = person.post("/topics", {"title": "x y", "schedule": {"cron": "0 9 * * 1-5"}}).json()

    assert made["schedule"]["preset"] == "cron"
    assert made["schedule"]["next_run_at"] is not None


@pytest.mark.requirement("R3")
def test_the_same_title_is_the_same_topic_which_stays_as_it_is(person: Program) -> None:
    first = person.post("/topics", WHOLE).json()
    again = person.post("/topics", {"title": " solid-state batteries ", "focus": "other"})

    assert again.status_code == 200
    assert again.json() == first


BAD = {
    "no title": ({}, "title"),
    "blank": ({"title": "\u200b "}, "title"),
    "domain": ({"title": "x", "allow_domains": ["not a domain"]}, "allow_domains"),
    "language": ({"title": "x", "languages": ["Klingon"]}, "languages"),
    "service": ({"title": "x", "services": ["altavista"]}, "services"),
    "cron": ({"title": "x", "schedule": {"cron": "every day"}}, "schedule.cron"),
    "two kinds": (
        {"title": "x", "schedule": {**WEEKLY, "cron": "0 9 * * *"}},
        "schedule",
    ),
    "zone": ({"title": "x", "schedule": {**WEEKLY, "time_zone": "Mars"}}, "schedule.time_zone"),
    "depth": ({"title": "x", "depth": "bottomless"}, "depth"),
    "unknown": ({"title": "x", "colour": "red"}, "colour"),
    "both lists": ({"title": "x", "allow_domains": ["a.org"], "block_domains": ["a.org"]},
                   "block_domains"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "field"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_is_named_and_no_topic_is_created(
    person: Program, body: Any, field: str
) -> None:
    told = problem(person.post("/topics", body), 422)

    assert field in told["errors"]
    assert not Topic.objects.for_user(person.owner).exists()


def test_a_change_needs_the_version_that_it_is_based_on(person: Program) -> None:
    made = person.post("/topics", WHOLE).json()
    path = f"/topics/{made['slug']}"

    problem(person.patch(path, {"focus": "x"}), 428)
    changed = person.patch(path, {"focus": "oxide"}, If_Match=f'"{made["version"]}"')
    stale = problem(person.patch(path, {"focus": "y"}, If_Match=f'"{made["version"]}"'), 412)

    assert changed.json()["focus"] == "oxide"
    assert changed.json()["schedule"] == made["schedule"]
    assert stale["current"] == changed.json()["version"]


def test_null_sets_a_field_back_and_what_is_left_out_stays(person: Program) -> None:
    made = person.post("/topics", WHOLE).json()
    path, tag = f"/topics/{made['slug']}", f'"{made["version"]}"'

    now = person.patch(path, {"max_pages": None, "labels": None}, If_Match=tag).json()

    assert (now["max_pages"], now["labels"]) == (None, [])
    assert now["objective"] == WHOLE["objective"]


def test_a_renamed_topic_has_both_addresses(
    agent: Program, person: Program, stranger: Program, alice: Any
) -> None:
    made = agent.post("/topics", {"title": "One"}).json()
    agent.patch("/topics/one", {"title": "Two"}, If_Match=f'"{made["version"]}"')

    assert agent.get("/topics/two").json()["id"] == made["id"]
    assert agent.get("/topics/one").json()["slug"] == "two"
    assert agent.post("/topics/one/runs").json()["topic"] == "two"
    problem(stranger.get("/topics/one"), 404)
    limited = Program(alice, "read", name="limited", topics=[Topic.objects.get()])
    assert limited.get("/topics/one").json()["slug"] == "two"

    again = person.post("/topics", {"title": "One"}).json()
    assert agent.get("/topics/one").json()["id"] == again["id"]
    problem(limited.get("/topics/one"), 404)
    person.delete("/topics/one", If_Match="*")
    problem(person.delete("/topics/one", If_Match="*"), 404)
    assert agent.get("/topics/two").status_code == 200


FILTERED = ("/notes?kind=log&", "/observations?", "/recall?q=lantern&")


@pytest.fixture
def renamed(agent: Program, person: Program) -> None:
    """A topic “Two” that was “One”, with a note and an observation."""
    made = agent.post("/topics", {"title": "One"}).json()
    agent.post("/notes", {"content": "A lantern hangs at the gate.", "topic": "one"})
    agent.post("/observations", {"findings": ["The lantern is red."], "topic": "one"})
    agent.patch("/topics/one", {"title": "Two"}, If_Match=f'"{made["version"]}"')


@pytest.mark.parametrize("path", FILTERED)
@pytest.mark.usefixtures("renamed")
def test_lists_of_a_topic_know_its_earlier_slug(person: Program, path: str) -> None:
    found = [one["id"] for one in items(person.get(f"{path}topic=two"))]

    assert found
    assert [one["id"] for one in items(person.get(f"{path}topic=one"))] == found
    told = problem(person.get(f"{path}topic=three"), 422)
    assert "There’s no topic “three”" in told["errors"]["topic"][0]


@pytest.mark.usefixtures("renamed")
def test_notes_as_of_a_date_are_found_by_the_slug_of_then_and_of_now(person: Program) -> None:
    with pgtrigger.ignore("memory.Revision:append_only"):
        for model in (Topic, Note):
            model.objects.update(created=timezone.now() - timedelta(days=9))
        early = Revision.objects.filter(version=1)
        early.update(created=timezone.now() - timedelta(days=9))
    then = f"as_of={timezone.now() - timedelta(days=5):%Y-%m-%d}"

    for slug in ("one", "two"):
        assert len(items(person.get(f"/notes?kind=log&topic={slug}&{then}"))) == 1


@pytest.mark.usefixtures("renamed")
def test_agents_find_a_renamed_topic_by_its_earlier_slug(alice: Any) -> None:
    context = ToolContext(alice, Actor("agent", "claude"), "agent:claude", place="agent:claude")

    early = call_tool(context, "recall", {"query": "lantern topic:one"})
    now = call_tool(context, "recall", {"query": "lantern topic:two"})
    told = call_tool(context, "get_context", {"topic": "one"})

    assert early.data["records"] == now.data["records"] != []
    assert not told.is_error


def test_a_change_that_cannot_be_changes_nothing(person: Program) -> None:
    made = person.post("/topics", WHOLE).json()
    body = {"focus": "x", "schedule": {"cron": "never"}}
    path = f"/topics/{made['slug']}"

    problem(person.patch(path, body, If_Match=f'"{made["version"]}"'), 422)

    assert person.get(path).json() == made


def test_a_locked_topic_is_a_persons_to_change(agent: Program, person: Program, alice: Any) -> None:
    factories.make_topic(alice, "One").change(by=alice.actor, lock="read-only")

    problem(agent.patch("/topics/one", {"focus": "x"}, If_Match="*"), 403)
    problem(agent.delete("/topics/one", If_Match="*"), 403)
    assert TopicSettings.objects.get().focus == ""
    assert person.patch("/topics/one", {"focus": "x"}, If_Match="*").status_code == 200


def test_a_topic_goes_to_the_trash_and_its_run_is_cancelled(person: Program) -> None:
    made = person.post("/topics", {"title": "One"}).json()
    person.post("/topics/one/runs")

    assert person.delete("/topics/one", If_Match=f'"{made["version"]}"').status_code == 204
    problem(person.get("/topics/one"), 404)
    assert Topic.objects.for_user(person.owner).in_trash().count() == 1
    assert Run.objects.get().status == "cancelled"


def test_the_list_is_narrowed_and_paged(agent: Program) -> None:
    for title in ("Alpha one", "Beta two", "Alpha three"):
        agent.post("/topics", {"title": title, "labels": [title.split()[0]]})

    assert [one["title"] for one in items(agent.get("/topics?q=alpha"))] == [
        "Alpha three",
        "Alpha one",
    ]
    assert len(items(agent.get("/topics?label=Beta"))) == 1
    first = agent.get("/topics?limit=2").json()
    rest = agent.get(f"/topics?limit=2&cursor={first['next']}").json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (2, 1, None)


def test_archived_topics_are_listed_on_request(agent: Program, alice: Any) -> None:
    factories.make_topic(alice, "Old").archive(by=alice.actor)

    assert items(agent.get("/topics")) == []
    assert [one["slug"] for one in items(agent.get("/topics?show=archived"))] == ["old"]


@pytest.mark.parametrize("count", [1, 30])
def test_the_list_takes_the_same_queries_however_many_there_are(
    agent: Program, alice: Any, count: int
) -> None:
    from django.db import connection

    for number in range(count):
        factories.make_topic(alice, f"Topic {number}")
    agent.get("/topics")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert len(items(agent.get("/topics"))) == count
    assert len(asked) <= 6


@pytest.mark.requirement("R1")
@pytest.mark.requirement("R237")
def test_what_is_known_has_the_six_fields_of_the_seed(agent: Program, alice: Any) -> None:
    topic = factories.make_topic(alice)
    factories.make_report(factories.make_run(topic))
    factories.make_fact(topic, "Version 18.1 repairs index corruption.")

    told = agent.get(f"/topics/{topic.slug}/memory").json()

    assert list(told) == [
        "topic", "seenUrls", "keyFacts", "lastRunAt", "runCount", "reportSummary",
    ]  # fmt: skip
    assert told["keyFacts"] == ["Version 18.1 repairs index corruption."]
    assert told["runCount"] == 1
    assert told["lastRunAt"].endswith("+00:00") or told["lastRunAt"].endswith("Z")


def test_a_stranger_finds_nothing(agent: Program, stranger: Program) -> None:
    agent.post("/topics", {"title": "One"})

    assert items(stranger.get("/topics")) == []
    for method, path in (
        ("GET", "/topics/one"), ("GET", "/topics/one/memory"), ("GET", "/topics/one/runs"),
        ("POST", "/topics/one/runs"), ("GET", "/topics/one/reports/1"),
        ("DELETE", "/topics/one"),
    ):  # fmt: skip
        problem(stranger.send(method, path, If_Match="*"), 404)
    problem(stranger.patch("/topics/one", {"focus": "x"}, If_Match="*"), 404)


def test_one_who_can_only_read_changes_nothing(alice: Any) -> None:
    reader = Program(alice, "read", name="reader")
    factories.make_topic(alice, "One")

    problem(reader.post("/topics", {"title": "Two"}), 403)
    problem(reader.patch("/topics/one", {"focus": "x"}, If_Match="*"), 403)
    problem(reader.delete("/topics/one", If_Match="*"), 403)
    problem(reader.post("/topics/one/runs"), 403)
    assert not Run.objects.exists()


def test_characters_that_cannot_be_stored_are_removed_and_told(agent: Program) -> None:
    answer = agent.post("/topics", '{"title": "One\\u0000 two", "focus": "a\\ud800b"}')

    assert answer.status_code == 201
    assert answer["Beacon-Cleaned"] == "title, focus"
    settings = TopicSettings.objects.get()
    assert (settings.focus, Schedule.objects.count()) == ("ab", 1)


# --- trashed, and paused ------------------------------------------------------------------------------


def made(program: Program, **more: Any) -> tuple[str, str]:
    """Return the URL and the ETag of a new topic."""
    answer = program.post("/topics", {"title": "Tea fares", **more})
    return f"/topics/{answer.json()['slug']}", answer["ETag"]


def test_a_schedule_is_paused_and_taken_up_again(person: Program) -> None:
    path, tag = made(person, schedule=WEEKLY)

    paused = person.patch(path, {"schedule": {"paused": True}}, If_Match=tag)
    assert paused.json()["schedule"]["paused"] is True
    assert paused.json()["schedule"]["next_run_at"] is None
    again = person.patch(path, {"schedule": {"paused": False}}, If_Match=paused["ETag"]).json()
    assert (again["schedule"]["paused"], again["schedule"]["cron"]) == (False, "0 9 * * 1")


def test_null_removes_the_schedule(person: Program) -> None:
    path, tag = made(person, schedule=WEEKLY)

    other = person.patch(path, {"focus": "Fares"}, If_Match=tag)
    assert other.json()["schedule"]["preset"] == "weekly"
    gone = person.patch(path, {"schedule": None}, If_Match=other["ETag"]).json()
    assert (gone["schedule"]["preset"], gone["schedule"]["next_run_at"]) == ("none", None)
    made_without = person.post("/topics", {"title": "Coffee", "schedule": None}).json()
    assert made_without["schedule"]["preset"] == "none"


def test_a_topic_that_is_run_by_hand_has_nothing_to_pause(person: Program) -> None:
    path, tag = made(person)

    told = problem(person.patch(path, {"schedule": {"paused": True}}, If_Match=tag), 422)
    assert "runs manually" in told["errors"]["schedule.paused"][0]


def test_a_person_archives_a_topic_and_takes_it_back(person: Program) -> None:
    path, tag = made(person)

    put_away = person.patch(path, {"archived": True, "focus": "tea"}, If_Match=tag)
    assert put_away.json()["archived_at"] is not None
    assert put_away.json()["focus"] == "tea"
    back = person.patch(path, {"archived": False}, If_Match=put_away["ETag"])
    assert back.json()["archived_at"] is None


def test_agents_archive_nothing(agent: Program) -> None:
    path, tag = made(agent)

    problem(agent.patch(path, {"archived": True}, If_Match=tag), 403)
    assert agent.get(path).json()["archived_at"] is None


def test_agents_make_a_topic_private_and_not_public_again(agent: Program) -> None:
    path, tag = made(agent)
    hidden = agent.patch(path, {"private": True}, If_Match=tag)

    for sent in (False, None):
        problem(agent.patch(path, {"private": sent}, If_Match=hidden["ETag"]), 403)
    assert agent.get(path).json()["private"] is True
