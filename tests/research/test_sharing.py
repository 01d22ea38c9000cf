"""Members of a topic: who they are, what the one way to another's topic gives, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from memory.models import Activity, Membership, Topic, User
from memory.models.errors import InvalidValue
from research.services.runs.execution.starting import RunNotAllowed
from research.services.topics import sharing
from tests.research.factories import make_topic


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


@pytest.fixture
def member(topic: Topic, bob: User) -> Membership:
    return sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)


def shared_with(user: User, *roles: str) -> list[Topic]:
    return list(Topic.objects.shared_with(user, *roles))


def test_a_member_has_a_way_to_the_topic_and_does_not_own_it(topic: Topic, bob: User):
    assert shared_with(bob) == []

    sharing.add_member(topic, " bob ", "viewer", by=topic.owner.actor)

    assert shared_with(bob) == [topic]
    assert not Topic.objects.for_user(bob).exists()
    assert shared_with(topic.owner) == []  # it is the owner's own


def test_a_role_narrows_the_way(member: Membership, bob: User):
    assert shared_with(bob, "viewer") == [member.topic]
    assert shared_with(bob, "nothing") == []


@pytest.mark.requirement("R393")
def test_a_changed_role_applies_at_once_and_is_in_the_owners_log(member: Membership, bob: User):
    assert sharing.set_role(member, "editor", by=member.topic.owner.actor)

    assert shared_with(bob, "viewer", "commenter") == []
    assert shared_with(bob, "commenter", "editor") == [member.topic]
    line = Activity.objects.for_user(member.topic.owner).first()
    assert line is not None
    assert (line.kind, line.actor) == ("topic-role-changed", "human:alice")
    assert line.detail == {"member": "bob", "role": "editor"}
    assert not sharing.set_role(member, "editor", by=member.topic.owner.actor)


def test_an_unknown_role_changes_nothing(member: Membership, bob: User):
    with pytest.raises(InvalidValue):
        sharing.set_role(member, "owner", by=member.topic.owner.actor)

    assert shared_with(bob, "viewer") == [member.topic]


def test_it_ends_at_once(member: Membership, bob: User):
    assert sharing.remove_member(member, by=bob.actor)

    assert shared_with(bob) == []
    assert not sharing.remove_member(member, by=bob.actor)


@pytest.mark.parametrize(
    "fields",
    [{"sensitivity": "sensitive"}, {"trust": "quarantined"}, {"trashed_at": "2026-01-01T00:00Z"}],
)
def test_what_the_owner_keeps_back_is_shared_with_no_one(
    member: Membership, bob: User, fields: dict[str, str]
):
    Topic.objects.filter(pk=member.topic_id).update(**fields)

    assert shared_with(bob) == []


def test_a_disabled_owners_topics_are_shared_with_no_one(member: Membership, bob: User):
    User.objects.filter(pk=member.topic.owner_id).update(is_active=False)

    assert shared_with(bob) == []


@pytest.mark.parametrize(
    ("name", "role", "field"),
    [
        ("", "viewer", "username"),
        ("alice", "viewer", "username"),  # the owner
        ("bob", "owner", "role"),
    ],
)
def test_who_can_not_be_added(topic: Topic, bob: User, name: str, role: str, field: str):
    with pytest.raises(InvalidValue) as caught:
        sharing.add_member(topic, name, role, by=topic.owner.actor)

    assert list(caught.value.errors) == [field]
    assert not Membership.objects.exists()


@pytest.mark.parametrize("name", ["bob", "carol"])  # an account, and none
def test_no_name_is_added_twice(topic: Topic, bob: User, name: str):
    sharing.add_member(topic, name, "viewer", by=topic.owner.actor)

    with pytest.raises(InvalidValue, match="already a member"):
        sharing.add_member(topic, name, "viewer", by=topic.owner.actor)


def test_a_name_without_an_account_waits_for_one(topic: Topic, bob: User):
    member = sharing.add_member(topic, "carol", "commenter", by=topic.owner.actor)
    assert member.user is None
    User.objects.create_user("Carol")
    carol = User.objects.create_user("carol")

    member.refresh_from_db()
    assert (member.user, shared_with(carol, "commenter")) == (carol, [topic])
    assert shared_with(bob) == [] and Membership.objects.count() == 1
    sharing.remove_member(sharing.add_member(topic, "dora", "viewer", by=topic.owner.actor), by=topic.owner.actor)  # fmt: skip
    assert shared_with(User.objects.create_user("dora")) == []


@pytest.mark.parametrize("days", [29, 31])
def test_a_name_waits_thirty_days_for_an_account(topic: Topic, days: int):
    member = sharing.add_member(topic, "carol", "viewer", by=topic.owner.actor)
    Membership.objects.update(created=timezone.now() - timedelta(days=days))

    carol = User.objects.create_user("carol")

    assert shared_with(carol) == ([topic] if days < 30 else [])
    assert list(topic.members.all()) == [member]  # the owner sees no difference


@pytest.mark.parametrize("is_first", [True, False])
def test_a_name_finds_its_account_in_any_unicode_form(topic: Topic, is_first: bool):
    decomposed, composed = "Jose\u0301", "Jos\u00e9"
    if is_first:
        User.objects.create_user(decomposed)  # is stored composed
    sharing.add_member(topic, decomposed, "viewer", by=topic.owner.actor)
    user = User.objects.get(username=composed) if is_first else User.objects.create_user(composed)

    assert shared_with(user) == [topic]
    with pytest.raises(InvalidValue, match="already a member"):
        sharing.add_member(topic, composed, "viewer", by=topic.owner.actor)


def test_so_many_can_be_added_an_hour(topic: Topic, bob: User, monkeypatch: Any):
    monkeypatch.setattr(Membership, "MAX_PER_HOUR", 1)
    first = sharing.add_member(topic, "nobody", "viewer", by=topic.owner.actor)
    sharing.remove_member(first, by=topic.owner.actor)

    with pytest.raises(RunNotAllowed, match="reached the limit of"):
        sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)
    assert not Membership.objects.exists()


def test_there_are_at_most_so_many(member: Membership, admin: User, monkeypatch: Any):
    monkeypatch.setattr(Membership, "MAX", 1)

    with pytest.raises(InvalidValue, match="at most 1 member"):
        sharing.add_member(member.topic, "admin", "viewer", by=member.topic.owner.actor)


def test_the_owners_log_says_who_came_and_went(member: Membership, bob: User):
    sharing.remove_member(member, by=bob.actor)

    lines = Activity.objects.for_user(member.topic.owner).filter(kind__startswith="topic-")
    told = [(line.kind, line.actor, line.detail.get("member")) for line in lines.order_by("id")]
    assert told[-2:] == [("topic-shared", "human:alice", "bob"), ("topic-left", "human:bob", "bob")]


def test_the_mark_only_moves_forward(member: Membership):
    sharing.mark_read(member, 3)
    sharing.mark_read(member, 2)

    member.refresh_from_db()
    assert member.read_run == 3


def test_a_purged_topic_has_no_members(member: Membership):
    topic = member.topic
    topic.trash(by=topic.owner.actor)
    topic.purge(by=topic.owner.actor)

    assert not Membership.objects.exists()


def while_open(begin: Callable[[], Any], then: Callable[[], Any]) -> Any:
    """Return what `then` returns, called in another thread before the transaction of `begin` ends."""

    def other() -> Any:
        try:
            return then()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            begin()
            waiting = pool.submit(other)
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
        return waiting.result(30)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_first", [True, False])
def test_sharing_with_a_name_waits_for_its_account_that_is_being_created(
    topic: Topic, is_first: bool
):
    def create() -> object:
        return User.objects.create_user("carol")

    def share() -> object:
        return sharing.add_member(topic, "carol", "viewer", by=topic.owner.actor)

    while_open(*((create, share) if is_first else (share, create)))

    assert Membership.objects.get().user == User.objects.get(username="carol")


@pytest.mark.django_db(transaction=True)
def test_the_hourly_limit_counts_simultaneous_requests_for_other_topics(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    other = make_topic(topic.owner, "Another subject")
    monkeypatch.setattr(Membership, "MAX_PER_HOUR", 1)
    by = topic.owner.actor

    with pytest.raises(RunNotAllowed, match="reached the limit of"):
        while_open(
            lambda: sharing.add_member(topic, "bob", "viewer", by=by),
            lambda: sharing.add_member(other, "carol", "viewer", by=by),
        )
