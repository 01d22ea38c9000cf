"""`/content` for clients: items, their views, snapshots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.models import ContentItem, Session, Snapshot
from memory.services.content import items as content_services
from tests.api.cast import Program, items, problem
from tests.research import factories

TEXT = "first line\nsecond line with owls\nthird line\n"


def put(program: Program, content: str = TEXT, **more: Any) -> str:
    """Store an item and return its path."""
    answer = program.post("/content", {"content": content, **more})
    assert answer.status_code == 201, answer.content
    assert "content" not in answer.json()
    return f"/content/{answer.json()['id']}"


@pytest.mark.requirement("R111", "R112", "R113")
def test_an_item_is_stored_in_full_and_read_back_exactly(agent: Program) -> None:
    whole = TEXT + "ünïcödé 🦉" * 1_000
    path = put(agent, whole, type="web_content", source="fetch", tags=["a", "b"], title="Owls")

    item = agent.get(path).json()
    assert item["content"] == whole
    assert (item["size"], item["shown"], item["of"]) == (len(whole), len(whole), len(whole))
    told = {"type": "web_content", "source": "fetch", "tags": ["a", "b"], "trust": "agent"}
    assert told.items() <= item.items()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("transform=first_n&n=5", "first"),
        ("transform=last_n&n=1&unit=lines", "third line\n"),
        ("transform=filtered&q=owls", "second line with owls\n"),
        ("transform=excerpt&q=owls&n=8", "with owls"),
    ],
)
@pytest.mark.requirement("R114")
def test_a_part_says_of_how_much_it_is_one(agent: Program, query: str, text: str) -> None:
    shown = agent.get(f"{put(agent)}?{query}").json()

    assert shown["content"].strip() in text
    assert shown["content"].strip() in TEXT
    assert 0 < shown["shown"] < shown["of"]


@pytest.mark.parametrize(
    "query",
    ["transform=upper", "transform=first_n&n=-1", "transform=first_n&n=1000000000", "n=ten",
     "transform=filtered", "transform=full&n=3", "transform=first_n&unit=words", "transform=first_n&q=x"],
)  # fmt: skip
def test_an_unknown_transform_or_parameter_is_refused(agent: Program, query: str) -> None:
    assert problem(agent.get(f"{put(agent)}?{query}"), 422)["errors"]


@pytest.mark.parametrize("path", ["/content?", "/observations?", "/recall?q=tea&"])
def test_a_moment_far_from_every_time_zone_isnt_a_failure(agent: Program, path: str) -> None:
    asked = f"{path}after="
    assert agent.get(f"{asked}2026-01-01T00:00:00%2B23:59").status_code == 200
    assert "after" in problem(agent.get(f"{asked}0001-01-01T00:00:00%2B23:59"), 422)["errors"]


def test_an_item_over_eight_mebibytes_is_refused_and_nothing_stored(agent: Program) -> None:
    just = json.dumps({"content": "x" * content_services.MAX_BYTES})
    assert agent.post("/content", just).status_code == 201

    more = json.dumps({"content": "é" * (content_services.MAX_BYTES // 2 + 1)}, ensure_ascii=False)
    assert "8 MiB" in problem(agent.post("/content", more.encode()), 422)["detail"]
    huge = b'{"content": "' + b"x" * 50_000_000 + b'"}'
    assert "8 MiB" in problem(agent.post("/content", huge), 413)["detail"]
    assert ContentItem.objects.count() == 1


def test_relations_are_kept_and_what_is_none_is_refused(agent: Program, stranger: Program) -> None:
    other = put(agent)
    path = put(agent, related_to=[other.rpartition("/")[2]])

    assert agent.get(path).json()["related_to"] == [other.rpartition("/")[2]]
    for bad in ("x", put(stranger).rpartition("/")[2]):
        problem(agent.post("/content", {"content": "x", "related_to": [bad]}), 422)


@pytest.mark.requirement("R115", "R116")
def test_items_are_queried_without_their_content(agent: Program) -> None:
    put(agent, "one", tags=["a"], source="fetch")
    put(agent, "two", tags=["a", "b"], type="web_content")

    both = items(agent.get("/content?tag=a"))
    assert [one["size"] for one in both] == [3, 3]
    assert all("content" not in one for one in both)
    assert len(items(agent.get("/content?tag=a&tag=b"))) == 1
    assert len(items(agent.get("/content?source=fetch"))) == 1
    assert len(items(agent.get("/content?type=web_content"))) == 1
    assert items(agent.get("/content?before=2020-01-01")) == []
    first = agent.get("/content?limit=1").json()
    assert len(items(agent.get(f"/content?cursor={first['next']}"))) == 1
    problem(agent.get("/content?type=blob"), 422)


@pytest.mark.requirement("R117")
def test_clearing_empties_one_scope_alone(agent: Program, person: Program) -> None:
    kept = put(agent)
    gone = put(agent, scope="session:s1")

    assert agent.delete("/content?scope=session:s1").json() == {"cleared": 1}
    problem(agent.get(gone), 404)
    assert agent.get(kept).status_code == 200
    problem(agent.delete("/content"), 422)
    problem(agent.delete("/content?scope=everything"), 422)
    put(person, "Hers.")
    problem(agent.delete("/content?scope=owner"), 403)
    assert person.delete("/content?scope=owner").json() == {"cleared": 2}
    put(agent)
    assert agent.delete("/content?scope=owner").json() == {"cleared": 1}


@pytest.mark.requirement("R118", "R242")
def test_a_snapshot_brings_back_exactly_what_was_there(agent: Program) -> None:
    first = put(agent, "one", scope="session:s1")
    taken = agent.post("/content/snapshots", {"scope": "session:s1", "title": "Before"})
    put(agent, "two", scope="session:s1")

    assert taken.status_code == 201
    restore = f"/content/snapshots/{taken.json()['id']}/restore"
    assert agent.post(restore).json()["ids"] == [first.rpartition("/")[2]]
    assert [one["size"] for one in items(agent.get("/content?scope=session:s1"))] == [3]
    seeded = agent.post(restore, {"scope": "session:s2"}).json()["ids"]
    assert agent.get(f"/content/{seeded[0]}").json()["content"] == "one"
    assert len(items(agent.get("/content?scope=session:s1"))) == 1


def test_another_owners_items_and_snapshots_are_not_there(
    agent: Program, stranger: Program, bob: Any
) -> None:
    path = put(agent, scope="session:s1")
    taken = agent.post("/content/snapshots", {"scope": "session:s1"}).json()["id"]

    for other in (stranger, Program(bob, "admin", name="console")):
        problem(other.get(path), 404)
        problem(other.post(f"/content/snapshots/{taken}/restore"), 404)
        assert items(other.get("/content")) == []
        assert other.delete("/content?scope=session:s1").json() == {"cleared": 0}
    assert Snapshot.objects.count() == 1


@pytest.mark.requirement("R133")
def test_an_agent_sees_no_scope_that_is_not_its_own(agent: Program, alice: Any) -> None:
    other = Program(alice, "read", "write", name="other")
    path = put(other, scope="agent:other")
    hers = Session.objects.create(owner=alice)

    problem(agent.get(path), 404)
    assert items(agent.get("/content")) == []
    run = factories.make_run(factories.make_topic(alice))
    to_come = f"run:{run.pk + 1}"  # a program could lay out what that run is to find
    whole = ("agent:other", f"run:{run.pk}", to_come, f"session:{hers.pk}")
    for scope in (*whole, *(f"{scope}/news" for scope in whole)):
        problem(agent.post("/content", {"content": "x", "scope": scope}), 403)
        problem(agent.get(f"/content?scope={scope}"), 403)
        problem(agent.post("/content/snapshots", {"scope": scope}), 403)
    assert agent.post("/content", {"content": "x", "scope": "run:nightly"}).status_code == 201


def test_what_is_sensitive_is_shown_to_the_person_alone(agent: Program, person: Program) -> None:
    path = put(person, "4711", sensitivity="sensitive")

    assert "4711" not in str(problem(agent.get(path), 403))
    assert items(agent.get("/content")) == []
    assert person.get(path).json()["content"] == "4711"


def test_the_number_of_queries_is_fixed(agent: Program, django_assert_num_queries: Any) -> None:
    for number in range(9):
        put(agent, f"text {number}")
    agent.get("/content")  # notes whose words the agent read, once a minute
    for limit in (1, 9):
        with django_assert_num_queries(2):  # the token, the page
            agent.get(f"/content?limit={limit}")
