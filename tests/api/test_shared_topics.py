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
    "mark_shared_read", "change_shared_topic", "leave_shared_topic", "list_comments",
}  # fmt: skip
OF_WRITERS = {"add_comment", "edit_comment"}  # a viewer gets 403
OF_EDITORS = {"read_shared_settings", "edit_shared_settings", "start_shared_run"}


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


@pytest.mark.parametrize("body", [{"username": ""}, {"username": "alice"}])
def test_a_wrong_member_is_explained(run: Run, body: dict[str, Any]):
    owner = everything(run.topic.owner)
    told = problem(owner.post(f"/topics/{run.topic.slug}/members", body), 422)

    assert "username" in told["errors"]


@pytest.mark.requirement("R399")
def test_the_answers_do_not_say_whether_an_account_exists(run: Run, bob: User):
    owner, path = everything(run.topic.owner), f"/topics/{run.topic.slug}/members"
    seen = []
    User.objects.filter(pk=bob.pk).update(display_name="Bob B.")
    for name in ("bob", "nobody"):
        added = owner.post(path, {"username": name})
        key = added.json()["id"]
        changed = owner.patch(f"{path}/{key}", {"role": "editor"})
        again = owner.post(path, {"username": name})
        listed = owner.get(path)
        removed = owner.delete(f"{path}/{key}")
        answers = [added, changed, again, listed, removed]
        plain = [
            re.sub(r'"id": \d+|\d{4}-\d\d-\d\d[^"]*', "", one.content.decode()) for one in answers
        ]
        seen.append(
            ([one.status_code for one in answers], [text.replace(name, "X") for text in plain])
        )

    assert seen[0] == seen[1]
    assert seen[0][0] == [201, 200, 422, 200, 204]


def test_the_rate_of_adding_members_is_limited(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Membership, "MAX_PER_HOUR", 1)
    owner, path = everything(run.topic.owner), f"/topics/{run.topic.slug}/members"
    assert owner.post(path, {"username": "nobody"}).status_code == 201

    refused = owner.post(path, {"username": "bob"})

    assert problem(refused, 429) and int(refused["Retry-After"]) > 3000


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


@pytest.mark.requirement("R392")
def test_a_member_turns_notifications_on_by_rest(member: Membership, bob: User):
    reader, path = everything(bob), f"/shared-topics/{member.topic_id}"
    assert reader.get(path).json()["notify"] is False

    assert reader.patch(path, {"notify": True}).json()["notify"] is True

    assert reader.get(path).json()["notify"] is True


def test_leaving_ends_access_at_once(member: Membership, bob: User):
    reader, path = everything(bob), f"/shared-topics/{member.topic_id}"

    assert reader.delete(path).status_code == 204

    assert reader.get(path).status_code == 404
    assert reader.get("/shared-topics").json()["items"] == []


@pytest.mark.requirement("R394")
def test_commenters_comment_and_the_owner_deletes(member: Membership, run: Run, bob: User):
    sharing.set_role(member, "commenter", by=run.topic.owner.actor)
    owner, reader = everything(run.topic.owner), everything(bob)
    path = f"/shared-topics/{run.topic_id}/reports/2/comments"

    made = reader.post(path, {"text": "Is it out?"})
    answer = owner.post(path, {"text": "Yes."}).json()
    edited = reader.patch(f"{path}/{made.json()['id']}", {"text": "Is it out yet?"})

    assert made.status_code == 201 and edited.json()["edited_at"]
    listed = owner.get(path).json()["items"]
    assert [(one["author"], one["text"]) for one in listed] == [
        ("bob", "Is it out yet?"), ("alice", "Yes."),
    ]  # fmt: skip
    assert reader.patch(f"{path}/{answer['id']}", {"text": "No."}).status_code == 404
    assert reader.delete(f"{path}/{answer['id']}").status_code == 404
    assert owner.delete(f"{path}/{made.json()['id']}").status_code == 204
    agent = Program(bob, "read", "write", name="agent")
    assert len(agent.get(path).json()["items"]) == 1
    assert agent.post(path, {"text": "I am a program."}).status_code == 403


