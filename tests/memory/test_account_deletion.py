"""Deleting an account deletes all its rows, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from axes.models import AccessAttempt
from django.apps import apps
from django.contrib.sessions.models import Session as BrowserSession
from django.db import OperationalError, models, transaction
from django.test import Client

from memory.accounts import people
from memory.accounts.archive import jobs
from memory.models import Activity, Archive, Note, Topic, User
from memory.models.errors import InvalidValue
from memory.services import scratchpad, topic_memory
from memory.services.library import documents as library_services
from research.models import Run
from research.services.extensions.content import end_runs
from tests.pages.topic_cast import make, reported
from tests.research.factories import make_run, make_topic


def owned_by(person_pk: int) -> dict[str, int]:
    """How many rows each table holds that lead to the account by any chain of foreign keys."""
    found = {}
    for model in apps.get_models():
        for path in _paths(model):
            number = model._base_manager.filter(**{path: person_pk}).count()
            if number:
                found[f"{model._meta.label} by {path}"] = number
    return found


def _paths(model: type[models.Model], seen: tuple[Any, ...] = ()) -> Iterator[str]:
    for field in model._meta.concrete_fields:
        target = field.related_model
        if target is User:
            yield field.name
        elif isinstance(target, type) and target not in (*seen, model):
            for rest in _paths(target, (*seen, model)):
                yield f"{field.name}__{rest}"


def fill(person: User) -> None:
    """Give the account something of most kinds."""
    topic = make(person, f"Batteries of {person}")
    reported(topic, 1, changes=2)
    Note.objects.create(owner=person, content="A note")
    Topic.objects.create_topic(owner=person, title="Put away", by=person.actor).trash(
        by=person.actor
    )
    scratchpad.set_value(person, "plan", "x", by=person.actor)
    library_services.add_document(person, text="# A paper\n\nWords.", by=person.actor)
    client = Client()
    client.post(
        "/sign-in/",
        {"username": person.username, "password": f"{person.username}-horse-battery"},
    )
    AccessAttempt.objects.create(
        username=person.username, ip_address="127.0.0.1", failures_since_start=1
    )
    jobs.perform(jobs.ask_export(person).pk)


def test_no_row_of_the_account_is_left_and_none_of_anothers_is_touched(
    alice: User, bob: User, django_capture_on_commit_callbacks: Any
) -> None:
    fill(alice)
    fill(bob)
    pk, before, sessions = alice.pk, owned_by(bob.pk), BrowserSession.objects.count()
    assert len(owned_by(pk)) > 15
    file = Archive.objects.get(owner=alice).file

    with django_capture_on_commit_callbacks(execute=True):
        people.delete_account(alice, typed="alice", by=alice)

    assert owned_by(pk) == {}
    assert owned_by(bob.pk) == before
    assert BrowserSession.objects.count() == sessions - 1
    assert not AccessAttempt.objects.filter(username="alice").exists()
    assert not file.exists()


def test_a_run_that_is_going_ends_first_and_its_worker_holds_it_no_more(alice: User) -> None:
    run = make_run(make_topic(alice), saved=False)
    with transaction.atomic():
        end_runs(alice)
        assert not run.held().exists()
        assert Run.objects.get(pk=run.pk).status == Run.Status.CANCELLED
    people.delete_account(alice, typed="alice", by=alice)
    assert not Run.objects.exists()


def test_a_worker_that_writes_at_that_very_moment_keeps_no_account(
    alice: User, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out, tries = people._delete, []

    def in_the_way(person: User, by: User) -> None:
        tries.append(by)
        if len(tries) == 1:
            raise OperationalError("deadlock detected")
        carried_out(person, by)

    monkeypatch.setattr(people, "_delete", in_the_way)
    people.delete_account(alice, typed="alice", by=admin)

    assert len(tries) == 2
    assert not User.objects.filter(username="alice").exists()


def test_what_goes_is_counted_in_one_query(alice: User, django_assert_num_queries: Any) -> None:
    fill(alice)
    with django_assert_num_queries(1):
        goes = dict(people.deletion_summary(alice))
    assert (goes["topics"], goes["runs"], goes["scratchpad entries"]) == (2, 1, 1)
    assert goes["exports and imports"] == 1


def test_the_last_admin_account_stays_and_it_is_said_what_to_do(admin: User, alice: User) -> None:
    with pytest.raises(InvalidValue, match="Invite another admin"):
        people.delete_account(admin, typed="admin", by=admin)
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    people.delete_account(admin, typed="admin", by=admin)
    assert not User.objects.filter(username="admin").exists()


def test_a_disabled_staff_member_does_not_count(admin: User, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_active=False)
    with pytest.raises(InvalidValue, match="only active admin account"):
        people.delete_account(admin, typed="admin", by=admin)


@pytest.mark.parametrize("typed", ["", "Alice", "bob", "alice\0"])
def test_another_name_deletes_nothing(alice: User, typed: str) -> None:
    with pytest.raises(InvalidValue, match="That doesn’t match"):
        people.delete_account(alice, typed=typed, by=alice)
    assert User.objects.filter(pk=alice.pk).exists()


def test_the_log_of_an_admin_names_who_went_and_a_persons_own_going_names_no_one(
    admin: User, alice: User, bob: User
) -> None:
    people.delete_account(alice, typed="alice", by=admin)
    people.delete_account(bob, typed="bob", by=bob)
    lines = Activity.objects.filter(kind="account-deleted").order_by("id")
    assert [(line.owner_id, line.label) for line in lines] == [(admin.pk, "alice"), (None, "")]


def test_published_topics_are_taken_down(alice: User, settings: Any) -> None:
    settings.BEACON_PUBLISH_OWNER = "alice"
    topic = make_topic(alice)
    make_run(topic)
    assert topic_memory.publish(topic.pk)
    people.delete_account(alice, typed="alice", by=alice)
    with redis.Redis.from_url(settings.REDIS_URL) as server:
        assert server.get(topic_memory.KEY.format(slug=topic.slug)) is None


def test_a_redis_that_does_not_answer_keeps_the_account(alice: User, settings: Any) -> None:
    settings.BEACON_PUBLISH_OWNER = "alice"
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(InvalidValue, match="Redis"):
        people.delete_account(alice, typed="alice", by=alice)
    assert User.objects.filter(pk=alice.pk).exists()
