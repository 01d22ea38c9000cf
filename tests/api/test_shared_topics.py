"""Shared topics by REST: what each person's programs can read, and who manages members."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memory.models import Membership, Note, Topic, User
from research.models import Report, Run
from research.services.topics import sharing
from tests.api.cast import Program, problem
from tests.api.test_every_route import BODIES, OPERATIONS, address
from tests.pages.topic_cast import make, reported
from tests.research.factories import make_second_run, make_topic

OF_MEMBERS = {
    "read_shared_topic", "list_shared_reports", "read_shared_report", "read_shared_news",
    "mark_shared_read", "leave_shared_topic",
}  # fmt: skip


@pytest.fixture
def run(alice: User) -> Run:
    return make_second_run(make_topic(alice))


@pytest.fixture
def member(run: Run, bob: User) -> Membership:
    return sharing.add_member(run.topic, "bob", "viewer", by=run.topic.owner.actor)


def everything(person: User, name: str = "all") -> Program:
    return Program(person, "read", "write", "admin", name=name)


def test_the_owner_adds_lists_and_removes_members(run: Run, bob: User):
    owner = everything(run.topic.owner)
    path = f"/topics/{run.topic.slug}/members"

    added = owner.post(path, {"username": "bob"})

    assert added.status_code == 201 and added.json()["role"] == "viewer"
    assert [one["username"] for one in owner.get(path).json()["items"]] == ["bob"]
    assert Topic.objects.shared_with(bob).get() == run.topic
    assert owner.delete(f"{path}/{added.json()['id']}").status_code == 204
    assert not Topic.objects.shared_with(bob).exists()


@pytest.mark.requirement("R393")
def test_the_owner_chooses_and_changes_a_role(run: Run, bob: User):
    owner = everything(run.topic.owner)
    path = f"/topics/{run.topic.slug}/members"
    member = owner.post(path, {"username": "bob", "role": "commenter"}).json()
    assert member["role"] == "commenter"

    changed = owner.patch(f"{path}/{member['id']}", {"role": "editor"})

    assert changed.json()["role"] == "editor"
    assert Topic.objects.shared_with(bob, "editor").exists()
    assert owner.patch(f"{path}/{member['id']}", {"role": "owner"}).status_code == 422


@pytest.mark.parametrize("body", [{"username": "zed"}, {"username": "alice"}])
def test_a_wrong_member_is_explained(run: Run, body: dict[str, Any]):
    owner = everything(run.topic.owner)
    told = problem(owner.post(f"/topics/{run.topic.slug}/members", body), 422)

    assert "username" in told["errors"]


def test_no_agent_shares_a_topic(run: Run, bob: User):
    agent = Program(run.topic.owner, "read", "write")

    assert agent.post(f"/topics/{run.topic.slug}/members", {"username": "bob"}).status_code == 403
    assert not Membership.objects.exists()


def test_a_member_reads_its_reports_and_nothing_of_the_owners_memory(
    member: Membership, run: Run, bob: User
):
    Note.objects.create(owner=run.topic.owner, topic=run.topic, content="A secret thought")
    Report.objects.filter(run=run).update(
        sources=[{"n": 1, "title": "Mine", "link": "library:x/1", "domain": "", "quotes": []}]
    )
    reader, path = everything(bob), f"/shared-topics/{run.topic_id}"

    listed = reader.get("/shared-topics").json()["items"]
    report = reader.get(f"{path}/reports/2")

    assert [one["id"] for one in listed] == [str(run.topic_id)]
    assert [one["number"] for one in reader.get(f"{path}/reports").json()["items"]] == [2, 1]
    statuses = {one["status"] for one in report.json()["changes"]}
    assert statuses == {"new", "changed", "contradicted"}
    said = report.content.decode()
    assert "It is the fastest." not in said and "library:" not in said
    assert "A secret thought" not in said and "alice" not in said


def test_since_read_differs_for_two_readers(alice: User, bob: User, admin: User):
    topic = make(alice, "A subject")
    for number in (1, 2, 3):
        reported(topic, number, changes=number)
    path = f"/shared-topics/{topic.pk}"
    for name, person, read in (("bob", bob, 1), ("admin", admin, 2)):
        sharing.add_member(topic, name, "viewer", by=alice.actor)
        assert everything(person).post(f"{path}/read", {"number": read}).status_code == 204

    unread = [
        everything(one, "b").get(f"{path}/since-read").json()["unread"] for one in (bob, admin)
    ]

    assert unread == [[2, 3], [3]]


def test_leaving_ends_access_at_once(member: Membership, bob: User):
    reader, path = everything(bob), f"/shared-topics/{member.topic_id}"

    assert reader.delete(path).status_code == 204

    assert reader.get(path).status_code == 404
    assert reader.get("/shared-topics").json()["items"] == []


@pytest.mark.requirement("R383")
def test_every_operation_of_a_topic_by_everyone(
    member: Membership, run: Run, bob: User, admin: User
):
    other = make(run.topic.owner, "Another subject")
    sharing.add_member(other, "admin", "viewer", by=run.topic.owner.actor)
    there = {
        "slug": run.topic.slug, "number": 2, "run_id": run.pk, "topic_id": run.topic_id,
        "member_id": member.pk, "domain": "example.org",
    }  # fmt: skip
    named = {
        name: one for name, one in OPERATIONS.items()
        if {"slug", "run_id", "topic_id"} & set(re.findall(r"{(\w+)}", one[1]))
    }  # fmt: skip
    people = {
        "viewer": bob, "member of another topic": admin, "stranger": User.objects.create_user("carol"),
    }  # fmt: skip
    seen: dict[str, Any] = {}
    for who, person in people.items():
        program = everything(person)
        for name, (method, path, _told) in named.items():
            if who == "viewer" and name in OF_MEMBERS:
                continue
            body = None if method == "GET" else BODIES.get(name, {})
            answer = program.send(method, address(path, there), body, If_Match="*")
            if answer.status_code != 404:
                seen[f"{who}: {name}"] = (answer.status_code, answer.content[:200])

    assert named.keys() >= OF_MEMBERS
    assert seen == {}
    assert Membership.objects.count() == 2
    viewer = Program(bob, "read", name="agent")
    gets = [one for one in OF_MEMBERS if OPERATIONS[one][0] == "GET"]
    assert {viewer.get(address(OPERATIONS[one][1], there)).status_code for one in gets} == {200}