def test_an_agent_reads_no_comments_on_a_report_that_it_does_not_get(run: Run):
    owner, path = run.topic.owner, f"/shared-topics/{run.topic_id}/reports/2/comments"
    sharing.add_comment(run.report, "A secret thought", author=owner)
    Report.objects.filter(run=run).update(sensitivity="sensitive")

    assert Program(owner, "read", name="agent").get(path).status_code == 404
    assert everything(owner).get(path).status_code == 200


@pytest.mark.requirement("R395")
def test_editors_edit_what_runs_look_for_and_start_one(member: Membership, run: Run, bob: User):
    sharing.set_role(member, "editor", by=run.topic.owner.actor)
    reader, path = everything(bob), f"/shared-topics/{run.topic_id}"

    changed = reader.patch(f"{path}/settings", {"objective": "Which fixes?"})
    wrong = reader.patch(f"{path}/settings", {"always_check": ["library:x/1"]})
    started = reader.post(f"{path}/runs")

    assert changed.json() == reader.get(f"{path}/settings").json()
    assert changed.json()["objective"] == "Which fixes?"
    assert "always_check" in problem(wrong, 422)["errors"]
    assert started.status_code == 202
    assert Run.objects.get(pk=started.json()["run"]).actor == "human:bob"
    assert "runs/" not in problem(reader.post(f"{path}/runs"), 409)["detail"]


@pytest.mark.requirement("R383")
def test_every_operation_of_a_topic_by_everyone(
    member: Membership, run: Run, bob: User, admin: User
):
    other = make(run.topic.owner, "Another subject")
    sharing.add_member(other, "admin", "viewer", by=run.topic.owner.actor)
    there = {
        "slug": run.topic.slug, "number": 2, "run_id": run.pk, "topic_id": run.topic_id,
        "member_id": member.pk, "domain": "example.org",
        "comment_id": sharing.add_comment(run.report, "Seen.", author=run.topic.owner).pk,
    }  # fmt: skip
    named = {
        name: one for name, one in OPERATIONS.items()
        if {"slug", "run_id", "topic_id"} & set(re.findall(r"{(\w+)}", one[1]))
    }  # fmt: skip
    carol, dora, erin = (User.objects.create_user(name) for name in ("carol", "dora", "erin"))
    for name, role in (("dora", "commenter"), ("erin", "editor")):
        sharing.add_member(run.topic, name, role, by=run.topic.owner.actor)
    people = {
        "viewer": bob, "commenter": dora, "editor": erin, "member of another topic": admin,
        "stranger": carol,
    }  # fmt: skip
    expected = {
        who: dict.fromkeys(OF_WRITERS | OF_EDITORS, 403)
        for who in ("viewer", "commenter", "editor")
    }
    expected["commenter"] |= {"add_comment": 201, "edit_comment": 404}  # the comment is Alice's
    expected["editor"] |= expected["commenter"] | {
        "read_shared_settings": 200, "edit_shared_settings": 200, "start_shared_run": 202,
    }  # fmt: skip
    seen: dict[str, Any] = {}
    for who, person in people.items():
        program = everything(person)
        for name, (method, path, _told) in named.items():
            if who in expected and name in OF_MEMBERS:
                continue
            body = None if method == "GET" else BODIES.get(name, {})
            answer = program.send(method, address(path, there), body, If_Match="*")
            if answer.status_code != expected.get(who, {}).get(name, 404):
                seen[f"{who}: {name}"] = (answer.status_code, answer.content[:200])

    assert named.keys() >= OF_MEMBERS | OF_WRITERS | OF_EDITORS
    assert seen == {}
    assert Membership.objects.count() == 4
    viewer = Program(bob, "read", name="agent")
    gets = [one for one in OF_MEMBERS if OPERATIONS[one][0] == "GET"]
    assert {viewer.get(address(OPERATIONS[one][1], there)).status_code for one in gets} == {200}
