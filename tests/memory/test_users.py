"""Accounts: made by one-time links, each with what it starts with."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from memory.accounts import people
from memory.models import Activity, Agent, Invitation, Revision, Topic, User
from memory.models.errors import InvalidValue

ACCOUNT = {"username": "first", "password": "horse-battery-staple"}


def link_of(capsys: Any) -> str:
    call_command("first_account_link")
    return str(capsys.readouterr().out)


def test_an_account_starts_with_the_research_agent_whose_memory_is_on(alice: User) -> None:
    assert Agent.objects.for_user(alice).get().enable_memory


def test_the_command_prints_the_link_alone(db: None, capsys: Any, settings: Any) -> None:
    settings.BEACON_URL = "https://beacon.example"

    printed = link_of(capsys)

    assert printed.startswith("https://beacon.example/first-account/")
    assert printed.endswith("/\n")


def test_once_there_is_an_account_the_command_prints_no_link_and_says_why(
    alice: User, capsys: Any
) -> None:
    call_command("first_account_link")
    said = capsys.readouterr()

    assert said.out == ""
    assert "There’s already an account" in said.err


def test_a_newer_first_link_replaces_the_older_one(db: None) -> None:
    _invitation, older = Invitation.create_with_token(by=None, is_first=True)
    _invitation, newer = Invitation.create_with_token(by=None, is_first=True)

    assert Invitation.open_for(older) is None
    assert Invitation.open_for(newer) is not None


def test_only_the_hash_of_a_link_is_stored(db: None) -> None:
    invitation, token = Invitation.create_with_token(by=None, note="Carol")

    assert token not in str(Invitation.objects.filter(pk=invitation.pk).values())


def test_a_link_is_dead_after_seven_days(db: None) -> None:
    _invitation, token = Invitation.create_with_token(by=None)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert Invitation.open_for(token) is None


def test_a_link_makes_one_account(db: None) -> None:
    invitation, _token = Invitation.create_with_token(by=None)

    assert invitation.accept(**ACCOUNT) is not None
    assert invitation.accept(username="second", password="horse-battery-staple") is None


@pytest.mark.django_db(transaction=True)
def test_two_people_with_the_first_link_at_once_make_one_account() -> None:
    invitation, _token = Invitation.create_with_token(by=None, grants_admin=True, is_first=True)
    both = threading.Barrier(2)

    def take(name: str) -> None:
        both.wait(10)
        Invitation.objects.get(pk=invitation.pk).accept(username=name, password="horse-battery")
        connection.close()

    threads = [threading.Thread(target=take, args=[name]) for name in ("carol", "dave")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert User.objects.count() == 1


def test_an_account_that_is_deleted_takes_its_history_along(alice: User) -> None:
    Topic.objects.create_topic(owner=alice, title="Batteries", by=alice.actor)

    alice.delete()

    assert not Revision.objects.exists()
    assert not Topic.objects.exists()


@pytest.mark.parametrize("how", ["disabled by staff", "closed elsewhere"])
def test_the_links_of_a_disabled_account_open_nothing(admin: User, how: str) -> None:
    other = User.objects.create_superuser("other", password="horse-battery")
    invitation, token = people.invite(by=other, note="Carol", grants_admin=True)
    if how == "disabled by staff":
        people.disable(other, by=admin)
    else:
        User.objects.filter(pk=other.pk).update(is_active=False)

    assert Invitation.open_for(token) is None
    assert invitation.accept(**ACCOUNT) is None


def test_links_revoked_by_disabling_stay_so_when_it_is_enabled(admin: User) -> None:
    other = User.objects.create_superuser("other", password="horse-battery")
    _invitation, token = people.invite(by=other, note="Carol", grants_admin=True)
    people.disable(other, by=admin)

    people.enable(other, by=admin)

    assert Invitation.open_for(token) is None
    assert Activity.objects.filter(kind="invitation-revoked", label="Carol").exists()


def test_no_one_disables_their_own_account(admin: User) -> None:
    with pytest.raises(InvalidValue, match="your own account"):
        people.disable(admin, by=admin)


def test_who_isnt_open_staff_any_longer_disables_no_one(admin: User, alice: User) -> None:
    User.objects.filter(pk=admin.pk).update(is_active=False)

    with pytest.raises(InvalidValue, match="At least one admin is required"):
        people.disable(alice, by=admin)


def test_disabling_is_in_the_persons_log(admin: User, alice: User) -> None:
    people.disable(alice, by=admin)

    line = Activity.objects.for_user(alice).get()
    assert (line.kind, line.actor) == ("account-disabled", "human:admin")
